"""Which driver sends which load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oeactl.cli.load import Load, chosen_load, with_dataset
from oeactl.core.load import make_sweep
from oeactl.errors import UsageError


def chosen(**changes: Any) -> Load:
    nothing = {"driver": None, "api": None, "dataset": None, "processes": None, "origin": None}
    return chosen_load(**{**nothing, **changes})


@pytest.mark.parametrize(
    "said",
    [{"api": "chat"}, {"dataset": "natural"}, {"processes": 2}, {"origin": "here"}, {"timed": "--rate"}],
)
def test_what_only_the_light_client_knows_needs_it(said: dict[str, Any]) -> None:
    assert chosen(**said).needs_light
    with pytest.raises(UsageError, match="is for the light client"):
        chosen(driver="sglang", **said)


def test_random_ids_alone_leave_the_choice_open() -> None:
    assert chosen().needs_light is None
    assert chosen(driver="sglang", dataset="random-ids").needs_light is None


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"driver": "vllm"}, "--driver vllm is not known"),
        ({"api": "grpc"}, "--api grpc is not known"),
        ({"dataset": "sharegpt"}, "neither a dataset nor a file"),
        ({"origin": "there"}, "--from there is not known"),
    ],
)
def test_what_is_not_known_is_refused(said: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        chosen(**said)


def test_a_file_bounds_the_requests_and_is_named_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "a"}\n' * 20)
    load = chosen(dataset=str(path))
    sweep = with_dataset(make_sweep((1, 4), input_len=8, output_len=8, seed=1), load)
    assert [point.requests for point in sweep.points] == [16, 20]
    assert (sweep.dataset, sweep.dataset_file) == ("file", "mine.jsonl")
    assert sweep.dataset_sha256 is not None and len(sweep.dataset_sha256) == 64
    with pytest.raises(UsageError, match="20 prompts cannot keep 32 in flight"):
        with_dataset(make_sweep((32,), input_len=8, output_len=8, seed=1), load)
