"""What goes wrong with a real SGLang ends as said: at its start, in its life, in its imports, in a worker."""

from __future__ import annotations

import os
import py_compile
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import asking
from tests.e2e.conftest import Project
from tests.support.patience import until
from tests.support.serving import STANDIN, listens

pytestmark = [pytest.mark.engine, pytest.mark.e2e, pytest.mark.timeout(900)]

BAD = """\
id: bad
revision: 1
title: A patch that raises when the server imports it, and not when the probe does
engine: {package: sglang}
files:
  - module: sglang.srt.layers.moe.topk
    edits:
      - id: raise
        op: append
        code: |
          if __import__("os").environ.get("OEACTL_PROOF") != "0":
              raise RuntimeError("patched badly")
"""
CASE = "module: sglang.srt.layers.moe.topk\nrefuses: nothing\n"


def change(project: Project, **server: Any) -> None:
    """Rewrite keys of the server's entry."""
    path = project.folder / "hosts.yaml"
    document = yaml.safe_load(path.read_text())
    document["hosts"][project.host]["server"].update(server)
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def entry(project: Project) -> dict[str, Any]:
    document = yaml.safe_load((project.folder / "hosts.yaml").read_text())
    found: dict[str, Any] = document["hosts"][project.host]
    return found


def error(project: Project, *words: str, code: int) -> dict[str, Any]:
    found: dict[str, Any] = project.oeactl(*words, code=code)["error"]
    return found


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_goes_wrong_at_the_start_is_told_apart(local: Project) -> None:
    good = entry(local)["server"]
    change(local, argv=[*good["argv"], "--no-such-flag"])
    failed = error(local, "start", code=4)
    assert any("unrecognized arguments: --no-such-flag" in line for line in failed["details"])
    assert failed["hint"] == "correct server.argv in hosts.yaml"

    change(local, argv=good["argv"], ready_timeout="4s")
    failed = error(local, "start", code=4)
    assert "not ready within 4 s" in failed["what"]
    local.oeactl("stop", "--yes")

    change(local, ready_timeout=good["ready_timeout"])
    port = local.url.rpartition(":")[2]
    short = [sys.executable, STANDIN.name, "--port", port]  # of a long command line the end is not shown
    stale = subprocess.Popen(short, cwd=STANDIN.parent, stderr=subprocess.DEVNULL)
    try:
        until(lambda: listens(int(port)))
        failed = error(local, "start", code=3)
        assert f"pid {stale.pid}" in failed["what"] and "standin_server.py" in failed["what"]
        assert stale.poll() is None
    finally:
        stale.kill()
        stale.wait()


def test_a_hang_a_killed_worker_and_a_patch_that_raises(local: Project) -> None:
    recipe = local.folder / "recipes" / "bad"
    (recipe / "cases" / "one").mkdir(parents=True)
    (recipe / "recipe.yaml").write_text(BAD)
    (recipe / "cases" / "one" / "case.yaml").write_text(CASE)
    (recipe / "cases" / "one" / "before.py").write_text("")
    original = local.hashes()
    local.oeactl("start")
    (worker,) = local.oeactl("status")["server"]["workers"]

    os.kill(worker["pid"], signal.SIGSTOP)
    (trouble,) = local.oeactl("status", code=7)["troubles"]
    assert "the server is not well" in trouble["what"]
    os.kill(worker["pid"], signal.SIGCONT)
    until(lambda: local.run("status").returncode == 0)

    load = threading.Thread(target=_load, args=(local.url,), daemon=True)
    load.start()
    time.sleep(1.0)
    os.kill(worker["pid"], signal.SIGKILL)
    load.join()
    found = local.oeactl("status", code=7)
    assert found["server"]["lost"], found["server"]
    assert any("ended" in trouble["what"] for trouble in found["troubles"])
    local.oeactl("stop", "--yes")

    local.oeactl("start")
    failed = error(local, "patch", "--recipe", "bad", "--yes", code=6)
    assert any("RuntimeError: patched badly" in line for line in failed["details"])
    assert local.hashes() == original
    found = local.oeactl("status")
    assert found["agrees"] and found["server"]["healthy"] is True


def _load(url: str) -> None:
    with suppress(OSError):
        asking.batch(url, asking.prompts(8, 16, seed=3), 400)


def test_another_copy_and_stale_bytecode_are_not_taken_for_the_patch(local: Project) -> None:
    mine, other = local.folder / "engine", local.folder / "other"
    shutil.copytree(mine, other, copy_function=os.link)
    document = yaml.safe_load((local.folder / "hosts.yaml").read_text())
    document["hosts"][local.host]["engine"]["root"] = str(mine)
    (local.folder / "hosts.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    env = entry(local)["server"]["env"]
    original = local.hashes()
    change(local, env={**env, "PYTHONPATH": str(other)})
    failed = error(local, "patch", "--set", "k0=2", "--yes", code=6)
    assert "oea is not active: the worker showed no patched code" in failed["what"]
    assert local.hashes() == original

    change(local, env=env)
    local.oeactl("patch", "--set", "k0=2", "--no-restart")
    topk = local.files()[0]
    cached = topk.parent / "__pycache__" / "topk.cpython-311.pyc"
    py_compile.compile(
        str(other / topk.relative_to(mine)),
        cfile=str(cached),
        dfile=str(topk),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    failed = error(local, "start", code=7)
    assert "oea is not active" in failed["what"] and "stale bytecode" in failed["hint"]
    local.oeactl("stop", "--yes")
    local.oeactl("revert")
    assert local.hashes() == original


def test_both_workers_of_two_must_show_it_and_one_that_ends_is_noticed(local: Project) -> None:
    server = entry(local)["server"]
    bind = {**server["env"], "SGLANG_CPU_OMP_THREADS_BIND": "0|1"}
    change(local, argv=[*server["argv"], "--dp", "2"], env=bind)
    patched = local.oeactl("patch", "--set", "k0=2", "--yes")
    (verdict,) = patched["proof"]
    assert verdict["overall"] == "taken" and len(verdict["workers"]) == 2
    assert {one["seen"] for one in verdict["workers"]} == {"eager"}
    assert len({one["worker"]["pid"] for one in verdict["workers"]}) == 2

    first, second = (one["worker"] for one in verdict["workers"])
    proofs = list((local.folder / "state" / "proof").glob(f"*-{second['pid']}.json"))
    kept = {path: path.read_bytes() for path in proofs}
    for path in proofs:
        path.unlink()
    found = local.oeactl("status", code=7)
    assert "oea is not active: 1 of 2 workers showed no patched code" in found["troubles"][0]["what"]
    for path, data in kept.items():
        path.write_bytes(data)
    assert local.oeactl("status")["agrees"]

    os.kill(second["pid"], signal.SIGKILL)
    until(lambda: not lives(second["pid"]))
    found = local.oeactl("status", code=7)
    assert second["pid"] in [one["pid"] for one in found["server"]["lost"]] or not lives(first["pid"])
    assert any("ended" in trouble["what"] for trouble in found["troubles"])
    local.oeactl("stop", "--yes")
    local.oeactl("revert")


def test_an_old_server_one_row_and_a_silenced_worker_are_not_taken_for_active(local: Project) -> None:
    original, good = local.hashes(), entry(local)["server"]
    local.oeactl("start")
    local.oeactl("patch", "--set", "k0=2", "--no-restart")
    (trouble,) = local.oeactl("status", code=7)["troubles"]
    assert trouble["what"] == "oea is not active: the worker showed no patched code"
    assert trouble["remedy"] == "the server was started before the patch: oeactl restart"

    change(local, argv=[*good["argv"], "--max-running-requests", "1"])  # every token decodes alone
    failed = error(local, "restart", "--yes", code=7)
    assert "oea is not yet proven: the worker loaded the patched file" in failed["what"]
    (trouble,) = local.oeactl("status", code=7)["troubles"]
    assert "send it decode traffic of at least min_tokens rows at once" in trouble["remedy"]

    change(local, argv=good["argv"], env={**good["env"], "OEACTL_PROOF": "0"})
    failed = error(local, "restart", "--yes", code=7)
    assert "showed no patched code" in failed["what"] and "OEACTL_PROOF=0" in failed["hint"]
    local.oeactl("stop", "--yes")
    local.oeactl("revert")
    assert local.hashes() == original


def test_a_worker_counts_experts_where_the_engine_does_not_tell(local: Project) -> None:
    server = entry(local)["server"]
    silent = [word for word in server["argv"] if word != "--enable-return-routed-experts"]
    change(local, argv=silent, env={**server["env"], "OEACTL_EXPERTS": "1"})
    local.oeactl("patch", "--set", "k0=2")
    seen = {one["requests"]: one for one in local.oeactl("status", "--experts")["experts"]}
    assert {one["seen_by"] for one in seen.values() if one["outcome"] == "measured"} == {"counter"}, seen
    assert seen[1]["distinct_mean"] == seen[1]["routed_mean"] == 8
    assert 8 < seen[16]["distinct_mean"] < seen[16]["routed_mean"] / 2
