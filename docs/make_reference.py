"""Write docs/reference.md from the command line itself: ``make docs``. A test keeps the file true."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oeactl import errors
from oeactl.cli.app import SECTIONS, application

TARGET = Path(__file__).parent / "reference.md"
INTRODUCTION = """\
# Commands

*Made from the program by `make docs`; do not edit.*

Every command takes `--project FOLDER` (the folder with `hosts.yaml`, if it is not this one or one above),
`--json` (one JSON document on stdout and nothing else, errors included), `-v`, `--debug` and `--help`.
Progress, questions and warnings go to stderr; without a terminal they are plain lines.
`NO_COLOR` is honoured.
"""
COMMON = {"--project", "--json", "--verbose", "--debug", "--help"}
OTHER_CODES = {0: "Done.", 1: "A bug of oeactl.", 141: "The reader of the output went away (a closed pipe)."}


def reference() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_exit_codes(), *_commands()]).rstrip() + "\n"


def _exit_codes() -> Iterator[str]:
    codes = dict(OTHER_CODES)
    for kind in errors.OeactlError.__subclasses__():
        codes.setdefault(kind.exit_code, (kind.__doc__ or "").splitlines()[0])
    yield "## Exit codes\n\n| code | means |\n|---|---|"
    yield from (f"| {code} | {meaning} |" for code, meaning in sorted(codes.items()))
    yield ""


def _commands() -> Iterator[str]:
    root = application()
    for title, rows in SECTIONS.items():
        yield f"## {title}\n"
        for name in rows:
            command = root.get_command(None, name)
            inner = getattr(command, "commands", None)
            for path, one in (
                [(f"{name} {sub}", found) for sub, found in inner.items()] if inner else [(name, command)]
            ):
                yield from _command(path, one)


def _command(path: str, command: Any) -> Iterator[str]:
    context = command.make_context(f"oeactl {path}", [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"### oeactl {path}\n\n```\noeactl {path} {usage}\n```\n"
    yield from _paragraphs(command.help)
    records = [
        record
        for param in command.get_params(context)
        if not COMMON.intersection(param.opts) and (record := param.get_help_record(context))
    ]
    if records:
        yield "| | |\n|---|---|"
        yield from (f"| `{left}` | {text} |".replace("|str", "\\|str") for left, text in records)
        yield ""
    examples = command.epilog.splitlines()[2:]
    yield "```\n" + "\n".join(line.strip() for line in examples) + "\n```\n"


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b\n"):
            title, *lines = paragraph[2:].splitlines()
            yield f"{title}\n\n```\n{textwrap.dedent(chr(10).join(lines))}\n```\n"
        else:
            yield f"{paragraph}\n"


if __name__ == "__main__":
    TARGET.write_text(reference())
    print(f"wrote {TARGET}")
