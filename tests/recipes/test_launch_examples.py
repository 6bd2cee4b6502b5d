"""The examples that change no source: what each adds, on releases of both places for the data file."""

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
