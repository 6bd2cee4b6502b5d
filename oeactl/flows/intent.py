"""What a flow is about to do to a host, said before it does it.

A flow that changes something is a generator: it looks, decides, and stops once, at its ``Intent``. Whoever
drives it asks the person, and lets it go on: one host ``alone``, several side by side in ``together``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from oeactl.core.host import Survey
from oeactl.flows.lifecycle import ask
from oeactl.flows.site import Site

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Intent:
    """Decided, and not begun. question: what needs a yes first. what: for the lease, "patch oea".

    lasting: it takes long (a restart), and the host's lease guards it; else one message does it.
    """

    survey: Survey
    operation: str
    what: str
    question: str | None = None
    lasting: bool = False


Steps = Generator[Intent, None, T]


def alone(site: Site, steps: Steps[T]) -> T:
    """Carry a flow out on one host.

    Raises Interrupted on a no, UsageError where nobody can be asked, and what the flow raises.
    """
    try:
        intent = next(steps)
        if intent.question is not None:
            ask(site, intent.question)
        next(steps)
    except StopIteration as end:
        outcome: T = end.value
        return outcome
    raise AssertionError("a flow stops once")


def on_one(flow: Callable[Concatenate[Site, P], Steps[T]]) -> Callable[Concatenate[Site, P], T]:
    """The flow as a function that carries it out on one host."""

    @wraps(flow)
    def run(site: Site, /, *words: P.args, **options: P.kwargs) -> T:
        return alone(site, flow(site, *words, **options))

    return run
