"""Products of matrices and vectors."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ... import native
from ...dtypes import HALVES
from ..shape.view_expand_flip import sum_to_shape
from ..table.check_dtypes import check_same_dtype, same_dtype_check
from ..table.dims import axis
from ..table.native_or_numpy import restore_half, upcast_half
from ..table.op_table import composite, op

Shape = tuple[int, ...]
BLAS = {np.dtype(c) for c in "fdFD"}


product = functools.partial(
    op, complex_gradients=True, cuda_halves=True, inplace=False, promote="common"
)


@product(
    operator="matmul",
    autocast_cuda="lower",
    check_dtypes=same_dtype_check("matmul"),
    numpy=native.matmul,
    out=False,
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
    """The matrix product of two tensors, batched over leading dimensions.

    Parameters
    ----------
    input, other : Tensor
        Of one dtype: `(..., n, m)` and `(..., m, p)`. A vector is a row on the left and a column on
        the right. Leading dimensions are broadcast.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        `(..., n, p)`, without the dimension of a vector; 0-d for two vectors.

    Raises
    ------
    RuntimeError
        The inner sizes or the dtypes differ, or leading sizes do not fit.

    See Also
    --------
    mm, bmm, einsum, linalg.multi_dot

    Notes
    -----
    `x @ y` is the same. Under `autocast` the product is computed in the lower precision.

    Examples
    --------
    >>> x = st.tensor([[1., 2.], [3., 4.]])
    >>> st.matmul(x, x)
    tensor([[ 7., 10.],
            [15., 22.]])
    >>> st.matmul(x, st.tensor([1., 1.]))
    tensor([3., 7.])
    >>> st.matmul(st.zeros(8, 1, 3, 4), st.zeros(5, 4, 2)).shape
    Size([8, 5, 3, 2])
    """
    return xp.matmul(x, y)


def conjugate(x: Any) -> Any:
    """The conjugate of complex numbers. NumPy would make bfloat16 float32, and so the product."""
    return x.conjugate() if x.dtype.kind == "c" else x


def matmul_into(ops: Any, x: Any, y: Any, into: Any) -> Any:
    """x @ y, written to `into` if there is such an array."""
    if into is None or into.dtype not in BLAS:
        return ops.matmul(x, y)
    return native.call(native.matmul, x, y, into)


def matmul_backward_x(ops: Any, g: Any, y: Any, shape: Shape) -> Any:
    """Gradient of x @ y by x."""
    if y.ndim == 1:
        return g * conjugate(y) if len(shape) == 1 else ops.mul(ops.unsqueeze(g, -1), conjugate(y))
    adjoint = conjugate(y.swapaxes(-1, -2))
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
            return g * conjugate(x)
        return ops.mul(conjugate(ops.unsqueeze(x, -1)), ops.unsqueeze(g, -2))
    if len(shape) == 1:
        adjoint = conjugate(x.swapaxes(-1, -2))
        if g.ndim == 1:
            return ops.matmul(adjoint, g)
        return sum_to_shape(ops, ops.matmul(adjoint, ops.unsqueeze(g, -1)).squeeze(-1), shape)
    if len(shape) == 2 < x.ndim and x.shape[:-1] == g.shape[:-1]:
        n = math.prod(x.shape[:-1])
        rows, columns = ops.reshape(x, (n, x.shape[-1])), ops.reshape(g, (n, g.shape[-1]))
        return matmul_into(ops, conjugate(rows.swapaxes(-1, -2)), columns, into)
    if len(shape) == 2 == x.ndim == g.ndim:
        return matmul_into(ops, conjugate(x.swapaxes(0, 1)), g, into)
    return sum_to_shape(ops, ops.matmul(conjugate(x.swapaxes(-1, -2)), g), shape)


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


@product(
    autocast_cuda="lower",
    check_dtypes=same_dtype_check("linear"),
    numpy=linear_kernel,
    half=native.linear,
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
        return sum_to_shape(ops, ops.mul(ops.unsqueeze(g, -1), conjugate(x)), shape)
    if g.ndim == 2:
        return matmul_into(ops, g.swapaxes(0, 1), conjugate(x), into)
    n = math.prod(x.shape[:-1])
    rows = ops.reshape(g, (n, shape[0]))
    return matmul_into(ops, rows.swapaxes(0, 1), conjugate(ops.reshape(x, (n, shape[1]))), into)


linear.pullback(
    x=lambda ops, g, weight: (
        ops.matmul(g, conjugate(weight))
        if weight.ndim == 2
        else ops.mul(ops.unsqueeze(g, -1), conjugate(weight))
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
    """The product of two matrices.

    Parameters
    ----------
    input : Tensor
        `(n, m)`.
    mat2 : Tensor
        `(m, p)`, of the same dtype.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        `(n, p)`.

    Raises
    ------
    RuntimeError
        An operand is not a matrix, or the inner sizes or the dtypes differ.

    See Also
    --------
    matmul, bmm, addmm

    Examples
    --------
    >>> st.mm(st.tensor([[1., 2.]]), st.tensor([[3.], [4.]]))
    tensor([[11.]])
    """
    if not input.ndim == mat2.ndim == 2:
        check_ranks("mm", (2, 2), input, mat2)
    return ops.matmul(input, mat2)


@product(
    autocast_cuda="lower",
    check_dtypes=same_dtype_check("bmm"),
    native=native.bmm,
    samples=[((2, 3, 4), (2, 4, 2)), ((0, 3, 4), (0, 4, 2))],
    product="x @ y",
    autocast="lower",
    exact_out=True,
)
def bmm(xp, x, mat2, /):
    """The products of two batches of matrices.

    Parameters
    ----------
    input : Tensor
        `(B, n, m)`.
    mat2 : Tensor
        `(B, m, p)`, of the same dtype.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        `(B, n, p)`.

    Raises
    ------
    RuntimeError
        An operand does not have three dimensions, or sizes or dtypes differ.

    See Also
    --------
    matmul, baddbmm

    Notes
    -----
    Batches are not broadcast; `matmul` does that.

    Examples
    --------
    >>> x, y = st.ones(2, 1, 3), st.ones(2, 3, 1)
    >>> st.bmm(x, y).flatten()
    tensor([3., 3.])
    """
    check_batches(x, mat2)
    return xp.matmul(x, mat2)


bmm.pullback(
    x=lambda ops, g, mat2: ops.bmm(g, conjugate(mat2.swapaxes(-1, -2))),
    mat2=lambda ops, g, x: ops.bmm(conjugate(x.swapaxes(-1, -2)), g),
)


@composite(autocast_cuda="lower", autocast="alone", exact_out=True)
def mv(ops, input, vec):
    """The product of a matrix and a vector.

    Parameters
    ----------
    input : Tensor
        `(n, m)`.
    vec : Tensor
        `(m,)`, of the same dtype.

    Returns
    -------
    Tensor
        `(n,)`.

    Raises
    ------
    RuntimeError
        The shapes or dtypes do not fit.

    See Also
    --------
    matmul, addmv

    Examples
    --------
    >>> st.mv(st.tensor([[1., 2.], [3., 4.]]), st.tensor([1., 10.]))
    tensor([21., 43.])
    """
    if input.ndim != 2 or vec.ndim != 1:
        check_ranks("mv", (2, 1), input, vec)
    return ops.matmul(input, vec)


@product(
    autocast_cuda="widest",
    check_dtypes=same_dtype_check("dot"),
    native=native.dot,
    samples=[((4,), (4,)), ((0,), (0,))],
    product="x @ y",
    autocast="alone",
    vmap="dot",
    exact_out=True,
)
def dot(xp, x, tensor, /):
    """The sum of the products of two vectors.

    Parameters
    ----------
    input : Tensor
        `(n,)`.
    tensor : Tensor
        `(n,)`, of the same dtype.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        0-d.

    Raises
    ------
    RuntimeError
        An operand is not a vector, or the sizes or dtypes differ.

    See Also
    --------
    vdot, inner, linalg.vecdot

    Notes
    -----
    Complex numbers are not conjugated.

    Examples
    --------
    >>> st.dot(st.tensor([1, 2, 3]), st.tensor([4, 5, 6]))
    tensor(32)
    """
    check_ranks("dot", (1, 1), x, tensor)
    return xp.matmul(x, tensor)


dot.pullback(x=lambda g, tensor: g * tensor.conjugate(), tensor=lambda g, x: g * x.conjugate())


@composite(autocast_cuda="widest", autocast="alone", exact_out=True)
def vdot(ops, input, other):
    """The sum of the products of two vectors, the first one conjugated.

    Parameters
    ----------
    input, other : Tensor
        `(n,)`, of the same dtype.

    Returns
    -------
    Tensor
        0-d.

    Raises
    ------
    RuntimeError
        An operand is not a vector, or the sizes or dtypes differ.

    See Also
    --------
    dot, linalg.vecdot

    Examples
    --------
    >>> st.vdot(st.tensor([1j, 2]), st.tensor([1j, 1]))
    tensor(3.+0.j)
    """
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
    """The sums of products over the last dimensions of two tensors.

    Parameters
    ----------
    input, other : Tensor
        `(..., n)` and `(..., n)`; a 0-d tensor is a factor.

    Returns
    -------
    Tensor
        The leading dimensions of `input`, then those of `other`.

    Raises
    ------
    RuntimeError
        The last sizes differ.

    See Also
    --------
    dot, tensordot, matmul

    Examples
    --------
    >>> st.inner(st.tensor([[1, 2], [3, 4]]), st.tensor([1, 10]))
    tensor([21, 43])
    """
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
    """All products of an element of one vector with an element of another.

    Parameters
    ----------
    input : Tensor
        `(n,)`.
    vec2 : Tensor
        `(m,)`.

    Returns
    -------
    Tensor
        `(n, m)`.

    Raises
    ------
    RuntimeError
        An operand is not a vector.

    See Also
    --------
    addr, kron

    Notes
    -----
    `ger` is another name of `outer`.

    Examples
    --------
    >>> st.outer(st.tensor([1, 2]), st.tensor([3, 4, 5]))
    tensor([[ 3,  4,  5],
            [ 6,  8, 10]])
    """
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


def is_layer(bias: Any, x: Any, weight: Any) -> bool:
    """Are these 16-bit floats, and can `linear`, which also rounds once, add the bias?"""
    shape_fits = x.ndim == weight.ndim == 2 and bias.shape == weight.shape[1:]
    return shape_fits and bias.dtype in HALVES


@composite(autocast_cuda="lower", inplace=True, autocast="lower", exact_out=True)
def addmm(ops, input, mat1, mat2, *, beta=1, alpha=1):
    """A product of two matrices added to a third.

    Parameters
    ----------
    input : Tensor
        What the product is added to; broadcast to `(n, p)`.
    mat1, mat2 : Tensor
        `(n, m)` and `(m, p)`.
    beta : number, optional
        A factor of `input`; for 0 `input` is ignored, even NaN.
    alpha : number, optional
        A factor of the product.

    Returns
    -------
    Tensor
        beta * input + alpha * (mat1 @ mat2).

    Raises
    ------
    RuntimeError
        The shapes do not fit, or the dtypes differ.

    See Also
    --------
    mm, addmv, baddbmm

    Examples
    --------
    >>> x = st.tensor([[1., 2.], [3., 4.]])
    >>> st.addmm(st.ones(2), x, st.eye(2), beta=10)
    tensor([[11., 12.],
            [13., 14.]])
    """
    check_same_dtype("addmm", input, mat1, mat2)
    if is_layer(input, mat1, mat2) and beta == alpha == 1:
        return ops.linear(mat1, mat2.swapaxes(0, 1), input)
    return blend_product(ops, ops.mm, input, mat1, mat2, beta, alpha)


@composite(autocast_cuda="lower", inplace=True, autocast="alone", exact_out=True)
def addmv(ops, input, mat, vec, *, beta=1, alpha=1):
    """A product of a matrix and a vector added to a vector.

    Parameters
    ----------
    input : Tensor
        What the product is added to; broadcast to `(n,)`.
    mat, vec : Tensor
        `(n, m)` and `(m,)`.
    beta : number, optional
        A factor of `input`; for 0 `input` is ignored, even NaN.
    alpha : number, optional
        A factor of the product.

    Returns
    -------
    Tensor
        beta * input + alpha * (mat @ vec).

    Raises
    ------
    RuntimeError
        The shapes do not fit, or the dtypes differ.

    See Also
    --------
    mv, addmm

    Examples
    --------
    >>> st.addmv(st.ones(2), st.eye(2), st.tensor([5., 6.]))
    tensor([6., 7.])
    """
    check_same_dtype("addmv", input, mat, vec)
    return blend_product(ops, ops.mv, input, mat, vec, beta, alpha)


@composite(autocast_cuda="lower", inplace=True)
def addr(ops, input, vec1, vec2, *, beta=1, alpha=1):
    """All products of the elements of two vectors added to a matrix.

    Parameters
    ----------
    input : Tensor
        What the products are added to; broadcast to `(n, m)`.
    vec1, vec2 : Tensor
        `(n,)` and `(m,)`.
    beta : number, optional
        A factor of `input`; for 0 `input` is ignored, even NaN.
    alpha : number, optional
        A factor of the products.

    Returns
    -------
    Tensor
        beta * input + alpha * outer(vec1, vec2).

    See Also
    --------
    outer, addmm

    Examples
    --------
    >>> st.addr(st.zeros(2, 2), st.tensor([1., 2.]), st.tensor([3., 4.]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    return blend_product(ops, ops.outer, input, vec1, vec2, beta, alpha)


@composite(autocast_cuda="lower", inplace=True, autocast="lower", exact_out=True)
def baddbmm(ops, input, batch1, batch2, *, beta=1, alpha=1):
    """The products of two batches of matrices added to a batch.

    Parameters
    ----------
    input : Tensor
        What the products are added to; broadcast to `(B, n, p)`.
    batch1, batch2 : Tensor
        `(B, n, m)` and `(B, m, p)`.
    beta : number, optional
        A factor of `input`; for 0 `input` is ignored, even NaN.
    alpha : number, optional
        A factor of the products.

    Returns
    -------
    Tensor
        beta * input + alpha * bmm(batch1, batch2).

    Raises
    ------
    RuntimeError
        The shapes do not fit, or the dtypes differ.

    See Also
    --------
    bmm, addbmm

    Examples
    --------
    >>> st.baddbmm(st.ones(1), st.ones(2, 1, 3), st.ones(2, 3, 1), alpha=2).flatten()
    tensor([7., 7.])
    """
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
    """The sum of the products of two batches of matrices added to a matrix.

    Parameters
    ----------
    input : Tensor
        What the sum is added to; broadcast to `(n, p)`.
    batch1, batch2 : Tensor
        `(B, n, m)` and `(B, m, p)`.
    beta : number, optional
        A factor of `input`; for 0 `input` is ignored, even NaN.
    alpha : number, optional
        A factor of the sum.

    Returns
    -------
    Tensor
        beta * input + alpha * bmm(batch1, batch2).sum(0).

    Raises
    ------
    RuntimeError
        The shapes do not fit, or the dtypes differ.

    See Also
    --------
    baddbmm, bmm

    Examples
    --------
    >>> st.addbmm(st.zeros(1, 1), st.ones(2, 1, 3), st.ones(2, 3, 1))
    tensor([[6.]])
    """
    check_same_dtype("addbmm", input, batch1, batch2)
    product = functools.partial(sum_of_products, ops)
    return blend_product(ops, product, input, batch1, batch2, beta, alpha)


@composite(autocast_cuda="lower", method=False)
def chain_matmul(ops, *matrices):
    """The product of several matrices, from the left.

    Parameters
    ----------
    *matrices : Tensor
        Matrices whose inner sizes fit.

    Returns
    -------
    Tensor
        The product.

    See Also
    --------
    linalg.multi_dot

    Notes
    -----
    `linalg.multi_dot` multiplies in the order that costs least.

    Examples
    --------
    >>> x = st.tensor([[1., 1.], [0., 1.]])
    >>> st.chain_matmul(x, x, x)
    tensor([[1., 3.],
            [0., 1.]])
    """
    out = matrices[0]
    for matrix in matrices[1:]:
        out = ops.mm(out, matrix)
    return out


@composite
def kron(ops, input, other):
    """The Kronecker product: each element of one tensor times the whole other.

    Parameters
    ----------
    input, other : Tensor
        The one with fewer dimensions gets new ones of size 1 in front.

    Returns
    -------
    Tensor
        Each size is the product of the two sizes.

    See Also
    --------
    outer

    Examples
    --------
    >>> st.kron(st.tensor([[1, 2]]), st.tensor([[1, 0], [0, 1]]))
    tensor([[1, 0, 2, 0],
            [0, 1, 0, 2]])
    """
    n = max(input.ndim, other.ndim)
    a = (1,) * (n - input.ndim) + tuple(input.shape)
    b = (1,) * (n - other.ndim) + tuple(other.shape)
    wide = ops.reshape(input, tuple(k for size in a for k in (size, 1)))
    high = ops.reshape(other, tuple(k for size in b for k in (1, size)))
    return ops.reshape(ops.mul(wide, high), tuple(p * q for p, q in zip(a, b, strict=True)))


@composite(autocast_cuda="widest", method=False)
def tensordot(ops, a, b, dims=2):
    """The sums of products of two tensors over pairs of dimensions.

    Parameters
    ----------
    a, b : Tensor
        Tensors of one dtype.
    dims : int or pair of sequences of int, optional
        A number: so many last dimensions of `a` with the first ones of `b`. Two sequences: the
        dimensions of `a` and, in the same order, those of `b`.

    Returns
    -------
    Tensor
        The other dimensions of `a`, then those of `b`.

    Raises
    ------
    RuntimeError
        The sizes of a pair differ, or there are too many dimensions.

    See Also
    --------
    matmul, einsum, inner

    Examples
    --------
    >>> x = st.arange(4.).reshape(2, 2)
    >>> st.tensordot(x, x, dims=1)
    tensor([[ 2.,  3.],
            [ 6., 11.]])
    >>> st.tensordot(x, x, dims=([0, 1], [0, 1]))
    tensor(14.)
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
