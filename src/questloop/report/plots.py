"""Draws charts as inline SVG, in a millisecond each, for the report and for live pages.

Colours are CSS classes of the page, so that a chart follows light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 42, 10, 18, 36
MOST_POINTS = 240
SMOOTHED_FROM = 12
"""A line of so many points is drawn as the mean of five neighbours, over the points themselves, faint."""
NAMED_BOUNDARIES = 6
ASIDE = 5
"""pixels between the bars of several lines at one x"""
COLOURS = 6
"""classes s0 to s5 of the page"""


@dataclass(frozen=True)
class Line:
    """A series; a y of None leaves a gap. `low` and `high` draw a bar at each point."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


def line_plot(
    title: str,
    lines: Sequence[Line],
    x_label: str,
    boundaries: Sequence[float] = (),
    y_range: tuple[float, float] | None = None,
    whole: bool = False,
) -> Markup:
    """Lines over a common x, which is marked at whole numbers alone where it is `whole`.

    `boundaries` are thin verticals at the beginnings of epochs, numbered from 1 where they are few.
    """
    lines = [_thinned(line) for line in lines]
    values = [y for line in lines for y in (*line.y, *line.low, *line.high) if y is not None]
    xs = [x for line in lines for x in line.x]
    if not values:
        return Markup('<p class="soft">Nothing measured yet.</p>')
    counts = all(float(value).is_integer() for value in values)
    barred = [index for index, line in enumerate(lines) if line.low]
    margin = (max(xs) - min(xs)) * len(barred) * ASIDE / (2 * WIDTH)
    x_range = min(xs) - margin, max(xs) + margin
    frame = _Frame(x_range, y_range or (min(0.0, *values), max(0.0, *values)), counts)
    parts = [frame.axes(x_label, whole), *frame.epochs(boundaries)]
    for index, line in enumerate(lines):
        aside = barred.index(index) - (len(barred) - 1) / 2 if index in barred else 0.0
        parts.append(frame.line(line, index, aside * ASIDE))
    return _svg(title, _summary(lines), parts) + _legend(lines)


def reliability_plot(title: str, points: Sequence[tuple[float, float, int]], x_label: str) -> Markup:
    """Predicted against observed frequencies: a dot per bin, its area the number of cases."""
    if not points:
        return Markup('<p class="soft">Too few known outcomes.</p>')
    frame = _Frame((0, 1), (0, 1))
    most = max(count for _, _, count in points)
    parts = [frame.axes(x_label), frame.diagonal()]
    for x, y, count in points:
        radius = 3 + 9 * math.sqrt(count / most)
        parts.append(
            f'<circle class="dot s0" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="{radius:.1f}">'
            f"<title>{x:.2f} predicted, {y:.2f} observed, {count} cases</title></circle>"
        )
    return _svg(title, f"{len(points)} bins, {sum(count for *_, count in points):,} cases", parts)


class _Frame:
    """From values to pixels."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], counts: bool = False) -> None:
        """`counts`: y is marked at whole numbers alone."""
        self._x, self._y = _widened(x), y if y[1] > y[0] else (y[0], y[0] + 1)
        self._y_ticks = _ticks(*self._y, least=1.0 if counts else 0.0)
        self._y = min(self._y[0], self._y_ticks[0]), max(self._y[1], self._y_ticks[-1])

    def x(self, value: float) -> float:
        low, high = self._x
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def axes(self, x_label: str, whole: bool = False) -> str:
        parts = []
        for tick in self._y_ticks:
            y = self.y(tick)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{_short(tick)}</text>')
        for tick in _ticks(*self._x, most=4):
            if self._x[0] <= tick <= self._x[1] and not (whole and tick % 1):
                parts.append(
                    f'<text x="{self.x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
                    f"{_short(tick)}</text>"
                )
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text x="{middle}" y="{HEIGHT - 3}" text-anchor="middle">{escape(x_label)}</text>')
        return "".join(parts)

    def epochs(self, boundaries: Sequence[float]) -> list[str]:
        parts = []
        for number, x in enumerate(map(self.x, boundaries), 1):
            parts.append(
                f'<line class="boundary" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            )
            if len(boundaries) <= NAMED_BOUNDARIES:
                parts.append(f'<text x="{x:.1f}" y="{TOP - 6}" text-anchor="middle">epoch {number}</text>')
        return parts

    def diagonal(self) -> str:
        return f'<line class="boundary" x1="{self.x(0)}" y1="{self.y(0)}" x2="{self.x(1)}" y2="{self.y(1)}"/>'

    def line(self, line: Line, index: int, aside: float = 0.0) -> str:
        """`aside`: pixels to the right of its place."""
        colour = f"s{index % COLOURS}"
        places = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
        if len(places) >= SMOOTHED_FROM and not line.low:
            means = _means([y for _, y in places])
            smooth = [(x, y) for (x, _), y in zip(places, means, strict=True)]
            return self._path(places, f"faint {colour}") + self._path(smooth, colour)
        parts = [self._path(places, colour, aside)]
        if len(places) <= 60:
            for x, y in places:
                parts.append(
                    f'<circle class="dot {colour}" cx="{self.x(x) + aside:.1f}" cy="{self.y(y):.1f}" r="2.6">'
                    f"<title>{escape(line.label)} {_short(y)} at {x:,.0f}</title></circle>"
                )
        for x, low, high in zip(line.x, line.low, line.high, strict=False):
            if low is not None and high is not None:
                at = f"{self.x(x) + aside:.1f}"
                parts.append(
                    f'<line class="whisker {colour}" x1="{at}" x2="{at}" '
                    f'y1="{self.y(low):.1f}" y2="{self.y(high):.1f}"/>'
                )
        return "".join(parts)

    def _path(self, places: Sequence[tuple[float, float]], classes: str, aside: float = 0.0) -> str:
        path = " ".join(f"{self.x(x) + aside:.1f},{self.y(y):.1f}" for x, y in places)
        return f'<polyline class="line {classes}" points="{path}"/>'


def _means(values: Sequence[float]) -> list[float]:
    """The mean of each value with its two neighbours on either side, fewer at the ends."""
    windows = (values[max(0, place - 2) : place + 3] for place in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def _svg(title: str, summary: str, parts: Sequence[str]) -> Markup:
    label = escape(f"{title}: {summary}")
    return Markup(
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def _legend(lines: Sequence[Line]) -> Markup:
    if len(lines) < 2:
        return Markup("")
    keys = "".join(
        f'<li><svg class="key" viewBox="0 0 16 4" aria-hidden="true">'
        f'<line class="line s{index % COLOURS}" x1="0" x2="16" y1="2" y2="2"/></svg>{escape(line.label)}</li>'
        for index, line in enumerate(lines)
    )
    return Markup(f'<ul class="legend">{keys}</ul>')


def _summary(lines: Sequence[Line]) -> str:
    """What a screen reader says in place of the picture."""
    said = []
    for line in lines:
        values = [y for y in line.y if y is not None]
        if values:
            said.append(
                f"{line.label} from {_short(values[0])} to {_short(values[-1])}, "
                f"between {_short(min(values))} and {_short(max(values))}"
            )
    return "; ".join(said)


def _thinned(line: Line) -> Line:
    """At most MOST_POINTS points, each the mean of its neighbours; one with bars is left as it is."""
    size = math.ceil(len(line.x) / MOST_POINTS)
    if size <= 1 or line.low:
        return line
    chunks = [slice(start, start + size) for start in range(0, len(line.x), size)]
    means: list[float | None] = []
    for chunk in chunks:
        values = [y for y in line.y[chunk] if y is not None]
        means.append(sum(values) / len(values) if values else None)
    return Line(line.label, [line.x[chunk][-1] for chunk in chunks], means)


def _widened(span: tuple[float, float]) -> tuple[float, float]:
    low, high = span
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _ticks(low: float, high: float, most: int = 5, least: float = 0.0) -> list[float]:
    """Round values that cover `low` to `high`, at least `least` apart."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = max(least, next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw))
    first = math.floor(low / step)
    return [round(index * step, 12) for index in range(first, math.ceil(high / step) + 1)]


def _short(value: float) -> str:
    """Three digits that matter, thousands as k, millions as M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
