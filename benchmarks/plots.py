"""Line and bar plots as SVG, by hand: no plotting library in the core's environment, and files that diff
well."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 290, 44, 48
BAR = 22
"""Height of a bar, with the space below it."""
TICK_SPACE = 34
"""Numbers of an axis are this far apart at least."""
COLOURS = {
    "crdtcat": "#0b6e4f",
    "raw": "#888888",
    "Delta": "#1f77b4",
    "Iceberg": "#17a2c8",
    "Lance": "#e07b00",
    "Icechunk": "#8e44ad",
    "DuckLake": "#c0a000",
    "DuckLake on PostgreSQL": "#7a5c00",
}
OTHERS = ("#d62728", "#8c564b", "#e377c2", "#7f7f00", "#2ca02c")


@dataclass(frozen=True)
class Plot:
    """Series of (x, y) on two logarithmic axes: what is measured here spans orders of magnitude. Where all
    have one and the same x, a bar for each; `x` may then be nothing.

    Attributes:
        name: part of the file's name.
        series: name to points; a name like `Delta, generous` takes Delta's colour, dashed and hollow.
    """

    name: str
    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]

    def svg(self) -> str:
        points = [point for line in self.series.values() for point in line if point[0] > 0 and point[1] > 0]
        if len({x for x, _ in points}) == 1 and len(points) > 1:
            return self._bars(points[0][0])
        parts = _begun(self.title, HEIGHT)
        if points:
            across = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT, exact=True)
            up = _Axis([y for _, y in points], HEIGHT - BOTTOM, TOP, exact=False)
            parts += self._grid(across, up)
            for number, (name, line) in enumerate(self.series.items()):
                parts += _line(number, name, line, across, up)
        return "\n".join([*parts, "</svg>", ""])

    def _bars(self, x: float) -> str:
        """One bar for each series, from the left, on a logarithmic axis."""
        bars = {name: line[0][1] for name, line in self.series.items() if line and line[0][1] > 0}
        height = TOP + BAR * len(bars) + BOTTOM
        across = _Axis([*bars.values()], RIGHT, WIDTH - LEFT, exact=False)
        parts = _begun(f"{self.title}, {x:,g} {self.x}" if self.x else self.title, height)
        for value in across.ticks:
            at = across.at(value)
            parts.append(f'<path d="M{at:.1f} {TOP - 4}V{height - BOTTOM}" stroke="#ddd"/>')
            parts.append(
                f'<text x="{at:.1f}" y="{height - BOTTOM + 16}" text-anchor="middle">{value:,g}</text>'
            )
        for number, (name, value) in enumerate(bars.items()):
            colour, dash = _look(number, name)
            top, wide = TOP + BAR * number, across.at(value) - RIGHT
            fill = f'fill="#fff" stroke="{colour}"{dash}' if dash else f'fill="{colour}" stroke="{colour}"'
            parts += [
                f'<text x="{RIGHT - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>',
                f'<rect x="{RIGHT}" y="{top}" width="{wide:.1f}" height="{BAR - 6}" {fill}/>',
                f'<text x="{RIGHT + wide + 6:.1f}" y="{top + 13}">{_figure(value)}</text>',
            ]
        parts.append(
            f'<text x="{(RIGHT + WIDTH - LEFT) / 2}" y="{height - 10}" text-anchor="middle">{escape(self.y)}'
            "</text>"
        )
        return "\n".join([*parts, "</svg>", ""])

    def _grid(self, across: _Axis, up: _Axis) -> list[str]:
        parts = []
        for value in up.ticks:
            y = up.at(value)
            parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,g}</text>')
        last = -math.inf
        for value in across.ticks:
            x = across.at(value)
            parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eee"/>')
            if x - last < TICK_SPACE:
                continue  # two numbers would stand in each other's way
            last = x
            parts.append(
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:,g}</text>'
            )
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(self.x)}</text>')
        parts.append(
            f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.y)}</text>"
        )
        return parts


class _Axis:
    """A logarithmic axis: its ticks are the values themselves (`exact`), or powers of ten."""

    def __init__(self, values: Sequence[float], start: float, stop: float, *, exact: bool) -> None:
        low, high = min(values), max(values)
        if exact:
            self.ticks = sorted(set(values))
        else:
            low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
            count = round(math.log10(high / low)) + 1
            self.ticks = [low * 10**step for step in range(count)]
        self._low, self._span = math.log10(low), (math.log10(high) - math.log10(low)) or 1.0
        self._start, self._stop = start, stop

    def at(self, value: float) -> float:
        return self._start + (math.log10(value) - self._low) / self._span * (self._stop - self._start)


def _begun(title: str, height: float) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        '  font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]


def _figure(value: float) -> str:
    """Three digits, or all there are before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _look(number: int, name: str) -> tuple[str, str]:
    """An engine's colour, and dashes for settings other than its defaults."""
    base, _, variant = name.partition(", ")
    return COLOURS.get(base, OTHERS[number % len(OTHERS)]), ' stroke-dasharray="5 4"' if variant else ""


def _line(number: int, name: str, line: Sequence[tuple[float, float]], across: _Axis, up: _Axis) -> list[str]:
    colour, dash = _look(number, name)
    fill = f'fill="#fff" stroke="{colour}" stroke-width="1.5"' if dash else f'fill="{colour}"'
    shown = [(across.at(x), up.at(y)) for x, y in line if x > 0 and y > 0]
    path = " ".join(f"{'L' if at else 'M'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(shown))
    y = TOP + 8 + 18 * number
    edge = WIDTH - RIGHT + 14
    return [
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>' if shown else "",
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" {fill}/>' for x, y in shown),
        f'<path d="M{edge} {y}h22" stroke="{colour}" stroke-width="2"{dash}/>',
        f'<text x="{edge + 28}" y="{y + 4}">{escape(name)}</text>',
    ]
