"""What a person watches while several hosts are at work at once: a live table, or in a pipe plain lines.

Owns: the row of each host, and that lines of two hosts do not mix. Refuses: stdout, as ``terminal`` does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TextIO

from oeactl.edges.terminal import PlainProgress, QuietProgress, console, share
from oeactl.ports import Progress


class Board(Protocol):
    """One for a command. of: what one host's flow reports to. ended: it has nothing more to report."""

    def of(self, host: str) -> Progress: ...

    def ended(self, host: str, how: str) -> None: ...

    def pause(self) -> None:
        """Clear the screen for a question."""
        ...

    def close(self) -> None: ...


class _Named:
    """A text stream that writes whole lines, each behind a name, one at a time."""

    def __init__(self, stream: TextIO, name: str, turn: threading.Lock) -> None:
        self._stream = stream
        self._name = name
        self._turn = turn
        self._line = ""

    def write(self, text: str) -> int:
        self._line += text
        *whole, self._line = self._line.split("\n")
        with self._turn:
            for line in whole:
                self._stream.write(f"{self._name}: {line}\n")
        return len(text)

    def flush(self) -> None:
        with self._turn:
            self._stream.flush()


class PlainBoard:
    """Lines that begin with the host's name. quiet: warnings only, for ``--json``."""

    def __init__(self, stream: TextIO, *, verbose: bool = False, quiet: bool = False) -> None:
        self._stream = stream
        self._verbose = verbose
        self._kind = QuietProgress if quiet else PlainProgress
        self._turn = threading.Lock()

    def of(self, host: str) -> Progress:
        named: Any = _Named(self._stream, host, self._turn)
        return self._kind(named, verbose=self._verbose)

    def ended(self, host: str, how: str) -> None:
        """The result says it."""

    def pause(self) -> None:
        """Nothing is on the screen."""

    def close(self) -> None:
        """Nothing is open."""


class LiveBoard:
    """On a terminal: a table with a row a host, renewed in place; notes and warnings stand above it."""

    def __init__(
        self, stream: TextIO, hosts: Sequence[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console(stream)
        self._clock = clock
        self._rows: dict[str, _Row] = {host: _Row(self, host, clock) for host in hosts}
        self._live: Any = None
        self._turn = threading.RLock()

    def of(self, host: str) -> Progress:
        return self._rows[host]

    def ended(self, host: str, how: str) -> None:
        self._rows[host].show(how, over=True)

    def pause(self) -> None:
        with self._turn:
            live, self._live = self._live, None
            if live is not None:
                self._guard(live.stop)

    def close(self) -> None:
        self.pause()

    def refresh(self) -> None:
        """Begin to show the table, if it is not on the screen; it renews itself."""
        from rich.live import Live

        with self._turn:
            if self._live is None:
                self._live = Live(
                    console=self._console, get_renderable=self._table, transient=True, refresh_per_second=4
                )
                self._guard(self._live.start)

    def line(self, text: str, style: str) -> None:
        with self._turn:
            self._guard(lambda: self._console.print(text, style=style, markup=False, highlight=False))

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True, style="dim")
        table.add_column(no_wrap=True, overflow="ellipsis")
        for host, row in self._rows.items():
            table.add_row(Text(host, "dim" if row.over else "bold"), f"{row.seconds():.0f} s", Text(row.text))
        return table

    def _guard(self, write: Callable[[], object]) -> None:
        with suppress(OSError, ValueError):
            write()


class _Row:
    """ports.Progress of one host on a LiveBoard."""

    def __init__(self, board: LiveBoard, host: str, clock: Callable[[], float]) -> None:
        self._board = board
        self._host = host
        self._clock = clock
        self._since = clock()
        self._took: float | None = None
        self._step = ""
        self.text = "waiting"

    @property
    def over(self) -> bool:
        return self._took is not None

    def seconds(self) -> float:
        """Of the step under way; of the whole once it is over."""
        return self._took if self._took is not None else self._clock() - self._since

    def show(self, text: str, *, over: bool = False) -> None:
        self.text = text
        self._took = self._clock() - self._since if over else None
        self._board.refresh()

    def step(self, text: str) -> None:
        self._step, self._since = text, self._clock()
        self.show(text)

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        shown = text + share(done, total)
        self.show(f"{self._step}: {shown}" if self._step else shown)

    def note(self, text: str) -> None:
        self._board.line(f"{self._host}: {text}", "")

    def warn(self, text: str) -> None:
        self._board.line(f"{self._host}: warning: {text}", "yellow")
