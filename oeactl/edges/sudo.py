"""Becoming root by sudo, with a password only where it asks for one.

Owns: the words in front of a command, what goes first on its stdin, and what a refusal means. Refuses: a
password in argv, in the environment of anything, in a message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oeactl.errors import OeactlError, Unreachable, UsageError

# The password is the first line of stdin. The shell eats it, or what is left over would become program text;
# ``sudo -v`` is given it, and its time stamp, which is bound to this shell, then opens the way. Where none is
# kept (timestamp_timeout=0) sudo asks once more, and gets the line once more.
SCRIPT = (
    'IFS= read -r p; printf "%s\\n" "$p" | sudo -S -p "" -v || exit 1; '
    'if sudo -n -v 2>/dev/null; then unset p; sudo -n -- "$@"; '
    'else { printf "%s\\n" "$p"; unset p; exec cat; } | sudo -S -p "" -- "$@"; fi'
)
VARIABLE = "OEACTL_SUDO_PASSWORD"

_ASKS = ("a password is required", "a terminal is required")
_WRONG = ("incorrect password", "no password was provided", "Sorry, try again")
_FORBIDS = ("not in the sudoers", "is not allowed to", "may not run sudo", "must have a tty")
_ABSENT = ("sudo: not found", "sudo: command not found", "sudo: No such file")


class Sudo:
    """The way in on one host. password: where to get it, given the host's name."""

    def __init__(self, host: str, password: Callable[[str], str | None] | None = None) -> None:
        self._host = host
        self._ask = password
        self._password: str | None = None

    def argv(self, words: Sequence[str]) -> tuple[str, ...]:
        if self._password is None:
            return ("sudo", "-n", "--", *words)
        return ("sh", "-c", SCRIPT, "sh", *words)

    def first(self) -> bytes:
        """What goes on stdin before anything else."""
        return b"" if self._password is None else self._password.encode() + b"\n"

    def asks(self, text: str) -> bool:
        """Whether sudo wanted a password that somebody can give: nothing ran, and ``learn`` gets it."""
        wanted = any(words in text for words in _ASKS)
        return wanted and self._password is None and self._ask is not None

    def learn(self) -> None:
        """Get the password, and use it from now on. Raises UsageError where nobody can be asked."""
        assert self._ask is not None
        self._password = self._ask(self._host)
        if self._password is None:
            raise UsageError(
                f"sudo on {self._host} asks for a password, and nobody here gives one",
                hint=f"set {VARIABLE}, or allow it with NOPASSWD",
            )

    def refusal(self, text: str) -> OeactlError | None:
        """What sudo's words mean; None where they are not a refusal."""
        details = tuple(line for line in text.splitlines() if line.strip())[-5:]
        if any(words in text for words in _WRONG):
            return Unreachable(
                "sudo did not take the password", where=self._host, hint=f"check {VARIABLE}", details=details
            )
        asks = any(words in text for words in _ASKS)
        if asks and self._password is None:
            return Unreachable(
                "sudo did not let us become root without a password",
                where=self._host,
                hint=f"set {VARIABLE}, allow it with NOPASSWD, connect as root, or drop become: sudo",
                details=details,
            )
        if asks or any(words in text for words in _FORBIDS):  # asked again after the right one: not for this
            return Unreachable(
                "sudo does not allow it to this user",
                where=self._host,
                hint="connect as root or as the engine's owner, or have the user allowed in sudoers",
                details=details,
            )
        if any(words in text for words in _ABSENT):
            return Unreachable(
                "there is no sudo on the host",
                where=self._host,
                hint="connect as root or as the engine's owner, and drop become: sudo",
                details=details,
            )
        return None
