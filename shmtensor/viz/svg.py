"""A laid-out graph as one SVG file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .layout import layered

__all__ = ["Box", "render_svg"]

MARGIN = 24.0
LINE = 16.0  # pixels from line to line in a box
CHARACTER = 6.9  # the width of one, at most on the average

# By kind: fill, outline, and the word for it in the legend.
COLORS = {
    "parameter": ("#dbeafe", "#3b82f6", "leaf that collects a gradient"),
    "operation": ("#f4f4f5", "#a1a1aa", "operation"),
    "output": ("#dcfce7", "#22c55e", "output"),
}
STYLE = (
    "text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;font-size:12px;fill:#18181b;"
    "text-anchor:middle}.name{font-weight:bold}.small{font-size:11px;fill:#52525b}"
    ".left{text-anchor:start}.edge{fill:none;stroke:#71717a;stroke-width:1.2}"
)


class Box:
    """What is drawn of a node.

    Args:
        kind: a key of COLORS.
        lines: its text, the first line in bold.
        note: what a browser shows when the pointer is on it.
    """

    def __init__(self, kind: str, lines: Sequence[str], note: str) -> None:
        self.kind, self.lines, self.note = kind, [cut(line) for line in lines], note
        longest = max(len(self.lines[0]) * 1.1, *map(len, self.lines))
        self.width = max(64.0, longest * CHARACTER + 22)
        self.height = LINE * len(self.lines) + 14


def cut(line: str) -> str:
    """A long name keeps its end, which says most."""
    return line if len(line) <= 44 else "…" + line[-43:]


def render_svg(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], title: str) -> str:
    """The SVG of boxes and of arrows between them, with a title and a legend above."""
    layout = layered([(box.width, box.height) for box in boxes], edges)
    top = MARGIN + 62
    kinds = [kind for kind in COLORS if any(box.kind == kind for box in boxes)]
    words = [COLORS[kind][2] for kind in kinds]
    head = max(len(title) * CHARACTER * 1.1, sum(map(legend_width, words)))
    width = max(layout.size[0], head) + 2 * MARGIN
    height = layout.size[1] + top + MARGIN
    left = (width - layout.size[0]) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 1 10 5 0 9z" fill="#71717a"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        f'<text class="name left" x="{MARGIN:.0f}" y="{MARGIN + 12:.0f}">{escape(title)}</text>',
        *legend(kinds),
        f'<g transform="translate({left:.1f} {top:.1f})">',
        *(
            f'<path class="edge" marker-end="url(#head)" d="{path_through(way)}"/>'
            for way in layout.ways
        ),
    ]
    for box, (x, y) in zip(boxes, layout.places, strict=True):
        parts.extend(rectangle(box, x, y))
    return "\n".join([*parts, "</g>", "</svg>", ""])


def legend(kinds: Sequence[str]) -> list[str]:
    parts, x, y = [], MARGIN, MARGIN + 26
    for kind in kinds:
        fill, outline, word = COLORS[kind]
        parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="14" height="14" rx="3" fill="{fill}" '
            f'stroke="{outline}"/>'
            f'<text class="small left" x="{x + 20:.0f}" y="{y + 11:.0f}">{escape(word)}</text>'
        )
        x += legend_width(word)
    return parts


def legend_width(word: str) -> float:
    return len(word) * 5.9 + 44


def rectangle(box: Box, x: float, y: float) -> list[str]:
    fill, outline, _ = COLORS[box.kind]
    low, high = x - box.width / 2, y - box.height / 2
    parts = [
        f"<g><title>{escape(box.note)}</title>",
        f'<rect x="{low:.1f}" y="{high:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="6" fill="{fill}" stroke="{outline}"/>',
    ]
    for i, line in enumerate(box.lines):
        shade = "small" if i else "name"
        at = high + 19 + LINE * i
        parts.append(f'<text class="{shade}" x="{x:.1f}" y="{at:.1f}">{escape(line)}</text>')
    return [*parts, "</g>"]


def path_through(way: Sequence[tuple[float, float]]) -> str:
    """A path through the points that leaves and reaches each of them vertically."""
    (x, y), *rest = way
    path = [f"M{x:.1f} {y:.1f}"]
    for x1, y1 in rest:
        middle = (y + y1) / 2
        path.append(f"C{x:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}")
        x, y = x1, y1
    return "".join(path)
