"""Why a plan is not made: each reason with its place in a file and what else came near.

Owns: the vocabulary of refusals. Refuses: to decide; planning collects reasons and hands them out.
"""

from __future__ import annotations

from typing import Literal

from oeactl.core.host import Value
from oeactl.errors import Refused

Kind = Literal[
    "missing",
    "read-only",
    "unreadable",
    "version",
    "guard",
    "upstreamed",
    "anchor",
    "edit",
    "overlap",
    "foreign",
    "damaged",
    "gate",
    "nothing",
]


class Candidate(Value, frozen=True, kw_only=True):
    """A place in a file: its line (from 1) and that line's text, stripped."""

    line: int
    text: str


class Reason(Value, frozen=True, kw_only=True):
    """One thing in the way.

    where: the file as the host names it (a module's name where there is no file). line: where in it.
    count: how many places matched, for an anchor. candidates: all of them. nearest: the three most like it.
    diff: for a foreign edit, what was expected against what is there.
    """

    kind: Kind
    what: str
    where: str
    edit: str | None = None
    line: int | None = None
    count: int | None = None
    candidates: tuple[Candidate, ...] = ()
    nearest: tuple[Candidate, ...] = ()
    hint: str | None = None
    diff: str | None = None

    @property
    def place(self) -> str:
        """``file`` or ``file:line``."""
        return self.where if self.line is None else f"{self.where}:{self.line}"

    def lines(self) -> tuple[str, ...]:
        """The reason for people: what, then every candidate, then the nearest."""
        said = [f"{self.place}: {f'[{self.edit}] ' if self.edit else ''}{self.what}"]
        said += [f"  matches  {self.where}:{near.line}: {near.text}" for near in self.candidates]
        said += [f"  nearest  {self.where}:{near.line}: {near.text}" for near in self.nearest]
        return tuple(said)


class Refusal(Value, frozen=True, kw_only=True):
    """No plan. Nothing was written, and nothing will be until the reasons are gone."""

    recipe: str
    reasons: tuple[Reason, ...]

    @property
    def upstreamed(self) -> bool:
        """Whether the engine has the change already: there is nothing left for the recipe to do."""
        return all(reason.kind == "upstreamed" for reason in self.reasons)

    def error(self) -> Refused:
        """The refusal as the error that ends a command (exit 3)."""
        first = self.reasons[0]
        lines = [line for reason in self.reasons for line in reason.lines()]
        diffs = [line for reason in self.reasons if reason.diff for line in reason.diff.splitlines()]
        return Refused(
            f"{self.recipe}: {first.what}",
            where=first.place,
            hint="upstreamed: there is nothing left for the recipe to do here"
            if self.upstreamed
            else first.hint,
            details=tuple(lines[1:] + diffs) if len(self.reasons) == 1 else tuple(lines + diffs),
        )


class CannotPlace(Exception):
    """Raised inside planning, where these reasons end the work on a file; never leaves the core."""

    def __init__(self, *reasons: Reason) -> None:
        super().__init__(reasons[0].what)
        self.reasons = reasons
