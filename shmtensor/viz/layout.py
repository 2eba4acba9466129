"""Where the boxes of a layered drawing go, and by which points its edges pass.

After Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures" (IEEE Trans. SMC 11, 1981), in four steps, none of which recurses:

1. a box's rank is the longest way from it to an end;
2. an edge across several ranks gets a bend in each, as far as there are not too many bends;
3. in each rank, boxes and bends are sorted by the mean place of their neighbours, down and up, and
   the order with the fewest crossings stays;
4. each moves as near to its neighbours as the order and the widths allow: a least-squares fit to
   monotone places, by pooling adjacent violators.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Layout", "layered"]

GAP = 26.0  # between the boxes of a rank
LEVEL = 46.0  # between ranks
SWEEPS = 8
Pair = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """A drawing in pixels.

    Attributes:
        places: the centre (x, y) of each box.
        ways: for each edge the points that it passes, from the lower side of one box to the upper
            side of the other.
        size: width and height.
    """

    places: list[tuple[float, float]]
    ways: list[list[tuple[float, float]]]
    size: tuple[float, float]


def layered(boxes: Sequence[tuple[float, float]], edges: Sequence[Pair]) -> Layout:
    """Lays out a directed graph without cycles, so that all edges lead downwards.

    Args:
        boxes: width and height of each.
        edges: pairs of places in `boxes`, from and to.
    """
    ranks = ranked(len(boxes), edges)
    items, chains = with_bends(boxes, edges, ranks)
    rows: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for item, (rank, _) in enumerate(items):
        rows[rank].append(item)
    links = [(a, b) for chain in chains for a, b in pairwise(chain)]
    steps = [(a, b) for a, b in links if items[b][0] == items[a][0] + 1]
    up: list[list[int]] = [[] for _ in items]
    down: list[list[int]] = [[] for _ in items]
    for a, b in steps:
        down[a].append(b)
        up[b].append(a)
    rows = ordered(rows, up, down)
    across = centred_positions(rows, [width for _, width in items], up, down)
    tall = [max((boxes[i][1] for i in row if i < len(boxes)), default=0.0) for row in rows]
    middle, y = [], 0.0
    for height in tall:
        middle.append(y + height / 2)
        y += height + LEVEL
    left = min((across[i] - w / 2 for i, (_, w) in enumerate(items)), default=0.0)
    right = max((across[i] + w / 2 for i, (_, w) in enumerate(items)), default=0.0)
    places = [(across[i] - left, middle[rank]) for i, (rank, _) in enumerate(items)]
    ways = []
    for chain in chains:
        (x0, y0), *inner, (x1, y1) = (places[i] for i in chain)
        start, end = boxes[chain[0]][1] / 2, boxes[chain[-1]][1] / 2
        ways.append([(x0, y0 + start), *inner, (x1, y1 - end)])
    return Layout(places[: len(boxes)], ways, (right - left, max(y - LEVEL, 0.0)))


def ranked(n: int, edges: Sequence[Pair]) -> list[int]:
    """For each box its rank: ends are in the last, and a box stands right above the highest of
    those that it leads to.
    """
    above: list[list[int]] = [[] for _ in range(n)]
    left = [0] * n
    for a, b in edges:
        above[b].append(a)
        left[a] += 1
    distance = [0] * n
    ready = [i for i in range(n) if not left[i]]
    while ready:
        b = ready.pop()
        for a in above[b]:
            distance[a] = max(distance[a], distance[b] + 1)
            left[a] -= 1
            if not left[a]:
                ready.append(a)
    most = max(distance, default=0)
    return [most - d for d in distance]


def with_bends(
    boxes: Sequence[tuple[float, float]], edges: Sequence[Pair], ranks: Sequence[int]
) -> tuple[list[tuple[int, float]], list[list[int]]]:
    """Boxes and bends as (rank, width), the boxes first; and for each edge what it passes.

    The shortest edges get their bends first, as long as there are at most a few for each box: a
    parameter that every step of a long loop uses would have more bends than there are boxes.
    """
    items = [(rank, width) for rank, (width, _) in zip(ranks, boxes, strict=True)]
    left = 4 * len(boxes) + 6000
    chains: list[list[int]] = [list(edge) for edge in edges]
    for i in sorted(range(len(edges)), key=lambda i: ranks[edges[i][1]] - ranks[edges[i][0]]):
        a, b = edges[i]
        between = range(ranks[a] + 1, ranks[b])
        left -= len(between)
        if left < 0:
            break
        chains[i] = [a, *range(len(items), len(items) + len(between)), b]
        items.extend((rank, 4.0) for rank in between)
    return items, chains


def ordered(
    rows: list[list[int]], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]]
) -> list[list[int]]:
    """The rows, each in an order with few crossings."""
    place = [0.0] * len(up)

    def note(row: list[int]) -> None:
        for i, item in enumerate(row):
            place[item] = i + 0.5 - len(row) / 2

    for row in rows:
        note(row)
    best, fewest = [list(row) for row in rows], crossings(rows, down)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        neighbours = down if sweep % 2 == 0 else up
        for row in reversed(rows) if sweep % 2 == 0 else rows:
            row.sort(key=lambda item: mean([place[k] for k in neighbours[item]], place[item]))
            note(row)
        count = crossings(rows, down)
        if count < fewest:
            best, fewest = [list(row) for row in rows], count
    return best


def mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def crossings(rows: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> int:
    """How many pairs of edges between neighbouring rows cross."""
    count = 0
    for row, below in pairwise(rows):
        place = {item: i for i, item in enumerate(below)}
        seen: list[int] = []
        for item in row:
            ends = sorted(place[k] for k in down[item])
            for end in ends:
                count += len(seen) - bisect_right(seen, end)
            for end in ends:
                insort(seen, end)
    return count


def centred_positions(
    rows: Sequence[Sequence[int]],
    widths: Sequence[float],
    up: Sequence[Sequence[int]],
    down: Sequence[Sequence[int]],
) -> list[float]:
    """The x of the centre of everything."""
    x = [0.0] * len(widths)
    for row in rows:
        at = 0.0
        for item in row:
            x[item] = at + widths[item] / 2
            at += widths[item] + GAP
        for item in row:
            x[item] -= at / 2
    # Boxes that nothing leads to follow the others more than the others follow them: long chains
    # that take a parameter at each step stay straight.
    pull = [1.0 if above else 0.1 for above in up]
    for sweep in range(SWEEPS + 1):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            targets = []
            for item in row:
                one, other = (up, down) if downwards else (down, up)
                near = one[item] or other[item]
                whole = sum(pull[k] for k in near)
                targets.append(sum(pull[k] * x[k] for k in near) / whole if whole else x[item])
            fitted(row, targets, widths, x)
    return x


def fitted(
    row: Sequence[int], targets: Sequence[float], widths: Sequence[float], x: list[float]
) -> None:
    """Moves a row's items as near to the target places as their widths allow, in their order."""
    offset, before = 0.0, 0.0
    blocks: list[tuple[float, int]] = []  # means of what is pooled, and how many that are
    offsets = []
    for i, item in enumerate(row):
        half = widths[item] / 2
        if i:
            offset += before + GAP + half
        before = half
        offsets.append(offset)
        value, count = targets[i] - offset, 1
        while blocks and blocks[-1][0] > value:
            former, n = blocks.pop()
            value, count = (value * count + former * n) / (count + n), count + n
        blocks.append((value, count))
    i = 0
    for value, count in blocks:
        for _ in range(count):
            x[row[i]] = value + offsets[i]
            i += 1
