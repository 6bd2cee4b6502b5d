"""A running server, or the script that begins it, becomes an entry that starts the same again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from oeactl.cli.app import main
from tests.support.patience import until
from tests.support.served import Served, served
from tests.support.serving import STANDIN

KEY = "sk-very-secret"
COMMENTED = """\
# my machines
default_host: "@local"   # this one
defaults:
  engine: {python: PYTHON}

hosts:
  far:            # do not touch
    address: 10.0.0.9
    engine: {python: /usr/bin/python3}

  # here
  "@local":
    state_dir: STATE   # on the fast disk

# the end
"""


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    one = served(tmp_path, capsys)
    text = COMMENTED.replace("STATE", str(one.standin.state_dir)).replace("PYTHON", sys.executable)
    (tmp_path / "hosts.yaml").write_text(text)
    yield one
    one.standin.clear()


def begun_by_hand(place: Served) -> dict[str, str]:
    """The environment in which somebody starts a server in a shell."""
    return {
        **{name: value for name, value in os.environ.items() if name != "API_KEY"},
        "PYTHONPATH": str(place.tree.site),
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_P2P_LEVEL": "SYS",
        "HF_TOKEN": "hf_very_secret",
        "SOME_NOISE": "of a login",
        "WANTED": "all the same",
    }


@contextmanager
def by_hand(place: Served, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server begun in a shell, without oeactl: its output in a file."""
    python = place.folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", str(place.folder / "venv")], check=True
        )
    argv = [str(python), "-u", str(STANDIN), "--port", str(place.standin.port), "--api-key", KEY, *more]
    work = place.folder / "work"
    work.mkdir(exist_ok=True)
    mine = place.folder / "mine.log"
    before = mine.stat().st_size if mine.exists() else 0
    with mine.open("ab") as log:
        process = subprocess.Popen(
            argv, env=begun_by_hand(place), cwd=work, stdout=log, stderr=log, start_new_session=True
        )
    try:
        until(lambda: b"ready to roll" in mine.read_bytes()[before:])
        yield process
    finally:
        with suppress(ProcessLookupError):  # the test may have stopped it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def words_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def variables_of(pid: int) -> dict[str, str]:
    items = Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
    return dict(item.split("=", 1) for item in items)


def test_the_entry_starts_a_server_with_the_same_argv_folder_and_environment(
    place: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with by_hand(place, "--workers", "plain") as mine:
        words, variables = words_of(mine.pid), variables_of(mine.pid)
        found = place.oeactl("adopt", "--port", str(place.standin.port), "--env", "WANTED", "--yes")
        assert found["written"] and KEY not in (place.folder / "hosts.yaml").read_text()
        assert "hf_very_secret" not in (place.folder / "hosts.yaml").read_text()
        assert found["engine"] == f"sglang 0.0.1 in {place.tree.root}"
        assert set(found["secrets"]) == {"API_KEY", "HF_TOKEN"}
        assert "SOME_NOISE" in found["left_out"]
        assert any("server.gpus" in line for line in found["not_inferred"])
        monkeypatch.setenv("API_KEY", KEY)
        monkeypatch.setenv("HF_TOKEN", "hf_very_secret")

        error = place.oeactl("restart", code=2)["error"]
        assert "--yes" in error["hint"] and mine.poll() is None
        pid = place.oeactl("restart", "--yes")["pid"]
        assert mine.wait(60) is not None
    assert words_of(pid) == words
    assert Path(f"/proc/{pid}/cwd").readlink() == place.folder / "work"
    again = variables_of(pid)
    taken = ("PYTHONPATH", "CUDA_VISIBLE_DEVICES", "NCCL_P2P_LEVEL", "HF_TOKEN", "WANTED", "PATH", "HOME")
    assert {name: again[name] for name in taken} == {name: variables[name] for name in taken}
    assert "SOME_NOISE" not in again
    assert str(place.folder / "mine.log") in Path(f"/proc/{pid}/fd/1").readlink().as_posix()


def test_every_other_line_of_the_file_stays(place: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place.folder / "hosts.yaml"
    before = path.read_text().splitlines()
    with by_hand(place) as mine:
        place.oeactl("adopt", "--pid", str(mine.pid), "--yes")
    after = path.read_text().splitlines()
    assert [line for line in after if line in before] == before
    at = after.index("# the end")
    assert before[-1] == "# the end" and len(after) > len(before)
    server = yaml.safe_load(path.read_text())["hosts"]["@local"]["server"]
    assert server["url"] == place.standin.url and server["api_key_env"] == "API_KEY"
    assert at == len(after) - 1


def test_nothing_is_written_without_a_yes_or_in_a_dry_run(place: Served) -> None:
    path = place.folder / "hosts.yaml"
    before = path.read_bytes()
    with by_hand(place) as mine:
        error = place.oeactl("adopt", "--pid", str(mine.pid), code=2)["error"]
        assert "--yes" in error["hint"]
        found = place.oeactl("adopt", "--pid", str(mine.pid), "--dry-run")
        assert found["written"] is None and found["entry"]["server"]["url"] == place.standin.url
        assert mine.poll() is None
    assert path.read_bytes() == before


def test_an_entry_that_says_something_else_is_replaced_only_when_told(
    place: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setenv("HF_TOKEN", "x")
    with by_hand(place) as mine:
        place.oeactl("adopt", "--pid", str(mine.pid), "--yes")
        first = (place.folder / "hosts.yaml").read_text()
        place.oeactl("adopt", "--pid", str(mine.pid), "--yes")
        assert (place.folder / "hosts.yaml").read_text() == first
    with by_hand(place, "--workers", "plain") as mine:
        error = place.oeactl("adopt", "--pid", str(mine.pid), "--yes", code=3)["error"]
        assert "has another 'server' already" in error["what"] and "--replace" in error["hint"]
        place.oeactl("adopt", "--pid", str(mine.pid), "--yes", "--replace")
        text = (place.folder / "hosts.yaml").read_text()
        assert "--workers" in text and text.count("server:") == 1 and "# do not touch" in text


def test_where_nobody_listens_or_no_python_runs_it_is_said(place: Served) -> None:
    error = place.oeactl("adopt", "--port", str(place.standin.port), code=2)["error"]
    assert f"nobody listens on port {place.standin.port}" in error["what"]
    sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        error = place.oeactl("adopt", "--pid", str(sleeper.pid), code=2)["error"]
        assert "is no Python program" in error["what"]
    finally:
        sleeper.kill()
        sleeper.wait()
    error = place.oeactl("adopt", "--pid", "1", "--port", "2", code=2)["error"]
    assert "name a server each" in error["what"]


def test_a_script_is_read_and_never_run(place: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    script = place.folder / "launch.sh"
    touched = place.folder / "ran"
    script.write_text(
        f"#!/bin/bash\ntouch {touched}\nsource {place.folder}/venv/bin/activate\n"
        f"export PYTHONPATH={place.tree.site}\nexport HF_TOKEN=hf_very_secret\nPORT={place.standin.port}\n"
        f"cd {place.folder}\n"
        "nohup python -m sglang.launch_server --model-path /m \\\n"
        f"  --port $PORT --api-key {KEY} > out.log 2>&1 &\n"
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place.folder / "venv")], check=True)
    found = place.oeactl("adopt", "--script", str(script), "--yes")
    assert not touched.exists()
    server = found["entry"]["server"]
    assert found["entry"]["engine"]["python"] == f"{place.folder}/venv/bin/python"
    assert server["argv"] == [
        "-m", "sglang.launch_server", "--model-path", "/m", "--port", str(place.standin.port),
        "--api-key", "${API_KEY}",
    ]  # fmt: skip
    assert server["env"] == {"PYTHONPATH": str(place.tree.site), "HF_TOKEN": "${HF_TOKEN}"}
    assert server["log"] == f"{place.folder}/out.log" and server["cwd"] == str(place.folder)
    assert KEY not in (place.folder / "hosts.yaml").read_text()
    assert any("touch" in line for line in found["not_inferred"])
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setenv("HF_TOKEN", "x")
    assert place.oeactl("hosts", "@local")["server"]["argv"][-1] == "[redacted]"


def test_a_person_sees_the_entry_and_what_is_not_known(place: Served) -> None:
    with by_hand(place) as mine:
        assert main(["adopt", "--pid", str(mine.pid), "--dry-run", "--project", str(place.folder)]) == 0
    out, _ = place.capsys.readouterr()
    assert "hosts:" in out and "not inferred:" in out and "export API_KEY=…" in out
    assert KEY not in out and "hf_very_secret" not in out
    assert "nothing was written" in out


def test_a_name_that_is_not_in_the_file_is_reached_as_a_new_host(place: Served) -> None:
    error = place.oeactl("adopt", "--host", "localhost.invalid", "--port", "1", code=4)["error"]
    assert "localhost.invalid" in error["what"]
    error = place.oeactl("adopt", "--host", "not a name", code=2)["error"]
    assert "unknown host 'not a name'" in error["what"]
