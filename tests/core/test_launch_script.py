"""A launch script is read as sh reads it, as far as such scripts go; the rest is named with its line."""

from __future__ import annotations

from typing import Any

import pytest

from oeactl.core.launch_script import adopt_script
from oeactl.errors import UsageError


def server(text: str) -> dict[str, Any]:
    found: dict[str, Any] = adopt_script(text, "/root/launch.sh").entry["server"]
    return found


def test_variables_exports_defaults_and_continued_lines() -> None:
    text = (
        "#!/usr/bin/env bash\nset -euo pipefail\nMODEL=/models/glm   # big\n"
        'export NCCL_P2P_LEVEL=SYS CUDA_VISIBLE_DEVICES="0,1"\nOTHER=1\n'
        "TP=${TP:-8}\n\n"
        "OMP_NUM_THREADS=1 exec /opt/v/bin/python3 -m sglang.launch_server \\\n"
        '  --model-path "$MODEL" \\\n  --tp ${TP} --port 31000 2>&1\n'
    )
    found = adopt_script(text, "/root/launch.sh")
    assert found.entry["engine"] == {"python": "/opt/v/bin/python3"}
    assert found.entry["server"]["argv"] == [
        "-m", "sglang.launch_server", "--model-path", "/models/glm", "--tp", "8", "--port", "31000",
    ]  # fmt: skip
    assert found.entry["server"]["env"] == {
        "NCCL_P2P_LEVEL": "SYS",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "OMP_NUM_THREADS": "1",
    }
    assert found.entry["server"]["url"] == "http://127.0.0.1:31000"
    assert found.entry["server"]["cwd"] == "/root" and found.model == "/models/glm"
    assert found.learned == ("/root/launch.sh, line 8; read, not run",)


def test_a_digit_before_a_redirection_is_no_argument_and_one_apart_is() -> None:
    line = "/v/bin/python -m sglang.launch_server --tp 2 > /var/log/a.log 2>&1 &\n"
    assert server(line)["argv"] == ["-m", "sglang.launch_server", "--tp", "2"]
    assert server(line)["log"] == "/var/log/a.log"


def test_folder_and_interpreter_follow_cd_and_activate() -> None:
    text = "cd /srv && . /srv/venv/bin/activate\ncd app; python -m sglang.launch_server >>x.log\n"
    found = adopt_script(text, "/root/launch.sh").entry
    assert found["engine"]["python"] == "/srv/venv/bin/python"
    assert found["server"]["cwd"] == "/srv/app" and found["server"]["log"] == "/srv/app/x.log"


def test_sglang_serve_is_the_same_engine() -> None:
    found = adopt_script("/v/bin/sglang serve --model-path /m --port 3\n", "/l.sh").entry
    assert found["engine"]["python"] == "/v/bin/python"
    assert found["server"]["argv"] == ["-m", "sglang.launch_server", "--model-path", "/m", "--port", "3"]


def test_secrets_are_never_in_it() -> None:
    text = "export HF_TOKEN=hf_1\n/v/bin/python -m sglang.launch_server --api-key sk-1 --hf-token=hf_2\n"
    found = adopt_script(text, "/l.sh")
    assert found.entry["server"]["argv"][2:] == ["--api-key", "${API_KEY}", "--hf-token=${HF_TOKEN}"]
    assert found.entry["server"]["env"] == {"HF_TOKEN": "${HF_TOKEN}"}
    assert found.entry["server"]["api_key_env"] == "API_KEY"
    assert not {"sk-1", "hf_1", "hf_2"} & set(repr(found).replace("'", " ").split())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("HOST=$(hostname -I)", "line 1: its value is not known before it runs"),
        ("PORT=$1", "line 1: its value is not known before it runs"),
        ("A=$NOWHERE", "line 1: $NOWHERE is not set in the script"),
        ("for i in 1 2 3", "line 1: not followed: for i in 1 2 3"),
        ("ssh other python -m x", "line 1: not followed"),
        ("echo 'open", "line 1: not followed (No closing quotation)"),
    ],
)
def test_what_cannot_be_followed_is_named(line: str, said: str) -> None:
    found = adopt_script(f"{line}\n/v/bin/python -m sglang.launch_server\n", "/l.sh")
    assert any(said in unknown for unknown in found.unknown), found.unknown


def test_a_script_that_begins_no_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="no command that begins an engine"):
        adopt_script("echo hello\ndocker run x\n", "/l.sh")
