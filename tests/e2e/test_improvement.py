"""OEA makes a real SGLang faster, and oeactl says so: pairs of restarts on this CPU."""

from __future__ import annotations

import pytest

from tests.e2e.comparing import decided, verdict
from tests.e2e.conftest import Project

pytestmark = [pytest.mark.engine, pytest.mark.timeout(2400)]


def test_oea_comes_out_improved(local: Project) -> None:
    document = decided(local, "ab", "--recipe", "oea", "--set", "k0=1")
    found = verdict(document)
    assert found["says"] == "improved", found
    assert found["effect"]["low"] > 1.0
    arms = [trial["arm"] for trial in document["trials"]]
    assert arms == [trial["arm"] for trial in document["plan"]["trials"]][: len(arms)]
    assert len({trial["server"]["pid"] for trial in document["trials"]}) == len(arms)
    for trial in document["trials"]:
        proven = [one["outcome"] for one in trial["activations"]]
        assert proven == (["pass"] if trial["arm"] == "B" else [])
    assert local.oeactl("status")["agrees"]
    report = local.run("results", "report", "last", "--format", "pr")
    assert "B improved" in report.stdout.splitlines()[0]
