"""How the results of ops lie in memory, where their operands are not all in rows: as PyTorch's.

Note [Memory formats] in native/compute/memory_format.h says how it is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native
from .table import Row

__all__ = ["lay_out", "like_image"]

POINTWISE, CHANNELS, ALL_CHANNELS, ROWS, LIKE = range(5)  # as in native.formats

# Broadcasting ops and ufuncs are pointwise by themselves; these are, too.
ELEMENTWISE = frozenset(
    [
        "rsqrt",
        "reciprocal",
        "square",
        "sign",
        "sgn",
        "nan_to_num",
        "clamped",
        "floor",
        "ceil",
        "trunc",
        "round",
        "frac",
        "logit",
        "sinc",
        "deg2rad",
        "rad2deg",
        "conjugated",
        "angle",
        "isposinf",
        "isneginf",
        "isreal",
        "signbit",
        "frexp",
        "polygamma_of",
        "relu",
        "relu_backward",
        "sigmoid",
        "sigmoid_backward",
        "tanh_backward",
        "silu",
        "gelu_rows",
        "gelu_backward",
        "softplus",
        "leaky_relu",
        "elu",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
        "hardshrink",
        "softshrink",
        "threshold",
        "mish",
        "curve_backward",
        "kept_by",
        "special_entr",
        "special_airy_ai",
        "measure_backward",
    ]
)
# In rows, whatever the input's format is.
IN_ROWS = frozenset(
    [
        "sum",
        "nansum",
        "mean",
        "prod_along",
        "amax",
        "amin",
        "argmax",
        "argmin",
        "all",
        "any",
        "count_nonzero",
        "variance",
        "deviation",
        "logsumexp",
        "vector_norm",
        "max_along",
        "min_along",
        "kthvalue",
        "median_along",
        "mode",
        "topk",
        "logsigmoid",
        "coins",
    ]
)
# As the input, gaps closed. Dropout's mask is drawn in rows: the same for every layout.
ALIKE = frozenset(["cast", "clone", "dropped", "flip", "sort_along"])
# The results of these that are images, and the inputs that decide.
IMAGES: dict[str, tuple[str, ...]] = {
    "convolved": ("x", "weight"),
    "unconvolved": ("x", "weight"),
    "filters": ("x",),
    "max_pooled": ("x",),
    "window_sums": ("x",),
    "spread_sums": ("x",),
    "adaptive_max_pooled": ("x",),
    "channels_normed": ("x",),
    "sliced": ("x",),
    "roll": ("x",),
    "cat": ("tensors",),
}


def rule_of(row: Row, kernel: Any) -> int | None:
    """How a row's results lie; None: as the kernel leaves them."""
    if row.name in IMAGES:
        return ALL_CHANNELS if row.name == "cat" else CHANNELS
    if row.name in IN_ROWS:
        return ROWS
    if row.name in ALIKE:
        return LIKE
    if row.broadcast or hasattr(kernel, "nin") or row.name in ELEMENTWISE:
        return POINTWISE
    return None


def lay_out(row: Row, kernel: Any, plain: bool) -> None:
    """Registers the format of a row's results.

    Args:
        kernel: what is called.
        plain: it is the row's forward, whose first argument is the array module.
    """
    rule = rule_of(row, kernel)
    if rule is None or isinstance(row.numpy, tuple) or row.view:
        return
    deciding = IMAGES.get(row.name, ())
    leads = sum(1 << i for i, x in enumerate(row.inputs) if x.name in deciding)
    arguments = len(row.inputs) + len(row.attributes) + plain
    outputs = 1 if row.name == "channels_normed" else len(row.outputs)
    native.formats(kernel, rule, int(plain), len(row.inputs), arguments, leads, outputs)


def memory_of(x: Any) -> Any:
    """The array of a tensor, or the array itself; None of what is batched."""
    array = getattr(x, "array", x)
    return array if isinstance(array, np.ndarray) and array.ndim == x.ndim else None


def own(ops: Any, out: Any, image: Any) -> Any:
    """A composite's result in memory of its own: a copy where nothing was done to `image`.

    Copies: none or one, which is in the graph.
    """
    array, given = memory_of(out), memory_of(image)
    if array is None or given is None or not np.may_share_memory(array, given):
        return out
    return ops.clone(out)


def like_image(ops: Any, out: Any, image: Any) -> Any:
    """A composite's result in channels last if PyTorch takes `image` for that, else in rows, and in
    memory of its own.

    Copies: none or one, which is in the graph.
    """
    array, like = memory_of(out), memory_of(image)
    if array is None or like is None:
        return out
    if np.may_share_memory(array, like):
        out = ops.clone(out)
        array = memory_of(out)
    if native.suggests_channels_last(like) and array.ndim == like.ndim:
        last = native.suggests_channels_last(array)
        return out if last else ops.packed_by_channel(out)
    return out if array.flags.c_contiguous else ops.packed(out)
