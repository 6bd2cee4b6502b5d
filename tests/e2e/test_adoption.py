"""A real SGLang begun by hand is adopted, stopped after a yes, and started again as it was."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import Project

pytestmark = [pytest.mark.engine, pytest.mark.e2e, pytest.mark.timeout(600)]


def words(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def variables(pid: int) -> dict[str, str]:
    items = Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
    return dict(item.split("=", 1) for item in items)


def test_a_real_server_begun_by_hand_becomes_an_entry_that_starts_the_same(local: Project) -> None:
    path = local.folder / "hosts.yaml"
    document = yaml.safe_load(path.read_text())
    entry = document["hosts"][local.host]
    server, python = entry.pop("server"), entry.pop("engine")["python"]
    path.write_text(f"# mine\n{yaml.safe_dump(document, sort_keys=False)}")
    argv = [python, *server["argv"]]
    with (local.folder / "mine.log").open("wb") as log:
        mine = subprocess.Popen(
            argv, env={**os.environ, **server["env"]}, cwd=local.folder, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        limit = time.monotonic() + 240
        while b"fired up and ready" not in (local.folder / "mine.log").read_bytes():
            assert mine.poll() is None and time.monotonic() < limit
            time.sleep(0.5)
        was, environment = words(mine.pid), variables(mine.pid)
        port = local.url.rpartition(":")[2]
        adopted = local.oeactl("adopt", "--port", port, "--yes")
        assert adopted["engine"].startswith("sglang 0.5.20 in ")
        assert adopted["model"] == server["argv"][server["argv"].index("--model-path") + 1]
        assert path.read_text().startswith("# mine\n")
        restarted = local.oeactl("restart", "--yes")
        assert mine.wait(30) is not None
    finally:
        if mine.poll() is None:
            mine.kill()
            mine.wait()
    again = variables(restarted["pid"])
    assert words(restarted["pid"]) == was
    assert {name: again[name] for name in server["env"]} == {
        name: environment[name] for name in server["env"]
    }
    assert local.oeactl("status")["agrees"]
