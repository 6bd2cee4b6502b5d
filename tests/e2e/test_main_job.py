"""The main job on a real SGLang: bench, patch, prove, bench, status, revert; the routing from outside."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from tests.e2e import asking
from tests.e2e.conftest import VOID, Project

pytestmark = [pytest.mark.engine, pytest.mark.timeout(2400)]

LIGHT = ("--driver", "light")


def rate(project: Project, level: int, *more: str) -> float:
    """Output tokens a second at a level, from a bench of that level; every gate of it holds.

    Again where others had the cores meanwhile, or where no sample fell on what is told now and then.
    """
    for fine in ((VOID,), (VOID,), (VOID,), ()):
        point = bench(project, level, *more, fine=fine)
        if point["valid"] and told(point, level):
            break
    assert point["valid"], point["reasons"]
    watched(point, level)
    # Only our own client tells how late its loop was.
    assert (point["client"]["lag_mean_ms"] is not None) == ("light" in more)
    return float(point["measurement"]["output_tokens_per_s"])


def bench(project: Project, level: int, *more: str, fine: Sequence[int] = ()) -> dict[str, Any]:
    run = project.oeactl("bench", "--concurrency", str(level), *more, fine=fine)
    (point,) = run["trials"][0]["points"]
    found: dict[str, Any] = point
    return found


def told(point: dict[str, Any], level: int) -> bool:
    """Whether two samples or more fell into the level, and of several streams one while they ran."""
    engine = point["watched"]["engine"]
    running = engine["running"] or {"max": 0}
    return engine["queue_s"] is not None and (level == 1 or running["max"] > 0)


def watched(point: dict[str, Any], level: int) -> None:
    """What a real SGLang says of itself while it is measured, and what its own client costs."""
    engine = point["watched"]["engine"]
    assert engine["kv_total_tokens"] == 65536
    if level > 1:  # told now and then only: of single short requests all may be missed
        assert 0 < engine["running"]["max"] <= level
        assert 0 < engine["kv_available_tokens"]["min"] < 65536 and engine["kv_used_tokens"]["max"] > 0
    assert engine["queue_s"] is not None and engine["queue_s"] >= 0
    assert point["watched"]["cpu_busy"]["mean"] > 0.2 / (os.cpu_count() or 1)
    assert point["watched"]["cards"] == [] and point["watched"]["unseen"]["cards"] == "no nvidia-smi here"
    assert 0 < point["client"]["busiest_core"] < 1.1


@pytest.mark.sshd
def test_bench_patch_prove_bench_status_revert_over_ssh(remote: Project) -> None:
    original = remote.hashes()
    remote.oeactl("start")
    rate(remote, 1)  # by SGLang's own client, which has to begin for each burst: seconds a time
    before, slow = asking.see(remote.url), rate(remote, 16, *LIGHT)

    patched = remote.oeactl("patch", "--set", "k0=2", "--yes")
    assert patched["status"] == "patched" and patched["live"] == "restarted"
    (verdict,) = patched["proof"]
    assert verdict["overall"] == "taken" and len(verdict["workers"]) == 1
    assert all(now != then for now, then in zip(remote.hashes(), original, strict=True))

    during, fast = asking.see(remote.url), rate(remote, 16, *LIGHT)
    if fast <= 1.1 * slow:  # another process may have had the core: once more, in quiet
        fast = rate(remote, 16, *LIGHT)
    asking.check_only_decode_changed(before, during)
    assert fast > 1.1 * slow

    status = remote.oeactl("status")
    assert status["agrees"] and status["live"][0]["overall"] == "taken"
    again = remote.oeactl("patch", "--set", "k0=2")
    assert again["status"] == "already applied"

    reverted = remote.oeactl("revert", "--yes")
    assert reverted["status"] == "reverted" and reverted["live"] == "restarted"
    assert remote.hashes() == original
    assert asking.texts(remote.url, asking.SIXTEEN, 24) == before.texts
    assert remote.oeactl("revert")["status"] == "nothing to revert"
    assert remote.oeactl("status")["agrees"]


def test_the_same_on_this_machine_and_a_dry_run_changes_nothing(local: Project) -> None:
    original = local.hashes()
    traces = local.traces()
    dry = local.oeactl("patch", "--set", "k0=2", "--dry-run")
    assert dry["status"] == "dry-run" and all(file["diff"] for file in dry["files"])
    assert local.traces() == traces

    patched = local.oeactl("patch", "--set", "k0=2")  # the server is down: no question, it is started
    assert patched["live"] == "started" and patched["proof"][0]["overall"] == "taken"
    traces = local.traces()
    local.oeactl("patch", "--set", "k0=3", "--dry-run")
    assert local.traces() == traces
    rate(local, 16, *LIGHT)
    reverted = local.oeactl("revert", "--yes")
    assert reverted["live"] == "restarted"
    assert local.hashes() == original
    assert local.oeactl("status")["agrees"]
