"""A host or a model that a patch does not fit: said before anything is written, by the whole command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from oeactl.cli.app import main
from tests.support import sshd
from tests.support.wheels import engine_file

pytestmark = pytest.mark.network

FILES = ("sglang/srt/layers/moe/topk.py", "sglang/srt/layers/radix_attention.py")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of a real release, and a model of 8 experts a token."""
    for name in FILES:
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(engine_file("0.5.20", name))
    for name in ("__init__.py", "launch_server.py"):
        (tmp_path / "site" / "sglang" / name).write_text("")
    (tmp_path / "site" / "sglang" / "version.py").write_text('__version__ = "0.5.20"\n')
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"num_experts_per_tok": 8}))
    write_hosts(tmp_path, "@local", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    return tmp_path


def write_hosts(folder: Path, name: str, reach: dict[str, object]) -> None:
    entry = {
        **reach,
        "state_dir": str(folder / "state"),
        "engine": {"python": sys.executable, "root": str(folder / "site")},
        "server": {
            "argv": ["-m", "sglang.launch_server", "--model-path", str(folder / "model")],
            "env": {"PYTHONPATH": str(folder / "site")},
            "log": str(folder / "log"),
        },
    }
    (folder / "hosts.yaml").write_text(yaml.safe_dump({"default_host": name, "hosts": {name: entry}}))


def test_more_experts_than_the_model_has_are_refused_before_anything_is_written(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["patch", "--set", "k0=9", "--no-restart"]) == 2
    said = capsys.readouterr().err
    assert "k0 is 9, but a token of this model has only 8 experts" in said and "--set k0=9" in said
    assert not (project / "state").exists()
    assert main(["patch", "--set", "k0=7", "--dry-run"]) == 0


def test_a_read_only_file_is_refused_and_stays(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    router = project / "site" / FILES[0]
    before = router.read_bytes()
    router.chmod(0o444)
    assert main(["patch", "--no-restart"]) == 3
    said = capsys.readouterr().err
    assert "read-only" in said and str(router) in said
    assert router.read_bytes() == before and not (project / "state").exists()


@pytest.mark.sshd
def test_a_changed_host_key_is_refused_with_its_fingerprint(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sshd.running(tmp_path / "ssh") as running:
        sshd.make_key(tmp_path / "other")
        running.known_hosts.write_text("")
        sshd.trust(running.known_hosts, "127.0.0.1", running.port, tmp_path / "other.pub")
        write_hosts(
            project,
            "lab",
            {"address": "127.0.0.1", "port": running.port, "ssh_config": running.ssh_config},
        )
        assert main(["patch", "--no-restart"]) == 4
    said = capsys.readouterr().err
    assert said.count("SHA256:") >= 1 and "known so far" in said and "ssh-keyscan" in said
