"""What a comparison of answers says on a terminal, and what it rests on."""

from __future__ import annotations

import msgspec
import pytest

from oeactl.render.quality import comparison_view, recording_view
from tests.core.test_attachments import a_comparison
from tests.core.test_recording import a_recording
from tests.render.test_results_view import shown


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ("changes answers", "lie further apart"),
        ("shifts probabilities", "their odds do not"),
        ("differs, or a restart does", "one start of the first build cannot tell"),
        ("within the floor", "fewer than 4 changed answers of 32 cannot be told from chance"),
    ],
)
def test_each_verdict_says_what_it_means(verdict: str, says: str) -> None:
    comparison = msgspec.structs.replace(a_comparison(), verdict=verdict)
    text = " ".join(shown(comparison_view(comparison, "/here", width=120), width=120).split())
    assert verdict in text and says in text and "changed is not worse" in text


@pytest.mark.parametrize(
    ("starts", "says"), [(1, "of 1 start of the first"), (2, "of 2 starts"), (None, "nothing is known")]
)
def test_it_says_how_many_starts_the_floor_rests_on(starts: int | None, says: str) -> None:
    known = starts is not None
    comparison = msgspec.structs.replace(a_comparison(), starts=starts, restarted=True if known else None)
    assert says in " ".join(shown(comparison_view(comparison, "", width=120), width=120).split())


def test_a_recording_says_what_to_do_next() -> None:
    text = shown(recording_view(a_recording(), "/here", width=100))
    assert "32 prompts, 48 tokens each, 3 times alone and 3 times 16 at once" in text
    assert f"oeactl quality --against {a_recording().recording_id}" in text
