"""Markdown as GitHub reads it: tables, code, parts that fold.

Owns: escaping in them. Refuses: to know any report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> Iterator[str]:
    """left: how many columns of words come first; the others stand right."""
    yield f"| {' | '.join(map(_cell, heads))} |"
    yield f"|{''.join('---|' if at < left else '--:|' for at in range(len(heads)))}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ").replace("<", "&lt;")


def code(text: str, language: str = "") -> Iterator[str]:
    """A block that ends only where it should, whatever is in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    yield f"{fence}{language}"
    yield from text.rstrip("\n").split("\n")
    yield fence


def folded(summary: str, lines: Iterable[str]) -> Iterator[str]:
    """A part that opens on a click."""
    yield f"<details><summary>{summary}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"
