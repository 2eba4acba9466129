"""A chart of bars with a line at 1, as one SVG file without references."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760, 310, 70, 56, 40
STEP, HEIGHT = 26, 16  # of a bar
BETTER, WORSE = "#22c55e", "#f97316"
STYLE = (
    "text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;font-size:12px;fill:#18181b}"
    ".title{font-weight:bold}.one{stroke:#18181b;stroke-width:1.5}"
)


class Bar(NamedTuple):
    """A name and a ratio."""

    label: str
    ratio: float


def draw_bars(bars: Sequence[Bar], title: str, x_label: str) -> str:
    """The SVG text. Bars up to 1 have one color, those beyond another."""
    most = max(1.2, *(bar.ratio for bar in bars))
    scale = (WIDTH - LEFT - RIGHT) / most
    bottom = TOP + STEP * len(bars)
    height = bottom + BOTTOM

    def text(x: float, y: float, anchor: str, words: str, css_class: str = "") -> str:
        return (
            f'<text class="{css_class}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">',
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(20, 22, "start", title, "title"),
        text(20, 40, "start", x_label),
    ]
    for i, bar in enumerate(bars):
        y = TOP + STEP * i
        color = BETTER if bar.ratio <= 1 else WORSE
        width = bar.ratio * scale
        parts.append(text(LEFT - 8, y + 13, "end", bar.label))
        parts.append(
            f'<rect class="bar" x="{LEFT}" y="{y}" width="{width:.1f}" height="{HEIGHT}" '
            f'fill="{color}"/>'
        )
        parts.append(text(LEFT + max(width, scale) + 8, y + 13, "start", f"{bar.ratio:.2g}"))
    one = LEFT + scale
    parts.append(f'<path class="one" d="M{one:.1f} {TOP - 6}V{bottom}"/>')
    parts.append(text(one, bottom + 16, "middle", "1.0"))
    return "\n".join([*parts, "</svg>", ""])
