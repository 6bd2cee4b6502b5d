"""Axes of a figure: values to places on the page, and ticks where a person would put them.

Owns: scales, ticks and the frame of a plot. Refuses: colours (the page's style has them) and data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oeactl.render.markup import Markup, el

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_ROOM = 2.0


@dataclass(frozen=True)
class Scale:
    """``low``..``high`` of the data onto ``start``..``end`` of the page."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int) -> tuple[float, ...]:
        """About ``count`` round values."""
        return ticks(self.low, self.high, count)


def ticks(low: float, high: float, count: int) -> tuple[float, ...]:
    """About ``count`` round values from ``low`` to ``high``, both included where they are round."""
    raw = (high - low) / max(1, count)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * one for one in _STEPS if size * one >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(round(at * step, 12) for at in range(first, last + 1))


def around(values: Sequence[float], *, pad: float = 0.08, least: float = 0.0) -> tuple[float, float]:
    """A range that holds ``values`` with room on both sides. least: how wide it is at the least."""
    low, high = min(values), max(values)
    room = max(high - low, least, abs(high) * 1e-6, 1e-9)
    middle = (low + high) / 2
    return middle - room * (0.5 + pad), middle + room * (0.5 + pad)


def reach(inner: Sequence[float], outer: Sequence[float]) -> tuple[float, float]:
    """From the least to the most of all values, ``outer`` only as far as it does not dwarf ``inner``."""
    low, high = min(inner), max(inner)
    room = _ROOM * (high - low)
    return max(low - room, min([low, *outer])), min(high + room, max([high, *outer]))


def from_zero(values: Sequence[float]) -> tuple[float, float]:
    """A range from 0 to a little above the largest."""
    return 0.0, max([*values, 1e-9]) * 1.08


def short(value: float) -> str:
    """A tick's text: 12,000 is 12k."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:,.10g}"


def text(x: float, y: float, words: str, *, anchor: str = "middle", class_: str = "lab") -> Markup:
    return el("text", words, x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rows_of(
    scale: Scale, left: float, right: float, *, count: int = 5, label: Callable[[float], str] = short
) -> list[Markup]:
    """Horizontal lines at the ticks, their values on the left."""
    made = []
    for value in scale.ticks(count):
        y = scale(value)
        made += [line(left, y, right, y, "grid"), text(left - 6, y + 4, label(value), anchor="end")]
    return made


def columns_of(
    scale: Scale, top: float, bottom: float, *, count: int = 6, label: Callable[[float], str] = short
) -> list[Markup]:
    """Vertical lines at the ticks, their values below."""
    made = []
    for value in scale.ticks(count):
        x = scale(value)
        made += [line(x, top, x, bottom, "grid"), text(x, bottom + 16, label(value))]
    return made


def mark(x: float, y: float, series: int, *, r: float = 4.0, hollow: bool = False, title: str = "") -> Markup:
    """A mark of the series: its shape differs with its colour, so that neither is needed alone."""
    class_ = f"mark s{series % 8}" + (" hollow" if hollow else "")
    told = el("title", title) if title else None
    shape = series % 4
    if shape == 0:
        return el("circle", told, cx=x, cy=y, r=r, class_=class_)
    points = {
        1: ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
        2: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        3: ((0, -1.2), (1.2, 1), (-1.2, 1)),
    }[shape]
    return el(
        "polygon",
        told,
        points=" ".join(f"{x + dx * r:.1f},{y + dy * r:.1f}" for dx, dy in points),
        class_=class_,
    )


def cross(x: float, y: float, title: str) -> Markup:
    """What could not be measured."""
    return el("path", el("title", title), d=f"M{x - 4:.1f},{y - 4:.1f} l8,8 m0,-8 l-8,8", class_="lost")


def svg(width: float, height: float, label: str, *children: Markup | list[Markup]) -> Markup:
    """A drawing of that many pixels. label: what it shows, for whoever cannot see it."""
    return el(
        "svg",
        children,
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
    )
