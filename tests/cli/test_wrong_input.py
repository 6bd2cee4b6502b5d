"""Each wrong input ends at once with its exit code, what is wrong, where, and the next step."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oeactl.cli.app import main

HOSTS = """
default_host: closed
hosts:
  closed: {{address: 127.0.0.1, port: {port}, user: nobody}}
  "@local":
    engine: {{python: {python}, root: {root}}}
    server: {{argv: [-m, sglang.launch_server], log: {root}/log}}
    state_dir: {root}/state
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A host whose port is closed, and stays so; this machine with a folder that is no engine."""
    root = tmp_path / "engine"
    root.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        (tmp_path / "hosts.yaml").write_text(HOSTS.format(port=port, python=sys.executable, root=root))
        yield tmp_path


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("patch --host nowhere", 2, ["unknown host 'nowhere'", "hosts.yaml", "hosts: closed, @local"]),
        ("patch --yes", 4, ["nothing listens on 127.0.0.1:", "closed"]),
        ("status", 4, ["nothing listens on 127.0.0.1:", "closed"]),
        ("patch --recipe oae", 2, ["unknown recipe 'oae'", "did you mean 'oea'?"]),
        ("patch --set k0=x", 2, ["k0 must be int, not 'x'", "--set k0=x"]),
        ("patch --set k0=0", 2, ["k0 must be at least 1, not 0", "--set k0=0"]),
        ("patch --set kk=1", 2, ["no parameter 'kk'", "parameters: k0, min_tokens, max_tokens"]),
        ("patch --set k0", 2, ["k0"]),
        ("patch --host @local --dry-run", 2, ["@local", "sglang"]),
        ("bench --concurrency 0", 2, ["positive integers: 64,128,256"]),
        ("bench --concurrency a,b", 2, ["'a' is not a level", "positive integers: 64,128,256"]),
        ("bench --concurrency 4,-1", 2, ["positive integers: 64,128,256"]),
        ("bench --concurrency 4,4", 2, ["--concurrency"]),
        ("results show nope", 2, ["there are no runs", "results/runs"]),
    ],
)
def test_a_wrong_input_is_named(
    line: str, code: int, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == code
    out, err = capsys.readouterr()
    assert out == ""
    message = err.splitlines()[-1]
    assert message.startswith("error: ")
    for words in said:
        assert words in message
    assert "@local, @local" not in message
    assert main([*line.split(), "--json"]) == code
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["exit_code"] == code
    assert err == ""


def test_wrong_inputs_leave_nothing_behind(project: Path) -> None:
    before = sorted(project.rglob("*"))
    for line in ("patch --host @local --dry-run", "status", "bench --concurrency 0"):
        subprocess.run([sys.executable, "-m", "oeactl", *line.split()], capture_output=True, check=False)
    assert sorted(project.rglob("*")) == before
