"""How the commands that change or look at a host end: values that flows return and render shows.

Owns: their fields. Refuses: their wording (render) and their making (flows).
"""

from __future__ import annotations

from typing import Literal

from oeactl.core.host import Layer, Lease, ServerState, Survey, Value
from oeactl.core.plan import AlreadyApplied, Planned
from oeactl.core.proof import Verdict


class Patched(Value, frozen=True, kw_only=True):
    """How ``patch`` ended. live: what the server does now. operation: empty where nothing was written."""

    status: Literal["dry-run", "already applied", "patched"]
    plan: Planned | AlreadyApplied
    live: Literal["restarted", "started", "old code", "no server", "unchanged"]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    operation: str = ""


class Reverted(Value, frozen=True, kw_only=True):
    """How ``revert`` ended. left: recipes that stay on the host; verdicts: of those, after the restart."""

    status: Literal["reverted", "nothing to revert", "gone by upgrade"]
    recipes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    left: tuple[Layer, ...] = ()
    live: Literal["restarted", "down", "old code", "no server", "unchanged"] = "unchanged"
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()


class Served(Value, frozen=True, kw_only=True):
    """How start, stop or restart ended. seconds: until the first completion, None if nothing was started."""

    status: Literal["started", "restarted", "running already", "stopped", "was not running"]
    pid: int | None = None
    seconds: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()


class Unlocked(Value, frozen=True, kw_only=True):
    """How unlock ended. lease: the one that was ended."""

    status: Literal["unlocked", "was not locked"]
    lease: Lease | None = None


class FileStatus(Value, frozen=True, kw_only=True):
    """One file of the journal or of a recipe: pristine, patched, foreign or missing."""

    path: str
    module: str
    state: str
    sha256: str


class Trouble(Value, frozen=True, kw_only=True):
    """A disagreement, and what to do about it."""

    what: str
    remedy: str


class Status(Value, frozen=True, kw_only=True):
    """The host at a glance. agrees: disk, journal and live tell one story (exit 0, else 7)."""

    host: str
    survey: Survey
    files: tuple[FileStatus, ...]
    server: ServerState | None
    verdicts: tuple[Verdict, ...]
    troubles: tuple[Trouble, ...]
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return not self.troubles


class OnRecord(Value, frozen=True, kw_only=True):
    """A recipe put on a host from here. address: None on ``@local``. project: the folder of hosts.yaml."""

    host: str
    address: str | None
    project: str
    recipe: str
    digest: str
    at: str


class Checked(Value, frozen=True, kw_only=True):
    """How ``recipe check`` ended: it applies, or is on.

    variants: module -> which variant of the recipe fits, None where it has none. seconds: what the plan took.
    """

    survey: Survey
    plan: Planned | AlreadyApplied
    variants: dict[str, str | None]
    notes: tuple[str, ...]
    seconds: float


class Check(Value, frozen=True, kw_only=True):
    """One precondition. state: ok, note (worth knowing), bad, or unknown (an earlier one is bad).

    code: what a command that needs it would end with, 0 unless bad. fix: the next command or the remedy.
    """

    name: str
    state: Literal["ok", "note", "bad", "unknown"]
    what: str
    fix: str | None = None
    code: int = 0


class Diagnosis(Value, frozen=True, kw_only=True):
    """What ``doctor`` found on a host, row by row, in the order in which they build on each other."""

    host: str
    checks: tuple[Check, ...]

    @property
    def worst(self) -> int:
        """The exit code: that of the worst row, 0 when all is well."""
        return max((check.code for check in self.checks), default=0)
