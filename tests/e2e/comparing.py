"""A comparison on a real engine, run as a person would: the load, and what must hold whatever it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.e2e.conftest import VOID, Project

#: Five waves of 16 streams, the fewest that the gate on concurrency judges; short prompts, for it is decoding
#: that a recipe for experts changes.
LOAD = (
    "--driver", "light", "--concurrency", "16", "--input-len", "16", "--output-len", "32", "--requests", "80",
    "--pairs", "3", "--no-warm", "--margin", "10%", "--yes",
)  # fmt: skip


def compared(project: Project, *words: str, fine: Sequence[int] = ()) -> Any:
    """Run a comparison; its document. Whatever it was, the host is as it was before."""
    original = project.hashes()
    document = project.oeactl(*words, *LOAD, fine=fine)
    assert project.hashes() == original
    assert all(trial["outcome"] == "completed" for trial in document["trials"])
    return document


def decided(project: Project, *words: str) -> Any:
    """The same, and once more where nothing could be told because others had the cores meanwhile: a level is
    void, or the trials are far apart.
    """
    document = compared(project, *words, fine=(VOID,))
    found = verdict(document)
    void = not all(point["valid"] for trial in document["trials"] for point in trial["points"])
    if void or (found["says"] == "inconclusive" and found["trial_sd"] > 0.05):
        return compared(project, *words)
    return document


def verdict(document: Any) -> Any:
    (found,) = document["analysis"]["verdicts"]
    return found
