"""HTML and SVG as values: an element is made of its children, and what is not markup is escaped.

Owns: escaping, and how attributes are written. Refuses: to know any page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_VOID = frozenset({"meta", "br", "hr"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | Markup | Iterable["Child"] | None


def el(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """An element. ``class_`` is class, ``stroke_width`` stroke-width; None: no such attribute."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{told}>")
    return Markup(f"<{name}{told}>{joined(children)}</{name}>")


def joined(children: Child) -> Markup:
    """The children one after the other; text is escaped."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(escape(children, quote=False))
    return Markup("".join(map(joined, children)))


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Child]],
    *,
    left: Sequence[int] = (0,),
    wraps: Sequence[int] = (),
    dim: Sequence[int] = (),
) -> Markup:
    """A table that scrolls by itself where it is too wide.

    left: columns of words; wraps: those of sentences; dim: rows that stand back.
    """

    def cell(name: str, at: int, child: Child) -> Markup:
        classes = [class_ for class_, columns in (("t", left), ("w", wraps)) if at in columns]
        return el(name, child, class_=" ".join(classes) or None)

    return el(
        "div",
        el(
            "table",
            el("thead", el("tr", [cell("th", at, head) for at, head in enumerate(heads)])),
            el(
                "tbody",
                [
                    el(
                        "tr",
                        [cell("td", at, child) for at, child in enumerate(row)],
                        class_="dim" if number in dim else None,
                    )
                    for number, row in enumerate(rows)
                ],
            ),
        ),
        class_="scroll",
    )


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
