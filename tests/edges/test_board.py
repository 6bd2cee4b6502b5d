"""What is watched of several hosts: whole lines behind their names, or one table that renews itself."""

from __future__ import annotations

import io
import threading

from oeactl.edges.board import LiveBoard, PlainBoard


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_pipe_every_line_has_its_host_and_none_is_torn() -> None:
    stream = io.StringIO()
    board = PlainBoard(stream)

    def work(host: str) -> None:
        progress = board.of(host)
        for number in range(50):
            progress.step(f"step {number}")
        progress.warn("careful")
        board.ended(host, "done")

    threads = [threading.Thread(target=work, args=(f"h{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4 * 51
    for host in ("h0", "h1", "h2", "h3"):
        mine = [line for line in lines if line.startswith(f"{host}: ")]
        assert mine == [*(f"{host}: step {number}" for number in range(50)), f"{host}: warning: careful"]


def test_for_json_only_warnings_are_said() -> None:
    stream = io.StringIO()
    progress = PlainBoard(stream, quiet=True).of("h1")
    progress.step("looking")
    progress.note("a note")
    progress.warn("careful")
    assert stream.getvalue() == "h1: warning: careful\n"


def test_on_a_terminal_a_row_a_host_and_notes_above(monkeypatch: object) -> None:
    stream = Terminal()
    now = [100.0]
    board = LiveBoard(stream, ["h1", "h2"], clock=lambda: now[0])
    board.of("h1").step("waiting until it answers")
    now[0] = 107.0
    board.of("h1").update("loading weights", done=40, total=100)
    board.of("h2").note("something worth a line")
    board.ended("h2", "done")
    board.pause()
    assert "h2: something worth a line" in stream.getvalue()
    board.of("h1").update("loading weights", done=50, total=100)
    board.close()
    shown = stream.getvalue()
    assert "h1" in shown
    assert "7 s" in shown
    assert "waiting until it answers: loading weights 50 %" in shown
    assert "done" in shown


def test_a_terminal_that_goes_away_fails_nobody() -> None:
    stream = Terminal()
    board = LiveBoard(stream, ["h1"])
    board.of("h1").step("looking")
    board.pause()
    stream.close()
    board.of("h1").note("nobody reads this")
    board.close()
