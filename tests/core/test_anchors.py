"""An anchor means exactly one place, or says how many there are and what comes near."""

from __future__ import annotations

import textwrap

import pytest

from oeactl.core.anchors import Anchor, find, find_scope
from oeactl.core.reasons import CannotPlace, Reason
from oeactl.core.source import Source

SOURCE = textwrap.dedent(
    """\
    import torch

    class Layer:
        def forward(self, x, batch):
            y = route(x)
            if batch:
                y = route(y)
                z = 1
            elif x:
                z = 2
            for item in y:
                use(item)
            with torch.no_grad() as w:
                ids, weights = gate(y)
            return [route(i) for i in y]

        def backward(self, x):
            return route(x)

    if torch.cuda:
        def pick(): return 1
    else:
        def pick(): return 2

    def forward(x):
        return x
    """
)
FORWARD = ("class Layer", "def forward")


def lines(**anchor: object) -> list[int]:
    source = Source(SOURCE.encode(), "m.py")
    return [source.line(source.start(place.node)) for place in find(source, Anchor(**anchor), "e")]  # type: ignore[arg-type]


def reason(**anchor: object) -> Reason:
    with pytest.raises(CannotPlace) as stopped:
        lines(**anchor)
    (found,) = stopped.value.reasons
    return found


def test_each_kind_of_thing_is_found() -> None:
    assert lines(definition="class Layer") == [3]
    assert lines(scope=FORWARD, statement="y = route(x)") == [5]
    assert lines(scope=FORWARD, contains="use(...)") == [12]
    assert lines(scope=FORWARD, expression="gate(...)") == [14]
    assert lines(scope=FORWARD, binds="weights") == [14]
    assert lines(scope=FORWARD, tests="batch") == [6]
    assert lines(scope=FORWARD) == [4]


def test_depth_top_sees_only_the_statements_of_the_body_itself() -> None:
    assert lines(scope=FORWARD, contains="route(...)", depth="top", pick="all") == [5, 15]
    assert lines(scope=FORWARD, contains="route(...)", pick="all") == [5, 7, 15]
    assert lines(scope=FORWARD, binds="z", depth="top") == [6], "the compound statement that binds it"
    assert lines(scope=FORWARD, binds="weights", depth="top") == [13]


def test_order_and_neighbours_choose_among_several() -> None:
    assert lines(scope=FORWARD, contains="route(...)", pick="first") == [5]
    assert lines(scope=FORWARD, contains="route(...)", pick="last") == [15]
    after = Anchor(contains="use(...)")
    assert lines(scope=FORWARD, contains="route(...)", after=after) == [15]
    assert lines(scope=FORWARD, binds="z", before=after, pick="all") == [8, 10]


def test_a_scope_is_a_chain_and_not_a_name() -> None:
    source = Source(SOURCE.encode(), "m.py")
    assert source.line(source.start(find_scope(source, ("def forward",), "e").node)) == 25


def test_several_matches_are_refused_with_every_one_of_them() -> None:
    found = reason(scope=FORWARD, expression="route(...)")
    assert found.count == 3
    assert [(place.line, place.text) for place in found.candidates] == [
        (5, "route(x)"),
        (7, "route(y)"),
        (15, "route(i)"),
    ]
    assert reason(definition="def pick").count == 2


def test_no_match_names_the_nearest_three() -> None:
    found = reason(scope=FORWARD, statement="ids, weights = gates(y)")
    assert (found.count, len(found.nearest)) == (0, 3)
    assert (found.nearest[0].line, found.nearest[0].text) == (14, "ids, weights = gate(y)")
    assert "'ids, weights = gates(y)' in class Layer / def forward matches 0 places, not 1" in found.what
    lost = reason(scope=("class Layers", "def forward"), statement="x")
    assert (lost.nearest[0].line, lost.count) == (3, 0)


def test_a_wrong_number_is_refused() -> None:
    assert reason(scope=FORWARD, expression="route(...)", pick="all", count=4).count == 3
