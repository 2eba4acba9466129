"""Renders a laid-out graph as one SVG file without references."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .layout import layout_graph

MARGIN = 24.0
LINE = 16.0  # pixels between the lines of a box
CHARACTER = 6.9  # average width of a character, at most

# By kind: fill, outline, and label in the legend.
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
    """The drawing of a node.

    Args:
        kind: a key of COLORS.
        lines: its text, the first line in bold.
        note: the tooltip in a browser.
    """

    def __init__(self, kind: str, lines: Sequence[str], tooltip: str) -> None:
        self.kind, self.lines, self.tooltip = kind, [shorten(line) for line in lines], tooltip
        longest = max(len(self.lines[0]) * 1.1, *map(len, self.lines))
        self.width = max(64.0, longest * CHARACTER + 22)
        self.height = LINE * len(self.lines) + 14


def shorten(line: str) -> str:
    """Cuts the beginning of a long name."""
    return line if len(line) <= 44 else "…" + line[-43:]


def render_svg(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], title: str) -> str:
    """The SVG of boxes and arrows, with a title and a legend above."""
    layout = layout_graph([(box.width, box.height) for box in boxes], edges)
    top = MARGIN + 62
    kinds = [kind for kind in COLORS if any(box.kind == kind for box in boxes)]
    labels = [COLORS[kind][2] for kind in kinds]
    head = max(len(title) * CHARACTER * 1.1, sum(map(legend_width, labels)))
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
            f'<path class="edge" marker-end="url(#head)" d="{path_through(path)}"/>'
            for path in layout.paths
        ),
    ]
    for box, (x, y) in zip(boxes, layout.centers, strict=True):
        parts.extend(rectangle(box, x, y))
    return "\n".join([*parts, "</g>", "</svg>", ""])


def legend(kinds: Sequence[str]) -> list[str]:
    parts, x, y = [], MARGIN, MARGIN + 26
    for kind in kinds:
        fill, outline, label = COLORS[kind]
        parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="14" height="14" rx="3" fill="{fill}" '
            f'stroke="{outline}"/>'
            f'<text class="small left" x="{x + 20:.0f}" y="{y + 11:.0f}">{escape(label)}</text>'
        )
        x += legend_width(label)
    return parts


def legend_width(label: str) -> float:
    return len(label) * 5.9 + 44


def rectangle(box: Box, x: float, y: float) -> list[str]:
    fill, outline, _ = COLORS[box.kind]
    low, high = x - box.width / 2, y - box.height / 2
    parts = [
        f"<g><title>{escape(box.tooltip)}</title>",
        f'<rect x="{low:.1f}" y="{high:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="6" fill="{fill}" stroke="{outline}"/>',
    ]
    for i, line in enumerate(box.lines):
        css_class = "small" if i else "name"
        baseline = high + 19 + LINE * i
        parts.append(
            f'<text class="{css_class}" x="{x:.1f}" y="{baseline:.1f}">{escape(line)}</text>'
        )
    return [*parts, "</g>"]


def path_through(points: Sequence[tuple[float, float]]) -> str:
    """A path through the points that is vertical at each of them."""
    (x, y), *following = points
    path = [f"M{x:.1f} {y:.1f}"]
    for x1, y1 in following:
        middle = (y + y1) / 2
        path.append(f"C{x:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}")
        x, y = x1, y1
    return "".join(path)
