"""The person at the terminal: progress on stderr, questions, and the streams they share.

Owns: the ports Progress and Prompt, for a terminal, for a pipe, and for ``--json``. Refuses: stdout, which is
for results. A watcher who goes away (a closed pipe) never fails the work that was watched.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TextIO

from oeactl.core.pace import clock as elapsed
from oeactl.errors import UsageError

PLAIN_INTERVAL_S = 10.0


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def wants_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """A terminal that shows colours, and nobody who asked for none (https://no-color.org)."""
    return is_terminal(stream) and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def console(stream: TextIO) -> Any:
    """A rich console on ``stream``; in a pipe as wide as it needs, without colours.

    A closed pipe raises BrokenPipeError, as everywhere (rich by itself would exit).
    """
    from rich.console import Console

    wide = None if is_terminal(stream) else 400
    made: Any = Console(file=stream, width=wide, highlight=False, no_color=not wants_colour(stream))
    made.on_broken_pipe = _reraise
    return made


def _reraise() -> None:
    raise BrokenPipeError


class PlainProgress:
    """A line a step; within a step a line at most every ten seconds (every one when verbose)."""

    def __init__(
        self, stream: TextIO, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._interval = 0.0 if verbose else PLAIN_INTERVAL_S
        self._said_at = clock()
        self._said = ""

    def step(self, text: str) -> None:
        self._say(text)

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        shown = text + share(done, total)
        if shown != self._said and self._clock() - self._said_at >= self._interval:
            self._say(f"  {shown}")
            self._said = shown

    def note(self, text: str) -> None:
        self._say(f"  {text}")

    def warn(self, text: str) -> None:
        self._say(f"warning: {text}")

    def pause(self) -> None:
        """Nothing is on the screen that a question would disturb."""

    def close(self) -> None:
        """Nothing is open."""

    def _say(self, text: str) -> None:
        self._said_at = self._clock()
        with suppress(OSError, ValueError):
            print(text, file=self._stream, flush=True)


class QuietProgress(PlainProgress):
    """For ``--json``: warnings only."""

    def step(self, text: str) -> None: ...

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None: ...

    def note(self, text: str) -> None: ...


class LiveProgress:
    """On a terminal: one live line for the step under way, above it a line for each that ended."""

    def __init__(
        self, stream: TextIO, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console(stream)
        self._verbose = verbose
        self._clock = clock
        self._status: Any = None
        self._step: str | None = None
        self._since = clock()

    def step(self, text: str) -> None:
        self.close()
        self._step, self._since = text, self._clock()
        self._show(text)

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        shown = text + share(done, total)
        if self._verbose:
            self._line(f"  {shown}", "dim")
        self._show(f"{self._step}: {shown}" if self._step else shown)

    def note(self, text: str) -> None:
        self._line(f"  {text}", "")

    def warn(self, text: str) -> None:
        self._line(f"warning: {text}", "yellow")

    def pause(self) -> None:
        """Clear the live line; the next update brings it back."""
        if self._status is not None:
            self._guard(self._status.stop)
            self._status = None

    def close(self) -> None:
        """End the step under way with its duration."""
        self.pause()
        if self._step is not None:
            self._line(f"{self._step} ({self._clock() - self._since:.1f} s)", "dim")
            self._step = None

    def _show(self, text: str) -> None:
        shown = _Ticking(text, since=self._since, clock=self._clock)
        if self._status is None:
            self._status = self._console.status(shown)
            self._guard(self._status.start)
        else:
            self._guard(lambda: self._status.update(shown))

    def _line(self, text: str, style: str) -> None:
        self._guard(lambda: self._console.print(text, style=style, markup=False, highlight=False))

    def _guard(self, write: Callable[[], object]) -> None:
        with suppress(OSError, ValueError):
            write()


class _Ticking:
    """A text, and behind it how long the step has taken by the moment it is drawn."""

    def __init__(self, text: str, *, since: float, clock: Callable[[], float]) -> None:
        self._text = text
        self._since = since
        self._clock = clock

    def __rich__(self) -> Any:
        from rich.text import Text

        seconds = self._clock() - self._since
        return Text.assemble(self._text, (f"  {elapsed(seconds)}" if seconds >= 1 else "", "dim"))


def share(done: float | None, total: float | None) -> str:
    """``12 of 64``, or a percentage where the total is a hundred, or nothing."""
    if done is None:
        return ""
    if total is None:
        return f" {done:g}"
    return f" {done:.0f} %" if total == 100 else f" {done:g} of {total:g}"


class TerminalPrompt:
    """Asks on a terminal. Elsewhere ``--yes`` has answered, or nobody can."""

    def __init__(
        self, *, yes: bool, answers: TextIO | None, stream: TextIO, pause: Callable[[], None]
    ) -> None:
        self._yes = yes
        self._answers = answers
        self._stream = stream
        self._pause = pause

    def confirm(self, question: str) -> bool:
        if self._yes:
            return True
        if self._answers is None or not is_terminal(self._answers) or not is_terminal(self._stream):
            raise UsageError(
                f"'{question}' needs an answer, and nobody is at a terminal here",
                hint="the same command with --yes",
            )
        self._pause()
        print(f"{question} [y/N] ", end="", file=self._stream, flush=True)
        answer = ""
        try:
            answer = self._answers.readline()
        finally:
            if not answer.endswith("\n"):  # Ctrl-C, Ctrl-D: what follows begins on a line of its own
                print(file=self._stream, flush=True)
        return answer.strip().lower() in ("y", "yes")


class Secret:
    """A password that is asked for once, when it is first needed, by whichever thread that is.

    variable: where it is taken from, if it is set there; else the person is asked the question, without an
    echo. each: once for each thing that it opens, not once for all.
    """

    def __init__(
        self,
        *,
        variable: str,
        question: str,
        environ: Mapping[str, str],
        answers: TextIO | None,
        stream: TextIO,
        pause: Callable[[], None],
        each: bool = False,
    ) -> None:
        self._question = question
        self._set = environ.get(variable) or None
        self._each = each
        self._given: dict[str, str | None] = {}
        self._answers = answers
        self._stream = stream
        self._pause = pause
        self._turn = threading.Lock()

    def __call__(self, opens: str) -> str | None:
        """The password for what it opens; None where nobody can be asked, or has none."""
        if self._set is not None:
            return self._set
        with self._turn:
            key = opens if self._each else ""
            if key not in self._given:
                self._given[key] = self._asked(opens)
            return self._given[key]

    def _asked(self, opens: str) -> str | None:
        if self._answers is None or not is_terminal(self._answers) or not is_terminal(self._stream):
            return None
        from getpass import getpass

        self._pause()
        return getpass(f"{self._question} {opens}: ", stream=self._stream) or None
