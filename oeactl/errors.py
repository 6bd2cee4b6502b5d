"""One tree of errors. A class is an exit code; a message says what, where, and the next command.

Owns: the exit codes. Refuses: to know who prints them (the cli does, once).
"""

from __future__ import annotations

from collections.abc import Iterable


class OeactlError(Exception):
    """A failure that oeactl can explain.

    what: one sentence, no trailing period needed.  where: "host", "host:path" or "file:line".
    hint: the next command or the remedy.  details: further lines, shown as they are.
    """

    exit_code = 1

    def __init__(
        self, what: str, *, where: str | None = None, hint: str | None = None, details: tuple[str, ...] = ()
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint
        self.details = details


class UsageError(OeactlError):
    """Wrong usage or configuration: unknown key, host or recipe, bad value, not an engine."""

    exit_code = 2


class Refused(OeactlError):
    """We looked and will not do it: read-only, foreign edit, lost anchor, failed probe."""

    exit_code = 3


class Unreachable(OeactlError):
    """Connection, authentication, host key, or a server that is not up."""

    exit_code = 4


class UntrustedHost(Unreachable):
    """The machine answers, and its host key is not known, another one, or revoked."""


class ConnectionLost(Unreachable):
    """The connection broke after the message was sent: what the host did is unknown until asked."""

    exit_code = 7


class Locked(OeactlError):
    """Another operator holds the lease."""

    exit_code = 5


class RolledBack(OeactlError):
    """The change failed and the host is back where it was, proven healthy."""

    exit_code = 6


class Degraded(OeactlError):
    """Unknown, degraded, or disk, journal and live disagree."""

    exit_code = 7


class VoidMeasurement(OeactlError):
    """A point failed a gate: kept, and enters no comparison."""

    exit_code = 8


class Interrupted(OeactlError):
    """Ctrl-C, after everything was put in order."""

    exit_code = 130


_FROM_BEST_TO_WORST = (0, 8, 2, 3, 4, 5, 6, 130, 7, 1)


def worst(codes: Iterable[int]) -> int:
    """The exit code of a command on several hosts: the one that leaves most to be done, 0 where all is well.

    As numbers grow, but for two: an interruption is better than a host of unknown state, and a bug is worst.
    """
    return max(codes, key=_FROM_BEST_TO_WORST.index, default=0)
