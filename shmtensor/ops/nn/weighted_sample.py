"""Weighted sums of neighbouring elements: `grid_sample` on devices, and its gradients with history.

The three rows are one form, linear in images (N, C, M), weights (N, K, P) and results (N, C, P):
each is the gradient of the others, to every order. Places are indices (N, K, P) into the flattened
images; an index outside [0, M) means 0.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ..index.index_add import add_at_flat_indices
from ..table.op_table import op
from ..table.samples import ints, reals

# What is outside an image: zeros, its border, its reflection at the edges or at the centres of the
# corner elements. CUDA's kernel knows them by number.
PADDING_MODES = ("zeros", "border", "edges", "centres")


def gather_elements(xp: Any, x: Any, places: Any) -> Any:
    """The elements (N, C, K, P) at places, 0 outside the image."""
    inside = (places >= 0) & (places < x.shape[2])
    at = xp.where(inside, places, 0).reshape(len(places), 1, -1)
    at = xp.broadcast_to(at, (*x.shape[:2], at.shape[2]))
    elements = xp.take_along_axis(x, at, 2).reshape(*x.shape[:2], *places.shape[1:])
    return xp.where(inside[:, None], elements, 0)


@op(
    samples=[
        ((2, 3, 5), (2, 4, 6), ints((2, 4, 6), 7, -2)),
        ((1, 2, 3), (1, 1, 2), ints((1, 1, 2), 3)),
    ]
)
def _weighted_gather(xp, x, weights, places, /):
    """Each result is K elements, weighted: (N, C, M), (N, K, P) and places give (N, C, P)."""
    return (gather_elements(xp, x, places) * weights[:, None]).sum(2).astype(x.dtype)


@op(samples=[((2, 3, 6), (2, 4, 6), ints((2, 4, 6), 7, -2), 5)])
def _weighted_scatter(xp, x, weights, places, /, size):
    """The transpose of `_weighted_gather`: x (N, C, P) times weights, added at places of images
    (N, C, size).
    """
    values = x[:, :, None] * weights[:, None]
    inside = (places >= 0) & (places < size)
    n, channels = x.shape[:2]
    out = xp.zeros((n, channels, size + 1), x.dtype)  # the last is for indices outside
    rows = xp.arange(n * channels).reshape(n, channels, 1, 1) * (size + 1)
    add_at_flat_indices(xp, out, rows + xp.where(inside, places, size)[:, None], values)
    return xp.ascontiguousarray(out[..., :size])


@op(samples=[((2, 3, 6), (2, 3, 5), ints((2, 4, 6), 7, -2))])
def _weighted_gather_backward_weights(xp, x, y, places, /):
    """The gradient of `_weighted_gather(y, ., places)` by the weights, x being g: (N, K, P)."""
    return (gather_elements(xp, y, places) * x[:, :, None]).sum(1).astype(x.dtype)


_weighted_gather.pullback(
    x=lambda ops, g, weights, places, x_shape: ops._weighted_scatter(
        g, weights, places, x_shape[2]
    ),
    weights=lambda ops, g, x, places: ops._weighted_gather_backward_weights(g, x, places),
)
_weighted_scatter.pullback(
    x=lambda ops, g, weights, places: ops._weighted_gather(g, weights, places),
    weights=lambda ops, g, x, places: ops._weighted_gather_backward_weights(x, g, places),
)
_weighted_gather_backward_weights.pullback(
    x=lambda ops, g, y, places: ops._weighted_gather(y, g, places),
    y=lambda ops, g, x, places, y_shape: ops._weighted_scatter(x, g, places, y_shape[2]),
)


def pad_index(xp: Any, index: Any, n: int, frame: int) -> Any:
    """Integer indices mapped into [0, n) by the padding mode."""
    if PADDING_MODES[frame] == "zeros":
        return index
    if PADDING_MODES[frame] == "border" or n == 1:
        return xp.clip(index, 0, n - 1)
    is_edge = PADDING_MODES[frame] == "edges"
    position = xp.where(index >= 0, index, -index - is_edge)
    span = n if is_edge else n - 1
    return xp.where(position // span % 2 == 0, position % span, n - 1 - position % span)


@op(samples=[(reals((2, 2, 5), -2.0, 6.0), (4, 5), 2, 0)])
def _sample_indices(xp, x, /, sizes, reach, frame):
    """The indices of the reach ** D elements around the points x (N, D, P) of images of D sizes:
    (N, reach ** D, P); -1 outside an image that is padded with zeros.

    reach = 1: the element below, 2: also the one above, 4: two on each side.
    """
    low = xp.floor(xp.nan_to_num(xp.clip(x, -1e9, 1e9), nan=-1e9)).astype(np.int64)
    first = -1 if reach == 4 else 0
    rows = []
    for corner in product(range(first, first + reach), repeat=len(sizes)):
        at, inside = 0, True
        for d, (n, step) in enumerate(zip(sizes, corner)):
            index = pad_index(xp, low[:, d] + step, n, frame)
            at, inside = at * n + index, inside & (index >= 0) & (index < n)
        rows.append(xp.where(inside, at, -1))
    return xp.stack(rows, 1)
