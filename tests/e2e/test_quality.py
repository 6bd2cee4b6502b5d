"""What OEA does to experts and answers of a real SGLang, told from what the engine does by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.conftest import Project

pytestmark = [pytest.mark.engine, pytest.mark.e2e, pytest.mark.timeout(1800)]

FEW = ("--prompts", "12", "--output-len", "16", "--concurrency", "12")


def apart(comparison: Any) -> list[str]:
    return [one["condition"] for one in comparison["conditions"] if one["tokens"]["apart"]]


def distinct(status: Any) -> dict[int, float]:
    return {one["requests"]: one["distinct_mean"] for one in status["experts"]}


def test_the_same_build_answers_within_its_floor_and_oea_changes_answers_under_load_alone(
    local: Project,
) -> None:
    local.oeactl("start")
    before = distinct(local.oeactl("status", "--experts"))
    local.oeactl("bench", "--concurrency", "4,16", "--experts")
    predicted = local.oeactl("predict", "--from", "last", "--k0", "2", "--batch", "4,16")["rows"]
    for row in predicted:
        assert row["distinct"] == pytest.approx(before[row["batch"]], rel=0.1)
    by_url = local.oeactl("quality", "--url", local.url, "--prompts", "4", "--output-len", "8", "-c", "4")
    assert by_url["recording"]["api"] == "openai" and by_url["recording"]["model"]["served_name"] == "tiny"
    first = local.oeactl("quality", *FEW)["recording"]
    local.oeactl("restart", "--yes")
    again = local.oeactl("quality", "--against", first["recording_id"])
    assert again["comparison"]["verdict"] == "within the floor" and again["comparison"]["restarted"]

    local.oeactl("patch", "--set", "k0=2", "--yes")
    baseline = (first["recording_id"], again["recording"]["recording_id"])
    compared = local.oeactl("quality", "--against", baseline[0], "--against", baseline[1])
    made = compared["comparison"]
    assert made["verdict"] == "changes answers"
    assert apart(made) == ["under_load"], "a lone token is left as it was"
    assert made["starts"] == 2 and made["restarted"]
    one_start = local.oeactl("quality", "--recorded", "last", "--against", baseline[0])["comparison"]
    assert one_start["verdict"] == "differs, or a restart does"
    after = distinct(local.oeactl("status", "--experts"))
    assert after[1] == before[1] == 8
    assert after[16] < before[16] / 2
    assert after[16] < predicted[1]["kept"][0] < before[16]

    run = local.oeactl("bench", "--concurrency", "4", "--experts")
    local.oeactl("results", "attach", "last", compared["comparison_path"])
    assert run["trials"][0]["points"][0]["experts"]["distinct_mean"] < before[4]
    assert "quality: changes answers" in local.run("results", "show", "last").stdout
