"""A chart of lines with logarithmic axes, as one SVG file without references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any, NamedTuple

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 90, 150, 50, 50  # of the axes
COLORS = ("#3b82f6", "#22c55e", "#f97316", "#a855f7", "#78716c", "#db2777", "#0d9488")
STYLE = (
    "text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;font-size:12px;fill:#18181b}"
    ".title{font-weight:bold}.grid{stroke:#e4e4e7}.bound{stroke-dasharray:2 4}"
    "path{fill:none;stroke-width:2}"
)


class Line(NamedTuple):
    """The name of a line, and its points by x."""

    label: str
    points: Sequence[tuple[float, float]]


def si(x: int) -> str:
    """A power of ten with a prefix: 1 k, 10 M."""
    for size, prefix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if x >= size:
            return f"{x // size} {prefix}"
    return str(x)


def draw_chart(
    lines: Sequence[Line],
    title: str,
    x_label: str,
    y_label: str,
    y_text: Callable[[Any], str] = si,
    has_bounds: bool = True,
) -> str:
    """The SVG text.

    Args:
        y_text: the text of a power of ten at the y axis.
        has_bounds: whether each line has, dotted, what it would be if y grew as x does from its
            first point.
    """
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    if has_bounds:
        ys += [line.points[0][1] * max(xs) / line.points[0][0] for line in lines]
    low_x, high_x = log10(min(xs)), log10(max(xs))
    low_y, high_y = floor(log10(min(ys))), ceil(log10(max(ys)))

    def at(x: float, y: float) -> tuple[float, float]:
        right = (log10(x) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)
        up = (log10(y) - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM)
        return LEFT + right, HEIGHT - BOTTOM - up

    def path(points: Sequence[tuple[float, float]], color: str, css_class: str) -> str:
        text = " ".join("{:.1f} {:.1f}".format(*at(*point)) for point in points)
        return f'<path class="{css_class}" stroke="{color}" d="M{text}"/>'

    def text(x: float, y: float, anchor: str, words: str, css_class: str = "") -> str:
        return (
            f'<text class="{css_class}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">',
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(LEFT, 22, "start", title, "title"),
        text(LEFT, 40, "start", y_label + "; dotted: n times that of one" * has_bounds),
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "middle", x_label),
    ]
    for power in range(floor(low_x), floor(high_x) + 1):
        x, y = at(10**power, 10**low_y)
        parts.append(f'<path class="grid" d="M{x:.1f} {y:.1f}V{TOP}"/>')
        parts.append(text(x, y + 16, "middle", si(10**power)))
    for power in range(low_y, high_y + 1):
        x, y = at(10**low_x, 10**power)
        parts.append(f'<path class="grid" d="M{x:.1f} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(text(x - 6, y + 4, "end", y_text(10**power)))
    for i, (line, color) in enumerate(zip(lines, COLORS)):
        x, y = line.points[0]
        end = max(xs)
        if has_bounds:
            parts.append(path([(x, y), (end, y * end / x)], color, "bound"))
        parts.append(path(line.points, color, "line"))
        x, y = WIDTH - RIGHT + 12, TOP + 12 + 22 * i
        parts.append(f'<path stroke="{color}" d="M{x} {y}h18"/>')
        parts.append(text(x + 24, y + 4, "start", line.label))
    return "\n".join([*parts, "</svg>", ""])
