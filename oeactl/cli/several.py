"""One command on several hosts: its board, its one question, its table or document, the worst exit code.

Owns: the frame around ``flows.together``. Refuses: to know any command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from oeactl.cli.common import Call
from oeactl.cli.wiring import Wired, wired
from oeactl.core.inventory import Host
from oeactl.edges.board import Board
from oeactl.errors import Interrupted, OeactlError, worst
from oeactl.flows.intent import Steps
from oeactl.flows.site import Site
from oeactl.flows.together import Member, together
from oeactl.render.errors import unexpected
from oeactl.render.several import (
    Result,
    View,
    results_document,
    results_errors,
    results_notes,
    results_table,
)

if TYPE_CHECKING:
    from oeactl.flows.side_by_side import Ended

T = TypeVar("T")


def on_each(
    call: Call,
    hosts: tuple[Host, ...],
    flow: Callable[[Wired], Steps[T]],
    view: View[T],
    *,
    yes: bool = False,
    fail_fast: bool = False,
    decided: Callable[[], None] = lambda: None,
) -> tuple[tuple[Result[T], ...], int]:
    """Carry ``flow`` out on every host, show how it ended; the results, and the exit code of the whole.

    decided: called once every host was looked at, before anything is asked or written.
    """
    board = call.board([host.name for host in hosts])
    call.pause = board.pause

    def ready() -> None:
        board.pause()
        decided()

    try:
        ended = together(
            [_member(call, host, flow, board) for host in hosts],
            prompt=call.prompt(yes, board.pause),
            decided=lambda intents: ready(),
            fail_fast=fail_fast,
        )
    finally:
        board.close()
    results = tuple(_result(call, host, how) for host, how in zip(hosts, ended, strict=True))
    code = worst(result.code(view) for result in results)
    call.emit(lambda: results_document(results, view, code), lambda: results_table(results, view))
    if not call.json:
        for line in results_notes(results, view):
            call.line(line)
        for line in results_errors(results):
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - as ``ending`` does for one host
    return results, code


def _member(call: Call, host: Host, flow: Callable[[Wired], Steps[T]], board: Board) -> Member[T]:
    opened = ExitStack()

    def begin() -> tuple[Site, Steps[T]]:
        here = opened.enter_context(wired(call, host, progress=board.of(host.name)))
        return here.site, _watched(flow(here), board, host.name)

    return Member(name=host.name, begin=begin, close=opened.close)


def _watched(steps: Steps[T], board: Board, name: str) -> Steps[T]:
    """The same steps; the board hears how they end."""
    how = "failed"
    try:
        outcome = yield from steps
        how = "done"
    finally:
        board.ended(name, how)
    return outcome


def _result(call: Call, host: Host, how: Ended[T] | None) -> Result[T]:
    if how is None or how.error is None:
        return Result(host=host.name, outcome=how.value if how else None)
    error = how.error
    if call.debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, KeyboardInterrupt):
        error = Interrupted("interrupted", where=host.name)
    return Result(host=host.name, error=error if isinstance(error, OeactlError) else unexpected(error))
