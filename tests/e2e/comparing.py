"""A comparison on a real engine, run as a person would: the load, and what must hold whatever it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.e2e.conftest import VOID, Project

#: Five waves of 16 streams, the fewest that the gate on concurrency judges; short prompts, for it is decoding
#: that a recipe for experts changes.
LOAD = (
    "--driver", "light", "--concurrency", "16", "--input-len", "4", "--output-len", "20", "--requests", "80",
    "--no-warm", "--margin", "10%", "--yes",
)  # fmt: skip
PAIRS = "3"
MORE_PAIRS = "3..6"
"""Another pair until it is decided: one trial that others disturbed makes three pairs inconclusive."""


def compared(project: Project, *words: str, pairs: str = PAIRS, fine: Sequence[int] = ()) -> Any:
    """Run a comparison; its document. Whatever it was, the host is as it was before."""
    original = project.hashes()
    document = project.oeactl(*words, *LOAD, "--pairs", pairs, fine=fine)
    assert project.hashes() == original
    assert all(trial["outcome"] == "completed" for trial in document["trials"])
    return document


def decided(project: Project, *words: str) -> Any:
    """The same with as many pairs as it takes; one that holds a void level counts for none."""
    document = compared(project, *words, pairs=MORE_PAIRS, fine=(VOID,))
    effect = verdict(document)["effect"]
    assert effect is not None and effect["pairs"] >= int(PAIRS), verdict(document)
    return document


def verdict(document: Any) -> Any:
    (found,) = document["analysis"]["verdicts"]
    return found
