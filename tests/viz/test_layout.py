"""A layered drawing: arrows lead down, boxes do not overlap, few edges cross."""

from __future__ import annotations

import random
from itertools import pairwise

from shmtensor.viz.layout import GAP, crossings, layered, ordered, ranked


def test_boxes_do_not_overlap_and_arrows_lead_down() -> None:
    random.seed(0)
    n = 300
    boxes = [(random.uniform(40, 160), random.choice([30, 46, 62])) for _ in range(n)]
    edges = [(random.randrange(max(0, b - 20), b), b) for b in range(1, n) for _ in range(2)]
    layout = layered(boxes, list(dict.fromkeys(edges)))
    rows: dict[float, list[tuple[float, float]]] = {}
    for (x, y), (width, height) in zip(layout.places, boxes, strict=True):
        assert x - width / 2 >= -1e-6
        assert x + width / 2 <= layout.size[0] + 1e-6
        assert height / 2 <= y <= layout.size[1] - height / 2 + 1e-6
        rows.setdefault(y, []).append((x - width / 2, x + width / 2))
    for row in rows.values():
        row.sort()
        for (_, right), (left, _) in pairwise(row):
            assert left - right >= GAP - 1e-6
    for path in layout.ways:
        heights = [y for _, y in path]
        assert heights == sorted(set(heights))


def test_a_box_is_directly_above_its_highest_successor() -> None:
    #  0 -> 1 -> 2 -> 3, 4 -> 3, 5 -> 1 and 5 -> 3
    assert ranked(6, [(0, 1), (1, 2), (2, 3), (4, 3), (5, 1), (5, 3)]) == [0, 1, 2, 3, 2, 0]


def test_a_crossing_that_need_not_be_is_undone() -> None:
    up, down = [[], [], [1], [0]], [[3], [2], [], []]
    assert crossings([[0, 1], [2, 3]], down) == 1
    assert crossings(ordered([[0, 1], [2, 3]], up, down), down) == 0


def test_nothing_is_a_drawing_too() -> None:
    layout = layered([], [])
    assert (layout.places, layout.ways, layout.size) == ([], [], (0.0, 0.0))
