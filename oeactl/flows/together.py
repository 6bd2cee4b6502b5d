"""One flow on several hosts, side by side: look at all, ask once, lock in sorted order, go on.

Nothing is written anywhere before every host has been looked at and every question is answered. One host's
failure does not stop the others, unless that is asked for: then what has not begun is left alone, and what
has is carried to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from oeactl.errors import ConnectionLost, Interrupted, OeactlError, UsageError
from oeactl.flows.intent import Intent, Steps
from oeactl.flows.lease import LEASE_S
from oeactl.flows.side_by_side import Ended, side_by_side
from oeactl.flows.site import Site
from oeactl.ports import Prompt

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Member(Generic[T]):
    """One host of several. begin: connect, and give its site and its flow. close: disconnect."""

    name: str
    begin: Callable[[], tuple[Site, Steps[T]]]
    close: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class _Waiting(Generic[T]):
    """A host that has been looked at, and whose flow waits to go on."""

    name: str
    site: Site
    steps: Steps[T]
    intent: Intent


def together(
    members: Sequence[Member[T]],
    *,
    prompt: Prompt,
    decided: Callable[[Mapping[str, Intent]], None],
    fail_fast: bool,
) -> tuple[Ended[T] | None, ...]:
    """Carry the members' flows out; how each ended, in their order, None where it was left alone.

    decided: told what is about to be done, by host, before anything is asked. Raises Interrupted, UsageError:
    then nothing was written on any host.
    """
    ordered = sorted(members, key=lambda member: member.name)
    try:
        ended = _carried_out(ordered, prompt, decided, fail_fast)
    finally:
        side_by_side([member.close for member in ordered])
    return tuple(ended.get(member.name) for member in members)


def _carried_out(
    members: Sequence[Member[T]],
    prompt: Prompt,
    decided: Callable[[Mapping[str, Intent]], None],
    fail_fast: bool,
) -> dict[str, Ended[T]]:
    looked = side_by_side([partial(_look, member) for member in members], fail_fast=fail_fast)
    ended: dict[str, Ended[T]] = {}
    waiting: list[_Waiting[T]] = []
    for member, result in zip(members, looked, strict=True):
        if result is None:
            continue
        if isinstance(result.error, KeyboardInterrupt):
            raise Interrupted("interrupted before anything was changed")
        if isinstance(result.value, _Waiting):
            waiting.append(result.value)
        else:
            ended[member.name] = Ended(value=result.value, error=result.error)
    if fail_fast and any(one.error for one in ended.values()):
        return ended
    if None in looked:  # the Ctrl-C came before the look at it began
        raise Interrupted("interrupted before anything was changed")
    _no_engine_twice(waiting)
    decided({one.name: one.intent for one in waiting})
    _ask(waiting, prompt)
    locked = _lock(waiting, ended, fail_fast)
    results = side_by_side([partial(_go, one) for one in locked], fail_fast=fail_fast)
    stopped = any(how is not None and how.error for how in results)
    for one, how in zip(locked, results, strict=True):
        if how is not None:
            ended[one.name] = how
            continue
        if one.intent.lasting:
            _unlock(one)
        if not stopped:  # by a failure: then it was a Ctrl-C that came before any of them began
            ended[one.name] = Ended(error=KeyboardInterrupt())
    return ended


def _look(member: Member[T]) -> T | _Waiting[T]:
    site, steps = member.begin()
    try:
        intent = next(steps)
    except StopIteration as end:
        outcome: T = end.value
        return outcome
    return _Waiting(name=member.name, site=site, steps=steps, intent=intent)


def _no_engine_twice(waiting: Sequence[_Waiting[T]]) -> None:
    """Two names for one engine would be two commands that undo each other."""
    seen: dict[tuple[str, str], str] = {}
    for one in waiting:
        place = (one.intent.survey.host.boot_id, one.intent.survey.engine.root)
        if place[0] and place in seen:
            raise UsageError(
                f"{seen[place]} and {one.name} are the same engine on the same machine",
                where=place[1],
                hint="name one of them",
            )
        seen[place] = one.name


def _ask(waiting: Sequence[_Waiting[T]], prompt: Prompt) -> None:
    """One question for all. Raises Interrupted on a no, UsageError where nobody can be asked."""
    questions = [one.intent.question for one in waiting if one.intent.question is not None]
    if len(questions) > 1:
        questions.append(f"All {len(questions)}?")
    if questions and not prompt.confirm("\n".join(questions)):
        raise Interrupted("not confirmed, so nothing was changed on any host")


def _lock(waiting: Sequence[_Waiting[T]], ended: dict[str, Ended[T]], fail_fast: bool) -> list[_Waiting[T]]:
    """Take the leases, in the order of names; who can go on. A host that is locked has ended."""
    locked: list[_Waiting[T]] = []
    try:
        for one in waiting:
            try:
                if one.intent.lasting:
                    _take(one)
            except OeactlError as error:
                ended[one.name] = Ended(error=error)
                if fail_fast:
                    break
            else:
                locked.append(one)
    except KeyboardInterrupt:
        _unlock_all(locked)
        raise Interrupted("interrupted before anything was changed") from None
    if fail_fast and len(locked) < len(waiting):
        _unlock_all(locked)
        return []
    return locked


def _take(one: _Waiting[T]) -> None:
    one.site.files.lease(
        root=one.intent.survey.engine.root,
        state_dir=one.site.host.state_dir,
        operation=one.intent.operation,
        what=one.intent.what,
        holder=one.site.holder,
        lease_s=LEASE_S,
    )


def _unlock_all(locked: Sequence[_Waiting[T]]) -> None:
    for one in locked:
        if one.intent.lasting:
            _unlock(one)


def _unlock(one: _Waiting[T]) -> None:
    with suppress(OeactlError):  # then it ends by itself
        one.site.files.settle(
            root=one.intent.survey.engine.root,
            state_dir=one.site.host.state_dir,
            operation=one.intent.operation,
        )


def _go(one: _Waiting[T]) -> T:
    try:
        next(one.steps)
    except StopIteration as end:
        outcome: T = end.value
        return outcome
    except ConnectionLost:
        raise
    except OeactlError:
        if one.intent.lasting:
            _unlock(one)  # the flow does that as well, unless it ended before it began
        raise
    raise AssertionError("a flow stops once")
