"""A comparison on a real SGLang, packed, unpacked in a fresh folder, and measured again from there alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.e2e.conftest import Project
from tests.support.stranger import run_again

pytestmark = [pytest.mark.engine, pytest.mark.e2e, pytest.mark.timeout(1500)]
LOAD = ("--driver", "light", "--concurrency", "16", "--requests", "96", "--pairs", "2", "--no-warm", "--yes")


def test_a_stranger_compares_again_from_the_bundle_alone(local: Project, tmp_path: Path) -> None:
    original = local.hashes()
    done = local.run("ab", "--recipe", "oea", "--set", "k0=2", *LOAD, "--json")
    first = json.loads(done.stdout)
    assert done.returncode in (0, 8) and len(first["trials"]) == 4, done.stderr
    archive = tmp_path / "bundle.tar.gz"
    local.oeactl("results", "bundle", "last", "--out", str(archive))
    local.oeactl("stop", "--yes")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "elsewhere", filter="data")
    (bundle,) = (tmp_path / "elsewhere").iterdir()
    shutil.rmtree(local.folder / "results")
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=bundle, check=True)
    again = run_again(bundle, "--yes", "--json", timeout_s=1200)
    assert again.returncode in (0, 8), again.stderr  # 8: a level is void, on a machine that others use too
    second = json.loads(again.stdout)
    for key in ("sweep", "arms", "trials"):
        assert second["plan"][key] == first["plan"][key]
    prompts = {one["name"]: [point["workload_sha256"] for point in one["points"]] for one in first["trials"]}
    taken = [one for one in second["trials"] if one["points"]]
    assert {one["arm"] for one in taken} == {"A", "B"}
    for one in taken:
        assert [point["workload_sha256"] for point in one["points"]] == prompts[one["name"]]
    assert len(list((bundle / "results" / "runs").glob("*/*/plan.json"))) == 2
    assert local.hashes() == original
