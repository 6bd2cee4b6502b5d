"""A person sees what is waited for; a pipe gets plain lines, seldom; nobody is asked who cannot answer."""

from __future__ import annotations

import io
import os
import pty
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest

from oeactl import ports
from oeactl.edges.terminal import (
    LiveProgress,
    PlainProgress,
    QuietProgress,
    TerminalPrompt,
    share,
    wants_colour,
)
from oeactl.errors import UsageError


class Seconds:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says that it is one."""

    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    """A stream whose reader went away."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_pipe_gets_a_line_a_step_and_few_within() -> None:
    out, clock = io.StringIO(), Seconds()
    progress: ports.Progress = PlainProgress(out, clock=clock)
    progress.step("starting the server")
    for second in range(31):
        clock.now = float(second)
        progress.update("loading weights", done=second, total=100)
    progress.note("pid 12")
    progress.warn("compiled")
    assert out.getvalue().splitlines() == [
        "starting the server",
        "  loading weights 10 %",
        "  loading weights 20 %",
        "  loading weights 30 %",
        "  pid 12",
        "warning: compiled",
    ]


def test_a_pipe_gets_every_line_when_asked() -> None:
    out = io.StringIO()
    progress = PlainProgress(out, verbose=True, clock=Seconds())
    progress.update("a")
    progress.update("a")
    progress.update("b", done=1, total=2)
    assert out.getvalue() == "  a\n  b 1 of 2\n"


def test_json_leaves_only_warnings() -> None:
    out = io.StringIO()
    progress = QuietProgress(out)
    progress.step("a")
    progress.update("b")
    progress.note("c")
    progress.warn("d")
    assert out.getvalue() == "warning: d\n"


def test_a_terminal_keeps_a_line_for_each_step_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    out, clock = Terminal(), Seconds()
    progress = LiveProgress(out, clock=clock)
    progress.step("stopping")
    progress.update("draining [x]", done=3, total=8)
    clock.now = 2.0
    progress.note("none left")
    progress.step("starting")
    clock.now = 5.0
    progress.close()
    progress.close()
    shown = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", out.getvalue()).replace("\r", "\n").splitlines()
    kept = [line.strip() for line in shown if line.endswith(("s)", "left"))]
    assert kept == ["none left", "stopping (2.0 s)", "starting (3.0 s)"]
    assert "stopping: draining [x] 3 of 8" in out.getvalue()
    assert "\x1b[3" not in out.getvalue(), "no colours with NO_COLOR"


def test_the_live_line_tells_how_long_its_step_takes_though_nothing_moves() -> None:
    clock, out = Seconds(), Terminal()
    progress = LiveProgress(out, clock=clock)
    progress.step("level 1 of 7")
    clock.now = 187.0
    limit = time.monotonic() + 30
    while "  3:07" not in out.getvalue() and time.monotonic() < limit:
        time.sleep(0.02)
    progress.close()
    assert "  3:07" in out.getvalue()


@pytest.mark.parametrize("kind", [PlainProgress, LiveProgress])
def test_a_watcher_who_goes_away_fails_nothing(kind: type[PlainProgress | LiveProgress]) -> None:
    progress = kind(Gone())
    progress.step("a")
    progress.update("b", done=1, total=2)
    progress.note("c")
    progress.warn("d")
    progress.close()


@pytest.mark.parametrize(
    ("done", "total", "shown"), [(None, None, ""), (3, None, " 3"), (3, 8, " 3 of 8"), (40.4, 100, " 40 %")]
)
def test_a_share_is_a_count_or_a_percentage(done: float | None, total: float | None, shown: str) -> None:
    assert share(done, total) == shown


def test_colours_are_for_terminals_that_want_them() -> None:
    assert wants_colour(Terminal(), {"TERM": "xterm"})
    assert not wants_colour(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"})
    assert not wants_colour(Terminal(), {"TERM": "dumb"})
    assert not wants_colour(io.StringIO(), {})


@contextmanager
def person(answer: bytes) -> Iterator[TextIO]:
    """The terminal of someone who has typed ``answer``."""
    master, slave = pty.openpty()
    os.write(master, answer)
    with os.fdopen(slave, "r", closefd=True) as stream:
        yield stream
    os.close(master)


@pytest.mark.parametrize(
    ("answer", "meant"),
    [(b"y\n", True), (b"YES\n", True), (b"\n", False), (b"no\n", False), (b"yep\n", False), (b"\x04", False)],
)
def test_a_person_is_asked_and_only_yes_is_yes(answer: bytes, meant: bool) -> None:
    out, paused = Terminal(), []
    with person(answer) as answers:
        prompt: ports.Prompt = TerminalPrompt(
            yes=False, answers=answers, stream=out, pause=lambda: paused.append(True)
        )
        assert prompt.confirm("Restart?") is meant
    assert out.getvalue() == "Restart? [y/N] " + ("\n" if answer == b"\x04" else "")
    assert paused == [True]


class Interrupting(Terminal):
    """The terminal of someone who presses Ctrl-C."""

    def readline(self, size: int | None = -1, /) -> str:
        raise KeyboardInterrupt


def test_a_ctrl_c_at_the_question_leaves_the_next_line_to_what_follows() -> None:
    out = Terminal()
    with pytest.raises(KeyboardInterrupt):
        TerminalPrompt(yes=False, answers=Interrupting(), stream=out, pause=lambda: None).confirm("Stop?")
    assert out.getvalue() == "Stop? [y/N] \n"


def test_yes_answers_without_asking() -> None:
    out = io.StringIO()
    assert TerminalPrompt(yes=True, answers=None, stream=out, pause=lambda: None).confirm("Restart?")
    assert out.getvalue() == ""


@pytest.mark.parametrize("answers", [None, io.StringIO("y\n")])
def test_nobody_there_is_usage(answers: TextIO | None) -> None:
    with pytest.raises(UsageError, match="'Restart\\?' needs an answer") as caught:
        TerminalPrompt(yes=False, answers=answers, stream=Terminal(), pause=lambda: None).confirm("Restart?")
    assert "--yes" in str(caught.value.hint)
    assert caught.value.exit_code == 2
