"""Layered graph drawing: the positions of the boxes, and the points of the edges.

After Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures" (IEEE Trans. SMC 11, 1981), in four steps, without recursion:

1. a box's rank is the length of the longest path from it to an end;
2. an edge across several ranks gets a bend in each, up to a total number of bends;
3. in each rank, boxes and bends are sorted by the mean position of their neighbours, down and up,
   and the order with the fewest crossings is used;
4. each moves as close to its neighbours as the order and the widths allow: a least-squares fit to
   monotone positions, by pooling adjacent violators.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

GAP = 26.0  # between the boxes of a rank
LEVEL = 46.0  # between ranks
SWEEPS = 8
Edge = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """A drawing in pixels.

    Attributes:
        centers: the center (x, y) of each box.
        paths: the points of each edge, from the lower side of one box to the upper side of the
            other.
        size: width and height.
    """

    centers: list[tuple[float, float]]
    paths: list[list[tuple[float, float]]]
    size: tuple[float, float]


def layout_graph(boxes: Sequence[tuple[float, float]], edges: Sequence[Edge]) -> Layout:
    """Lays out a directed acyclic graph, with all edges downwards.

    Args:
        boxes: width and height of each.
        edges: pairs of indices into `boxes`, from and to.
    """
    ranks = assign_ranks(len(boxes), edges)
    items, chains = add_bends(boxes, edges, ranks)
    rows: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for item, (rank, _) in enumerate(items):
        rows[rank].append(item)
    links = [(a, b) for chain in chains for a, b in pairwise(chain)]
    short_links = [(a, b) for a, b in links if items[b][0] == items[a][0] + 1]
    up: list[list[int]] = [[] for _ in items]
    down: list[list[int]] = [[] for _ in items]
    for a, b in short_links:
        down[a].append(b)
        up[b].append(a)
    rows = reduce_crossings(rows, up, down)
    x = assign_x(rows, [width for _, width in items], up, down)
    heights = [max((boxes[i][1] for i in row if i < len(boxes)), default=0.0) for row in rows]
    rank_y, y = [], 0.0
    for height in heights:
        rank_y.append(y + height / 2)
        y += height + LEVEL
    left = min((x[i] - w / 2 for i, (_, w) in enumerate(items)), default=0.0)
    right = max((x[i] + w / 2 for i, (_, w) in enumerate(items)), default=0.0)
    positions = [(x[i] - left, rank_y[rank]) for i, (rank, _) in enumerate(items)]
    paths = []
    for chain in chains:
        (x0, y0), *bends, (x1, y1) = (positions[i] for i in chain)
        start, end = boxes[chain[0]][1] / 2, boxes[chain[-1]][1] / 2
        paths.append([(x0, y0 + start), *bends, (x1, y1 - end)])
    return Layout(positions[: len(boxes)], paths, (right - left, max(y - LEVEL, 0.0)))


def assign_ranks(n: int, edges: Sequence[Edge]) -> list[int]:
    """The rank of each box: ends are in the last rank, and a box is in the rank above its highest
    successor.
    """
    above: list[list[int]] = [[] for _ in range(n)]
    remaining = [0] * n
    for a, b in edges:
        above[b].append(a)
        remaining[a] += 1
    distance = [0] * n
    ready = [i for i in range(n) if not remaining[i]]
    while ready:
        b = ready.pop()
        for a in above[b]:
            distance[a] = max(distance[a], distance[b] + 1)
            remaining[a] -= 1
            if not remaining[a]:
                ready.append(a)
    last_rank = max(distance, default=0)
    return [last_rank - d for d in distance]


def add_bends(
    boxes: Sequence[tuple[float, float]], edges: Sequence[Edge], ranks: Sequence[int]
) -> tuple[list[tuple[int, float]], list[list[int]]]:
    """Boxes and bends as (rank, width), boxes first; and for each edge the items on it.

    The shortest edges get their bends first, up to a few bends per box: a parameter that every step
    of a long loop uses would need more bends than there are boxes.
    """
    items = [(rank, width) for rank, (width, _) in zip(ranks, boxes, strict=True)]
    remaining = 4 * len(boxes) + 6000
    chains: list[list[int]] = [list(edge) for edge in edges]
    for i in sorted(range(len(edges)), key=lambda i: ranks[edges[i][1]] - ranks[edges[i][0]]):
        a, b = edges[i]
        ranks_between = range(ranks[a] + 1, ranks[b])
        remaining -= len(ranks_between)
        if remaining < 0:
            break
        chains[i] = [a, *range(len(items), len(items) + len(ranks_between)), b]
        items.extend((rank, 4.0) for rank in ranks_between)
    return items, chains


def reduce_crossings(
    rows: list[list[int]], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Sorts the rows so that few edges cross."""
    position = [0.0] * len(up)

    def update_positions(row: list[int]) -> None:
        for i, item in enumerate(row):
            position[item] = i + 0.5 - len(row) / 2

    for row in rows:
        update_positions(row)
    best, fewest = [list(row) for row in rows], crossings(rows, down)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        neighbours = down if sweep % 2 == 0 else up
        for row in reversed(rows) if sweep % 2 == 0 else rows:
            row.sort(key=lambda item: mean([position[k] for k in neighbours[item]], position[item]))
            update_positions(row)
        count = crossings(rows, down)
        if count < fewest:
            best, fewest = [list(row) for row in rows], count
    return best


def mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def crossings(rows: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> int:
    """The number of crossing pairs of edges between adjacent rows."""
    count = 0
    for row, below in pairwise(rows):
        position = {item: i for i, item in enumerate(below)}
        previous_ends: list[int] = []
        for item in row:
            ends = sorted(position[k] for k in down[item])
            for end in ends:
                count += len(previous_ends) - bisect_right(previous_ends, end)
            for end in ends:
                insort(previous_ends, end)
    return count


def assign_x(
    rows: Sequence[Sequence[int]],
    widths: Sequence[float],
    up: Sequence[Sequence[int]],
    down: Sequence[Sequence[int]],
) -> list[float]:
    """The x of the center of each item."""
    x = [0.0] * len(widths)
    for row in rows:
        offset = 0.0
        for item in row:
            x[item] = offset + widths[item] / 2
            offset += widths[item] + GAP
        for item in row:
            x[item] -= offset / 2
    # A box without predecessors pulls its neighbours less than they pull it, so long chains with a
    # parameter at each step stay straight.
    weights = [1.0 if predecessors else 0.1 for predecessors in up]
    for sweep in range(SWEEPS + 1):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            targets = []
            for item in row:
                preferred, fallback = (up, down) if downwards else (down, up)
                neighbours = preferred[item] or fallback[item]
                total = sum(weights[k] for k in neighbours)
                targets.append(
                    sum(weights[k] * x[k] for k in neighbours) / total if total else x[item]
                )
            fit_row(row, targets, widths, x)
    return x


def fit_row(
    row: Sequence[int], targets: Sequence[float], widths: Sequence[float], x: list[float]
) -> None:
    """Moves a row's items as close to the targets as their order and widths allow."""
    offset, previous_half = 0.0, 0.0
    blocks: list[tuple[float, int]] = []  # (mean, count) of the pooled items
    offsets = []
    for i, item in enumerate(row):
        half = widths[item] / 2
        if i:
            offset += previous_half + GAP + half
        previous_half = half
        offsets.append(offset)
        value, count = targets[i] - offset, 1
        while blocks and blocks[-1][0] > value:
            previous_value, n = blocks.pop()
            value, count = (value * count + previous_value * n) / (count + n), count + n
        blocks.append((value, count))
    i = 0
    for value, count in blocks:
        for _ in range(count):
            x[row[i]] = value + offsets[i]
            i += 1
