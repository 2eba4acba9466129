"""Products of matrices and vectors."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ... import native
from ..shape.view_expand_flip import sum_to_shape
from ..table.check_dtypes import check_same_dtype, same_dtype_check
from ..table.dims import axis
from ..table.native_or_numpy import restore_half, upcast_half
from ..table.op_table import composite, op

Shape = tuple[int, ...]
BLAS = {np.dtype(c) for c in "fdFD"}


@op(
    complex_gradients=True,
    operator="matmul",
    cuda_halves=True,
    autocast_cuda="lower",
    check_dtypes=same_dtype_check("matmul"),
    numpy=native.matmul,
    out=False,
    promote="common",
    inplace=False,
    samples=[
        ((3, 4), (4, 2)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((4,), (4,)),
        ((4,), (2, 4, 3)),
        ((2, 3, 4), (4,)),
        ((3, 4), (2, 4, 2)),
        ((3, 0), (0, 2)),
    ],
    product="x @ y",
    autocast="lower",
    vmap="matmul",
    exact_out=True,
)
def matmul(xp, x, y, /):
    """Matrix product, batched over leading dimensions; vectors are rows on the left and columns on
    the right.
    """
    return xp.matmul(x, y)


def matmul_into(ops: Any, x: Any, y: Any, into: Any) -> Any:
    """x @ y, written to `into` if there is such an array."""
    if into is None or into.dtype not in BLAS:
        return ops.matmul(x, y)
    return native.call(native.matmul, x, y, into)


def matmul_backward_x(ops: Any, g: Any, y: Any, shape: Shape) -> Any:
    """Gradient of x @ y by x."""
    if y.ndim == 1:
        return (
            g * y.conjugate() if len(shape) == 1 else ops.mul(ops.unsqueeze(g, -1), y.conjugate())
        )
    adjoint = y.swapaxes(-1, -2).conjugate()
    if len(shape) == 1 == g.ndim:
        return ops.matmul(g, adjoint)
    if len(shape) == 1:
        return sum_to_shape(ops, ops.matmul(ops.unsqueeze(g, -2), adjoint).squeeze(-2), shape)
    if len(shape) == 2 < g.ndim:  # one product instead of a batch that is summed
        rows = ops.reshape(ops.movedim(g, -2, 0), (shape[0], math.prod(g.shape) // (shape[0] or 1)))
        return ops.matmul(rows, stack_matrices(ops, adjoint, g.shape[:-2]))
    return sum_to_shape(ops, ops.matmul(g, adjoint), shape)


def matmul_backward_y(ops: Any, g: Any, x: Any, shape: Shape, into: Any) -> Any:
    """Gradient of x @ y by y."""
    if x.ndim == 1:
        if len(shape) == 1:
            return g * x.conjugate()
        return ops.mul(ops.unsqueeze(x, -1).conjugate(), ops.unsqueeze(g, -2))
    if len(shape) == 1:
        adjoint = x.swapaxes(-1, -2).conjugate()
        if g.ndim == 1:
            return ops.matmul(adjoint, g)
        return sum_to_shape(ops, ops.matmul(adjoint, ops.unsqueeze(g, -1)).squeeze(-1), shape)
    if len(shape) == 2 < x.ndim and x.shape[:-1] == g.shape[:-1]:
        n = math.prod(x.shape[:-1])
        rows, columns = ops.reshape(x, (n, x.shape[-1])), ops.reshape(g, (n, g.shape[-1]))
        return matmul_into(ops, rows.swapaxes(-1, -2).conjugate(), columns, into)
    if len(shape) == 2 == x.ndim == g.ndim:
        return matmul_into(ops, x.swapaxes(0, 1).conjugate(), g, into)
    return sum_to_shape(ops, ops.matmul(x.swapaxes(-1, -2).conjugate(), g), shape)


def stack_matrices(ops: Any, y: Any, batch: Shape) -> Any:
    """The matrices of a batch, stacked vertically."""
    full = ops.broadcast_to(y, (*batch, *y.shape[-2:]))
    return ops.reshape(full, (math.prod(batch) * y.shape[-2], y.shape[-1]))


matmul.pullback(
    x=lambda ops, g, y, x_shape: matmul_backward_x(ops, g, y, x_shape),
    y=lambda ops, g, x, y_shape, into: matmul_backward_y(ops, g, x, y_shape, into),
)


def linear_kernel(x: Any, weight: Any, bias: Any) -> Any:
    """The native kernel for weights that are matrices; a product for others."""
    if weight.ndim == 2:
        return native.linear(x, weight, bias)
    out = native.matmul(x, weight)
    return out if bias is None else out + bias


@op(
    complex_gradients=True,
    cuda_halves=True,
    autocast_cuda="lower",
    check_dtypes=same_dtype_check("linear"),
    numpy=linear_kernel,
    promote="common",
    inplace=False,
    method=False,
    function=False,
    samples=[
        ((3, 4), (2, 4), (2,)),
        ((2, 3, 4), (5, 4), None),
        ((4,), (2, 4), (2,)),
        ((4,), (4,), ()),
    ],
    product="x @ y.T",
    autocast="lower",
    vmap="linear",
)
def linear(xp, x, weight, bias=None, /):
    """A dense layer: `input @ weight.T + bias`.

    Parameters
    ----------
    input : Tensor
        `(..., in_features)`.
    weight : Tensor
        `(out_features, in_features)`.
    bias : Tensor, optional
        `(out_features,)`.

    Returns
    -------
    Tensor
        `(..., out_features)`.

    Raises
    ------
    RuntimeError
        The last sizes of input and weight differ, or the dtypes.

    See Also
    --------
    bilinear, nn.Linear

    Examples
    --------
    >>> x = st.tensor([[1., 2.]])
    >>> weight = st.tensor([[1., 0.], [0., 1.], [1., 1.]])
    >>> F.linear(x, weight)
    tensor([[1., 2., 3.]])
    >>> F.linear(x, weight, st.tensor([0., 0., 10.]))
    tensor([[ 1.,  2., 13.]])
    """
    out = xp.matmul(x, weight.swapaxes(0, 1) if weight.ndim == 2 else weight)
    return out if bias is None else out + bias


def linear_backward_weight(ops: Any, g: Any, x: Any, shape: Shape, into: Any) -> Any:
    """g.T @ x over all leading dimensions as one product."""
    if len(shape) == 1:
        return sum_to_shape(ops, ops.mul(ops.unsqueeze(g, -1), x.conjugate()), shape)
    if g.ndim == 2:
        return matmul_into(ops, g.swapaxes(0, 1), x.conjugate(), into)
    n = math.prod(x.shape[:-1])
    rows = ops.reshape(g, (n, shape[0]))
    return matmul_into(ops, rows.swapaxes(0, 1), ops.reshape(x, (n, shape[1])).conjugate(), into)


linear.pullback(
    x=lambda ops, g, weight: (
        ops.matmul(g, weight.conjugate())
        if weight.ndim == 2
        else ops.mul(ops.unsqueeze(g, -1), weight.conjugate())
    ),
    weight=lambda ops, g, x, weight_shape, into: linear_backward_weight(
        ops, g, x, weight_shape, into
    ),
    bias=lambda ops, g, bias_shape: (
        ops.sum(g, 0)
        if g.ndim == 2 and bias_shape == g.shape[1:]
        else sum_to_shape(ops, g, bias_shape)
    ),
)


# ---- products of tensors with fixed numbers of dimensions


def check_ranks(name: str, ranks: tuple[int, ...], *xs: Any) -> None:
    """Raises RuntimeError unless the tensors have these numbers of dimensions."""
    if tuple(x.ndim for x in xs) != ranks:
        shapes = ", ".join(str(tuple(x.shape)) for x in xs)
        raise RuntimeError(f"{name}: expected {ranks} dimensions: {shapes}")


def check_batches(x: Any, y: Any) -> None:
    check_ranks("bmm", (3, 3), x, y)
    if x.shape[0] != y.shape[0]:
        raise RuntimeError(f"bmm: batch sizes differ: {tuple(x.shape)}, {tuple(y.shape)}")


@composite(autocast_cuda="lower", autocast="lower", exact_out=True)
def mm(ops, input, mat2):
    """Product of two matrices."""
    if not input.ndim == mat2.ndim == 2:
        check_ranks("mm", (2, 2), input, mat2)
    return ops.matmul(input, mat2)


@op(
    complex_gradients=True,
    cuda_halves=True,
    autocast_cuda="lower",
    check_dtypes=same_dtype_check("bmm"),
    native=native.bmm,
    promote="common",
    inplace=False,
    samples=[((2, 3, 4), (2, 4, 2)), ((0, 3, 4), (0, 4, 2))],
    product="x @ y",
    autocast="lower",
    exact_out=True,
)
def bmm(xp, x, mat2, /):
    """Products of two batches of matrices, (B, n, m) and (B, m, p)."""
    check_batches(x, mat2)
    return xp.matmul(x, mat2)


bmm.pullback(
    x=lambda ops, g, mat2: ops.bmm(g, mat2.swapaxes(-1, -2).conjugate()),
    mat2=lambda ops, g, x: ops.bmm(x.swapaxes(-1, -2).conjugate(), g),
)


@composite(autocast_cuda="lower", autocast="alone", exact_out=True)
def mv(ops, input, vec):
    """Product of a matrix and a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        check_ranks("mv", (2, 1), input, vec)
    return ops.matmul(input, vec)


@op(
    complex_gradients=True,
    cuda_halves=True,
    autocast_cuda="widest",
    check_dtypes=same_dtype_check("dot"),
    native=native.dot,
    promote="common",
    inplace=False,
    samples=[((4,), (4,)), ((0,), (0,))],
    product="x @ y",
    autocast="alone",
    vmap="dot",
    exact_out=True,
)
def dot(xp, x, tensor, /):
    """Sum of the products of two vectors."""
    check_ranks("dot", (1, 1), x, tensor)
    return xp.matmul(x, tensor)


dot.pullback(
    x=lambda g, tensor: g * tensor.conjugate(),
    tensor=lambda g, x: g * x.conjugate(),
)


@composite(autocast_cuda="widest", autocast="alone", exact_out=True)
def vdot(ops, input, other):
    """Sum of the products of two vectors, the first one conjugated."""
    check_ranks("vdot", (1, 1), input, other)
    if input.dtype.kind == other.dtype.kind == "c":
        check_same_dtype("vdot", input, other)
        return ops._vdot(input, other)
    return ops.matmul(ops.conj(input), other)


@op(samples=[((5,), (5,))])
def _vdot(xp, x, y, /):
    """Sum of the products of two complex vectors, the first one conjugated while it is read."""
    return xp.asarray(xp.vdot(x, y))


_vdot.pullback(x=lambda g, x, y: g.conjugate() * y, y=lambda g, x, y: g * x)


@composite
def inner(ops, input, other):
    """Sums of products over the last dimensions."""
    if not input.ndim or not other.ndim:
        return ops.mul(input, other)
    if input.ndim == other.ndim == 1 and input.shape == other.shape:
        return ops.matmul(input, other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner: the last sizes differ: {tuple(input.shape)}, {tuple(other.shape)}"
        )
    return ops.tensordot(input, other, ([-1], [-1]))


@composite
def outer(ops, input, vec2):
    """All products of the elements of two vectors."""
    check_ranks("outer", (1, 1), input, vec2)
    return ops.mul(ops.unsqueeze(input, 1), vec2)


outer.alias("ger")


def blend(ops: Any, x: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * x + alpha * product; with beta = 0 x is ignored, even a NaN."""
    if product.dtype.kind in "iub":
        number_class = bool if product.dtype.kind == "b" else int
        beta, alpha = number_class(beta), number_class(alpha)
    product = product if alpha == 1 else ops.mul(product, alpha)
    if beta == 0:
        np.broadcast_shapes(tuple(x.shape), tuple(product.shape))
        return product
    return ops.add(x if beta == 1 else ops.mul(x, beta), product)


def blend_product(ops: Any, product: Any, x: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    """`blend` of x and product(a, b); 16-bit floats are rounded once, at the end."""
    if not (x.dtype == a.dtype == b.dtype):
        return blend(ops, x, product(a, b), beta, alpha)
    wide = (upcast_half(ops, v) for v in (a, b))
    return restore_half(ops, blend(ops, upcast_half(ops, x), product(*wide), beta, alpha), a.dtype)


@composite(autocast_cuda="lower", inplace=True, autocast="lower", exact_out=True)
def addmm(ops, input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    check_same_dtype("addmm", input, mat1, mat2)
    return blend_product(ops, ops.mm, input, mat1, mat2, beta, alpha)


@composite(autocast_cuda="lower", inplace=True, autocast="alone", exact_out=True)
def addmv(ops, input, mat, vec, *, beta=1, alpha=1):
    """beta * input + alpha * (mat @ vec)."""
    check_same_dtype("addmv", input, mat, vec)
    return blend_product(ops, ops.mv, input, mat, vec, beta, alpha)


@composite(autocast_cuda="lower", inplace=True)
def addr(ops, input, vec1, vec2, *, beta=1, alpha=1):
    """beta * input + alpha * outer(vec1, vec2)."""
    return blend_product(ops, ops.outer, input, vec1, vec2, beta, alpha)


@composite(autocast_cuda="lower", inplace=True, autocast="lower", exact_out=True)
def baddbmm(ops, input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * (batch1 @ batch2), batch by batch."""
    check_same_dtype("baddbmm", input, batch1, batch2)
    return blend_product(ops, ops.bmm, input, batch1, batch2, beta, alpha)


def sum_of_products(ops: Any, x: Any, y: Any) -> Any:
    """The sum over the batch of x @ y."""
    check_ranks("addbmm", (3, 3), x, y)
    if x.shape[0] != y.shape[0]:
        raise RuntimeError(f"addbmm: batch sizes differ: {tuple(x.shape)}, {tuple(y.shape)}")
    rows = ops.reshape(ops.permute(x, (1, 0, 2)), (x.shape[1], x.shape[0] * x.shape[2]))
    return ops.mm(rows, ops.reshape(y, (y.shape[0] * y.shape[1], y.shape[2])))


@composite(autocast_cuda="lower", inplace=True, autocast="lower", exact_out=True)
def addbmm(ops, input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * the sum over the batch of batch1 @ batch2."""
    check_same_dtype("addbmm", input, batch1, batch2)
    product = functools.partial(sum_of_products, ops)
    return blend_product(ops, product, input, batch1, batch2, beta, alpha)


@composite(autocast_cuda="lower", method=False)
def chain_matmul(ops, *matrices):
    """Product of several matrices, from the left."""
    out = matrices[0]
    for matrix in matrices[1:]:
        out = ops.mm(out, matrix)
    return out


@composite
def kron(ops, input, other):
    """Kronecker product: each element of one times the whole other."""
    n = max(input.ndim, other.ndim)
    a = (1,) * (n - input.ndim) + tuple(input.shape)
    b = (1,) * (n - other.ndim) + tuple(other.shape)
    wide = ops.reshape(input, tuple(k for size in a for k in (size, 1)))
    high = ops.reshape(other, tuple(k for size in b for k in (1, size)))
    return ops.reshape(ops.mul(wide, high), tuple(p * q for p, q in zip(a, b, strict=True)))


@composite(autocast_cuda="widest", method=False)
def tensordot(ops, a, b, dims=2):
    """Sums of products over dims: the last ones of a with the first ones of b, or two lists of
    dims.
    """
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0 or dims > min(a.ndim, b.ndim):
            raise RuntimeError(
                f"tensordot: too many dims: {dims}: {tuple(a.shape)}, {tuple(b.shape)}"
            )
        first, second = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
        first, second = [axis(a, d) for d in first], [axis(b, d) for d in second]
    if len(first) != len(second):
        raise RuntimeError(f"tensordot: the two lists of dims differ in length: {first}, {second}")
    for i, j in zip(first, second, strict=True):
        if a.shape[i] != b.shape[j]:
            if 1 not in (a.shape[i], b.shape[j]):
                raise RuntimeError(
                    f"tensordot: sizes differ: dim {i} of {tuple(a.shape)}, "
                    f"dim {j} of {tuple(b.shape)}"
                )
            a, b = (
                ops._to_copy(ops.sum(x, d, True), x.dtype) if x.shape[d] != 1 else x
                for x, d in ((a, i), (b, j))
            )
    free_a = [d for d in range(a.ndim) if d not in first]
    free_b = [d for d in range(b.ndim) if d not in second]
    shape = tuple(a.shape[d] for d in free_a) + tuple(b.shape[d] for d in free_b)
    inner = math.prod(a.shape[d] for d in first)
    rows = ops.reshape(ops.permute(a, (*free_a, *first)), (math.prod(shape[: len(free_a)]), inner))
    columns = ops.reshape(
        ops.permute(b, (*second, *free_b)), (inner, math.prod(shape[len(free_a) :]))
    )
    return ops.reshape(ops.matmul(rows, columns), shape)
