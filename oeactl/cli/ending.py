"""How a call ends: its one document, its message, its exit code.

Owns: the one broad ``except`` of the program. Refuses: to know what was called.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from oeactl.errors import Interrupted, OeactlError

BROKEN_PIPE = 141


def print_document(value: Any) -> None:
    """Print one JSON document; structs, paths, tuples and bytes (as base64) included."""
    import msgspec

    def plain(other: Any) -> Any:
        if isinstance(other, os.PathLike):
            return os.fspath(other)
        raise TypeError(f"{type(other).__name__} has no JSON form")

    data = msgspec.json.encode(value, enc_hook=plain, order="deterministic")
    print(msgspec.json.format(data, indent=2).decode(), flush=True)  # noqa: T201 - stdout is this module's


class End:
    """How a call ended."""

    code = 0


@contextmanager
def ending(words: Sequence[str]) -> Iterator[End]:
    """Turn whatever a command raises into its message and exit code: the one broad except of the program.

    words: the command line; ``--json`` and ``--debug`` count even where it could not be parsed.
    """
    end = End()
    _interruptible()
    try:
        yield end
        sys.stdout.flush()
    except BrokenPipeError:
        end.code = _quiet()
    except KeyboardInterrupt as error:
        end.code = _report(Interrupted("interrupted"), error, words)
    except OeactlError as error:
        end.code = _report(error, error, words)
    except Exception as error:  # noqa: BLE001 - whatever it is, it ends here, as a bug
        from oeactl.render.errors import unexpected

        end.code = _report(unexpected(error), error, words)


def _interruptible() -> None:
    """A terminal that closes and a polite kill end a command as Ctrl-C does: in order."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup stays nohup
            signal.signal(number, interrupt)


def _report(error: OeactlError, cause: BaseException, words: Sequence[str]) -> int:
    from oeactl.edges.terminal import wants_colour
    from oeactl.render.errors import document, sentence

    options = words[: words.index("--")] if "--" in words else words
    try:
        if "--debug" in options:
            import traceback

            traceback.print_exception(cause, file=sys.stderr)
        if "--json" in options:
            print_document(document(error))
        else:
            red, plain = ("\033[1;31m", "\033[0m") if wants_colour(sys.stderr) else ("", "")
            for detail in error.details:
                print(detail, file=sys.stderr)  # noqa: T201 - stderr is this module's
            print(f"{red}error:{plain} {sentence(error)}", file=sys.stderr, flush=True)  # noqa: T201
    except BrokenPipeError:
        _quiet()
    return error.exit_code


def _quiet() -> int:
    """The reader went away: the last flush goes nowhere, and the code is that of a process SIGPIPE ended."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return BROKEN_PIPE
