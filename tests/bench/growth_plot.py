"""A drawing of curves over a number of instances, both axes logarithmic; SVG, written by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 30, 50
COLOURS = ("#1f5fa8", "#b5541c")
TEXT = 'font-family="sans-serif" font-size="12" fill="#333"'


@dataclass(frozen=True)
class Curve:
    """A name, and a value more than 0 for each place on the axis."""

    name: str
    values: list[float]


def drawn(places: Sequence[int], curves: Sequence[Curve]) -> str:
    """The SVG of these curves."""
    values = [value for curve in curves for value in curve.values]
    across = _Scale.over(places, start=LEFT, end=WIDTH - RIGHT)
    up = _Scale.over(values, start=HEIGHT - BOTTOM, end=TOP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *_axes(across, up),
        *(
            line
            for curve, colour in zip(curves, COLOURS, strict=True)
            for line in _curve(places, curve, colour, across, up)
        ),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Scale:
    """Powers of ten from `low` to `high` between two points."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], *, start: float, end: float) -> _Scale:
        return cls(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))), start, end)

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * (math.log10(value) - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def _axes(across: _Scale, up: _Scale) -> Iterator[str]:
    for tick in across.ticks:
        x = across.at(tick)
        yield f'<line x1="{x:.1f}" y1="{up.start}" x2="{x:.1f}" y2="{up.end}" stroke="#ddd"/>'
        yield f'<text x="{x:.1f}" y="{up.start + 18}" text-anchor="middle" {TEXT}>{tick:,.0f}</text>'
    for tick in up.ticks:
        y = up.at(tick)
        yield f'<line x1="{across.start}" y1="{y:.1f}" x2="{across.end}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{across.start - 8}" y="{y + 4:.1f}" text-anchor="end" {TEXT}>{tick:,.10g}</text>'
    middle = (across.start + across.end) / 2
    yield f'<text x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle" {TEXT}>instances</text>'


def _curve(places: Sequence[int], curve: Curve, colour: str, across: _Scale, up: _Scale) -> Iterator[str]:
    points = [(across.at(place), up.at(value)) for place, value in zip(places, curve.values, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points)
    x, y = points[-1]
    label = TEXT.replace("#333", colour)
    yield f'<text x="{x + 10:.1f}" y="{y + 4:.1f}" {label}>{curve.name}: {curve.values[-1]:,.0f}</text>'
