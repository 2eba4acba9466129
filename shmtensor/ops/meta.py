"""Forms of rows for the device "meta": results whose sizes are computed from sizes or attributes.

All other rows need none: Note [Stand-ins] in meta_arrays.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cuda_arrays import move_array
from ..errors import explained
from ..meta_arrays import new, no_data
from .nn.layer_norm import rows_and_length
from .nn.sliding_window import output_sizes
from .shape.as_strided import memory_vector, offset_of
from .table.dims import axis
from .table.op_table import ROWS

Shape = tuple[int, ...]

FORMS: dict[str, Callable[..., Any]] = {}  # by the name of the row, which may be declared later


def on_meta(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the form of rows: `form(xp, inputs..., attributes...)`."""

    def declare(form: Callable[..., Any]) -> Callable[..., Any]:
        FORMS.update(dict.fromkeys(names, form))
        return form

    return declare


def load() -> None:
    """Gives the rows that are declared so far their forms."""
    for name, form in FORMS.items():
        if name in ROWS:
            ROWS[name].on("meta")(form)
    for row in ROWS.values():
        if row.sized_by_values:
            row.on("meta")(refused(row.sized_by_values))


# ---- values


def refused(name: str) -> Callable[..., Any]:
    """The form of an op whose result's size depends on values."""

    def form(xp: Any, *_: Any) -> Any:
        raise no_data(f"{name}: the shape of the result depends on values")

    return form


@on_meta("_one_hot")
def one_hot(xp: Any, x: Any, n: int) -> Any:
    if n < 0:
        raise no_data("one_hot: the number of classes depends on values, hint: num_classes=")
    return new((*x.shape, n), np.int64)


@on_meta("_to_device")
def to_device(xp: Any, x: Any, target: Any, source: Any) -> Any:
    return move_array(x, target)


# ---- gradients in the shape of an input


@on_meta("_sum_to_size")
def sum_to_size(xp: Any, x: Any, shape: Shape) -> Any:
    return new(shape, np.zeros(1, x.dtype).sum().dtype)


@on_meta(
    "_slice_backward", "_diagonal_backward", "_unfold_backward", "_index_backward",
    "_as_strided_backward", "_replay_view_backward",
)  # fmt: skip
def of_shape(xp: Any, x: Any, shape: Shape, *_: Any) -> Any:
    return new(shape, x.dtype)


@on_meta("_value_selecting_reduction_backward", "_index_select_backward", "_gather_backward")
def of_shape_by_indices(xp: Any, x: Any, index: Any, shape: Shape, dim: int) -> Any:
    return new(shape, x.dtype)


@on_meta("_embedding_dense_backward")
def embedding_dense_backward(xp: Any, x: Any, index: Any, n: int, padding_idx: Any) -> Any:
    return new((n, *x.shape[index.ndim :]), x.dtype)


@on_meta("_nll_loss_backward")
def nll_loss_backward(xp: Any, x: Any, target: Any, weight: Any, shape: Shape, *_: Any) -> Any:
    return new(shape, x.dtype)


# ---- shapes and indices


@on_meta("reshape")
def reshape(xp: Any, x: Any, shape: Shape) -> Any:
    return x.reshape(shape)


@on_meta("_flatten")
def flatten(xp: Any, x: Any, start_dim: int, end_dim: int) -> Any:
    start, end = axis(x, start_dim), axis(x, end_dim)
    return x.reshape((*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


@on_meta("_getitem")
def getitem(xp: Any, x: Any, index: Any) -> Any:
    return x[index]


@on_meta("_index_put")
def index_put(xp: Any, x: Any, values: Any, index: Any, accumulate: bool) -> Any:
    x[index].assign(values)
    return x.copy()


@on_meta("_zero_view")
def zero_view(xp: Any, x: Any, *_: Any) -> Any:
    return x.copy()


@on_meta("_replay_view")
def replay_view(xp: Any, x: Any, *steps: Any) -> Any:
    return ROWS["_replay_view"].forward(xp, x, *steps)


@on_meta("_as_strided")
def as_strided(xp: Any, x: Any, size: Shape, stride: Shape, offset: int, x_stride: Shape) -> Any:
    memory = memory_vector(x)
    start = offset_of(x) + offset
    end = start + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    if math.prod(size) and end > memory.size:
        raise RuntimeError(
            f"as_strided: out of bounds: size={size}, stride={stride}, offset {start}, "
            f"the memory has {memory.size} elements"
        )
    steps = tuple(s * x.itemsize for s in stride)
    first = memory.claim[start if math.prod(size) else 0 :]
    return x.view_of(np.lib.stride_tricks.as_strided(first, size, steps))


@on_meta("cat")
def cat(xp: Any, xs: Any, dim: int) -> Any:
    parts = [x for x in xs if x.shape != (0,)] or xs
    first = parts[0]
    at = 0 if first.shape == (0,) else axis(first, dim)
    for x in parts:
        rest = x.shape[:at] + x.shape[at + 1 :]
        if x.ndim != first.ndim or rest != first.shape[:at] + first.shape[at + 1 :]:
            raise ValueError("the sizes must match except along dim")  # explained by the row
    total = sum(x.shape[at] for x in parts)
    return new((*first.shape[:at], total, *first.shape[at + 1 :]), first.dtype, first.claim)


@on_meta("repeat")
def repeat(xp: Any, x: Any, repeats: Shape) -> Any:
    sizes = (1,) * (len(repeats) - x.ndim) + x.shape
    return new([n * r for n, r in zip(sizes, repeats, strict=True)], x.dtype)


@on_meta("topk")
def topk(xp: Any, x: Any, k: int, dim: int, *_: Any) -> Any:
    at = axis(x, dim) if x.ndim else 0
    if not 0 <= k <= (x.shape[at] if x.ndim else 1):
        raise RuntimeError(f"topk: k is out of range: {k}, dim {dim} of {x.shape}")
    shape = (*x.shape[:at], k, *x.shape[at + 1 :]) if x.ndim else ()
    return new(shape, x.dtype), new(shape, np.int64)


@on_meta("kthvalue")
def kthvalue(xp: Any, x: Any, k: int, dim: int, keepdim: bool) -> Any:
    at = axis(x, dim) if x.ndim else 0
    if not 1 <= k <= (x.shape[at] if x.ndim else 1):
        raise RuntimeError(f"kthvalue: k is out of range: {k}, dim {dim} of {x.shape}")
    shape = (*x.shape[:at], *((1,) if keepdim else ()), *x.shape[at + 1 :]) if x.ndim else ()
    return new(shape, x.dtype), new(shape, np.int64)


@on_meta("_multinomial")
def multinomial(xp: Any, x: Any, num_samples: int, *_: Any) -> Any:
    return new((*x.shape[:-1], num_samples), np.int64)


@on_meta("_pdist")
def pdist(xp: Any, x: Any, p: float) -> Any:
    return new(len(x) * (len(x) - 1) // 2, x.dtype)


@on_meta("_linalg_ldl_solve")
def ldl_solve(xp: Any, x: Any, pivots: Any, y: Any, hermitian: bool) -> Any:
    return new((*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), *y.shape[-2:]), y.dtype)


@on_meta("_ctc_loss")
def ctc_loss(
    xp: Any, x: Any, targets: Any, input_lengths: Any, target_lengths: Any, *_: Any
) -> Any:
    steps, n, _ = x.shape
    longest = targets.shape[1] if targets.ndim == 2 else max(target_lengths, default=0)
    return new(n, x.dtype), new((n, steps, 2 * longest + 2), x.dtype)


@on_meta("_ctc_loss_backward")
def ctc_loss_backward(xp: Any, g: Any, x: Any, *_: Any) -> Any:
    return new(x.shape, x.dtype)


# ---- layers


@on_meta("_glu")
def glu(xp: Any, x: Any, dim: int) -> Any:
    at = axis(x, dim)
    if x.shape[at] % 2:
        raise RuntimeError(f"glu: the size must be even: dim {dim} of {x.shape}")
    return new((*x.shape[:at], x.shape[at] // 2, *x.shape[at + 1 :]), x.dtype)


@on_meta("_glu_backward")
def glu_backward(xp: Any, g: Any, x: Any, dim: int) -> Any:
    return new(x.shape, x.dtype)


@on_meta("_native_layer_norm")
def layer_norm(xp: Any, x: Any, weight: Any, bias: Any, n: int, groups: int, *_: Any) -> Any:
    rows, wide = rows_and_length(x.shape, n, groups)[0], np.promote_types(x.dtype, np.float32)
    return new(x.shape, x.dtype, x.claim), new(rows, wide), new(rows, wide)


@on_meta("_native_layer_norm_backward")
def layer_norm_backward(
    xp: Any, g: Any, x: Any, mean: Any, rstd: Any, weight: Any, n: int, groups: int, *_: Any
) -> Any:
    length = x.shape[1] if groups else math.prod(x.shape[x.ndim - n :])
    return new(x.shape, x.dtype), new(length, x.dtype), new(length, x.dtype)


@on_meta("_cross_entropy_backward")
def cross_entropy_backward(xp: Any, g: Any, logits: Any, *_: Any) -> Any:
    return new(logits.shape, logits.dtype)


@on_meta("_attention")
def attention(xp: Any, xs: Any, *_: Any) -> Any:
    query, value = xs[0], xs[2]
    shape, wide = query.shape[:-1], np.promote_types(query.dtype, np.float32)
    return new((*shape, value.shape[-1]), query.dtype), new(shape, wide)


@on_meta("_rnn_layer")
def rnn_layer(xp: Any, xs: Any, kind: str, sizes: Any, reverse: bool) -> Any:
    x, h = xs[:2]
    rows, n = len(x), xs[3].shape[1] if kind == "lstm" else h.shape[1]
    cells = (rows if kind == "lstm" else 0, n)
    gates = (rows, 4 * n + (n if len(xs) == 5 and kind == "lstm" else 0))
    return (
        new((rows, h.shape[1]), x.dtype),
        new(cells, x.dtype),
        new(gates if kind in ("lstm", "gru") else (rows, 0), x.dtype),
    )


def images(name: str, x: Any, channels: Shape, size: Shape) -> Any:
    """Images of a size, in the memory format of x."""
    if min(size, default=1) < 1:
        raise explained(RuntimeError(f"{name}: the window is larger than the image: {x.shape}"))
    shape = (*channels, *size)
    return new(shape, x.dtype, x.claim if len(shape) == x.ndim else None)


@on_meta("_convolution")
def convolution(
    xp: Any, x: Any, weight: Any, bias: Any, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> Any:  # fmt: skip
    size = output_sizes(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    return images("conv", x, (x.shape[0], weight.shape[0]), size)


@on_meta("_conv_transpose")
def conv_transpose(
    xp: Any, x: Any, weight: Any, size: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> Any:  # fmt: skip
    return images("conv_transpose", x, (x.shape[0], groups * weight.shape[1]), size)


@on_meta("_convolution_backward_weight")
def convolution_backward_weight(
    xp: Any, x: Any, y: Any, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> Any:  # fmt: skip
    return new((y.shape[1], x.shape[1] // groups, *kernel), x.dtype)


@on_meta("_grid_sample")
def grid_sample(xp: Any, x: Any, grid: Any, *_: Any) -> Any:
    return new((*x.shape[:2], *grid.shape[1:-1]), x.dtype)


@on_meta("_max_pool")
def max_pool(
    xp: Any, x: Any, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil: bool
) -> Any:
    n = x.ndim - len(kernel)
    size = output_sizes(x.shape[n:], kernel, stride, padding, dilation, ceil)
    values = images("max_pool", x, x.shape[:n], size)
    return values, values.astype(np.int64)


@on_meta("_sum_pool", "_avg_pool")
def sum_pool(
    xp: Any, x: Any, kernel: Shape, stride: Shape, padding: Shape, ceil: bool, *_: Any
) -> Any:
    n = x.ndim - len(kernel)
    size = output_sizes(x.shape[n:], kernel, stride, padding, (1,) * len(kernel), ceil)
    return images("avg_pool", x, x.shape[:n], size)


@on_meta("_sum_pool_backward", "_avg_pool_backward")
def of_size(xp: Any, x: Any, size: Shape, *_: Any) -> Any:
    return images("pool_backward", x, x.shape[: x.ndim - len(size)], size)


@on_meta("_max_pool_backward", "_max_unpool")
def max_pool_backward(xp: Any, x: Any, indices: Any, size: Shape, *_: Any) -> Any:
    return of_size(xp, x, size)


@on_meta("_adaptive_max_pool")
def adaptive_max_pool(xp: Any, x: Any, size: Shape) -> Any:
    values = of_size(xp, x, size)
    return values, values.astype(np.int64)


@on_meta("_fractional_max_pool")
def fractional_max_pool(xp: Any, x: Any, samples: Any, kernel: Shape, size: Shape) -> Any:
    return adaptive_max_pool(xp, x, size)


@on_meta("_resample")
def resample(xp: Any, x: Any, taps: Any) -> Any:
    lead = x.ndim - len(taps)
    sizes = (n if t is None else len(t) for n, t in zip(x.shape[lead:], taps, strict=True))
    return images("resample", x, x.shape[:lead], tuple(sizes))


@on_meta("_im2col")
def im2col(xp: Any, x: Any, kernel: Shape, dilation: Shape, padding: Shape, stride: Shape) -> Any:
    size = output_sizes(x.shape[2:], kernel, stride, padding, dilation)
    return new((x.shape[0], x.shape[1] * math.prod(kernel), math.prod(size)), x.dtype)


@on_meta("_col2im")
def col2im(xp: Any, x: Any, size: Shape, kernel: Shape, *_: Any) -> Any:
    return new((x.shape[0], x.shape[1] // math.prod(kernel), *size), x.dtype)
