"""The examples on real releases: a file in its era's place, launches, a limit that upstream has too."""

from __future__ import annotations

import json

import pytest

from oeactl.cli.app import main
from tests.support.wheels import wheel


@pytest.mark.network
@pytest.mark.parametrize(
    ("version", "folder"),
    [("0.5.9", "fused_moe_triton/configs"), ("0.5.23", "moe_runner/triton_utils/configs")],
)
def test_the_data_file_goes_where_the_release_looks(
    version: str, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(version)
    assert main(["recipe", "check", "moe-triton-config", "--engine", f"sglang=={version}", "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["module"].startswith(f"sglang/srt/layers/moe/{folder}/triton_3_5_1/E=257,N=256,")
    assert file["module"].endswith("block_shape=[128, 128].json")


@pytest.mark.network
@pytest.mark.parametrize("recipe", ["max-running-requests", "nccl-p2p-level"])
def test_a_launch_needs_no_file(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    wheel("0.5.9")
    assert main(["recipe", "check", recipe, "--engine", "sglang==0.5.9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == []


@pytest.mark.network
@pytest.mark.parametrize(("version", "notes"), [("0.4.7", 0), ("0.5.16", 0), ("0.5.20", 1), ("0.5.23", 1)])
def test_what_upstream_has_is_left_out_and_the_rest_still_made(
    version: str, notes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(version)
    assert main(["recipe", "check", "request-limits", "--engine", f"sglang=={version}", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sum("stops: upstream has it already" in note for note in document["notes"]) == notes
    (file,) = document["files"]
    assert ("+        if self.max_new_tokens is None" in file["diff"]) and (
        ("+        if isinstance(self.stop_strs" in file["diff"]) == (not notes)
    )
