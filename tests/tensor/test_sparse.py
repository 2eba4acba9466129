"""Sparse tensors in coordinate form."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array

import shmtensor as st
from shmtensor import sparse
from shmtensor.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(1)
PLACES = np.array([[0, 2, 0, 2], [1, 0, 1, 2]])


def coo_tensor(requires_grad: bool = False) -> sparse.SparseTensor:
    values = st.tensor([1.0, 2.0, 3.0, 4.0], dtype=st.float64)
    return st.sparse_coo_tensor(PLACES, values, (3, 4), requires_grad=requires_grad)


def test_elements_at_one_place_are_summed() -> None:
    x = coo_tensor()
    expected = coo_array((x._values().numpy(), tuple(PLACES)), shape=(3, 4)).toarray()
    assert np.array_equal(x.to_dense().numpy(), expected)
    coalesced = x.coalesce()
    assert coalesced.is_coalesced()
    assert coalesced.indices().tolist() == [[0, 2, 2], [1, 0, 2]]
    assert coalesced.values().tolist() == [4, 2, 4]
    assert coalesced.coalesce() is coalesced
    with pytest.raises(RuntimeError, match="uncoalesced"):
        x.indices()
    assert (x.shape, x.dtype, x.ndim, x.dim(), x.sparse_dim(), x.dense_dim()) == (
        (3, 4), st.float64, 2, 2, 2, 0,
    )  # fmt: skip
    assert x.is_sparse
    assert x.layout is sparse.sparse_coo
    assert (x.size(0), x.numel(), x._nnz(), x.device) == (3, 12, 4, st.device("cpu"))


def test_conversion_to_dense_round_trips() -> None:
    dense = st.tensor([[0.0, 1.0], [2.0, 0.0]], requires_grad=True)
    x = dense.to_sparse()
    assert x.indices().tolist() == [[0, 1], [1, 0]]
    assert st.equal(x.to_dense(), dense)
    (x.to_dense() * 3).sum().backward()
    assert dense.grad.tolist() == [[0, 3], [3, 0]]
    rows = st.tensor([[0.0, 0.0], [1.0, 2.0]]).to_sparse(1)
    assert rows.dense_dim() == 1
    assert rows.values().tolist() == [[1, 2]]
    assert rows.to_dense().tolist() == [[0, 0], [1, 2]]
    assert st.ones(2).to_dense().tolist() == [1, 1]


def test_the_gradient_of_a_sparse_leaf_has_its_places() -> None:
    x = coo_tensor(requires_grad=True)
    y, w = RNG.standard_normal((4, 2)), RNG.standard_normal((3, 2))
    (sparse.spmm(x, st.from_numpy(y)) * st.from_numpy(w)).sum().backward()
    assert np.allclose(x.grad._values().numpy(), (w @ y.T)[tuple(PLACES)])


def test_forms_and_sums() -> None:
    x = coo_tensor()
    dense = x.to_dense()
    assert st.equal(x.t().to_dense(), dense.t())
    assert st.equal(x + st.ones(3, 4), dense + 1)
    assert x.sum().item() == 10
    assert st.equal(x.clone().detach().to(st.float32).to_dense(), dense.float())


def test_printed_as_such() -> None:
    text = repr(coo_tensor())
    assert text.startswith("tensor(indices=tensor([[0, 2, 0, 2],\n")
    assert "size=(3, 4), nnz=4, layout=shmtensor.sparse_coo)" in text


def test_wrong_use_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="same nnz"):
        st.sparse_coo_tensor([[0, 1]], [1.0])
    with pytest.raises(RuntimeError, match="inconsistent"):
        st.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,))
    assert st.sparse_coo_tensor([[0, 5]], [1.0, 2.0]).shape == (6,)
    for name in ("coalesce", "indices", "values"):
        with pytest.raises(RuntimeError, match=f"{name}: expected sparse"):
            getattr(st.ones(2), name)()


def test_size_alone_makes_one_without_elements() -> None:
    x = st.sparse_coo_tensor((2, 3))
    assert (x._nnz(), tuple(x.shape)) == (0, (2, 3))
    assert x.to_dense().tolist() == [[0, 0, 0]] * 2


# Values, each with the indices and the shape of a sparse tensor: two matrices, one of them not
# coalesced, and a batch of matrices.
SPARSE = {
    "a": ([[0, 0, 2, 1, 0], [1, 2, 0, 1, 1]], (3, 3)),
    "b": ([[0, 1, 2, 2, 1], [1, 3, 0, 0, 2]], (3, 4)),
    "batch": ([[0, 0, 1, 1], [0, 2, 1, 1], [1, 0, 2, 2]], (2, 3, 3)),
}
DENSE = {
    "x": (3, 4), "y": (2, 3), "v": (3,), "xs": (2, 3, 4), "ys": (2, 4, 3), "zs": (5, 2, 4, 3),
}  # fmt: skip
PRODUCTS = [
    ("a", "x"), ("y", "a"), ("a", "b"), ("a", "v"), ("v", "a"), ("ys", "a"), ("zs", "a"),
    ("a", "xs"), ("batch", "xs"), ("ys", "batch"), ("batch", "batch"), ("batch", "x"),
    ("y", "batch"), ("batch", "v"), ("v", "batch"), ("a", "batch"), ("batch", "a"),
]  # fmt: skip


def leaf_and_operand(name: str) -> tuple[Any, Callable[[Any], Any]]:
    """A leaf that requires grad, and the function that makes the operand of it."""
    if name in DENSE:
        return st.rand(*DENSE[name], dtype=st.float64).requires_grad_(), lambda x: x
    places, shape = SPARSE[name]
    values = st.rand(len(places[0]), dtype=st.float64).requires_grad_()
    return values, lambda v: st.sparse_coo_tensor(st.tensor(places), v, shape)


def as_dense(x: Any) -> Any:
    return x.to_dense() if isinstance(x, st.sparse.SparseTensor) else x


@pytest.mark.parametrize("names", PRODUCTS, ids=" @ ".join)
def test_a_product_is_that_of_the_dense_tensors(names: tuple[str, str]) -> None:
    (p, make_x), (q, make_y) = map(leaf_and_operand, names)
    x, y = make_x(p), make_y(q)
    expected = (as_dense(x) @ as_dense(y)).detach().numpy()
    forms: list[Any] = [lambda x, y: x @ y, st.matmul, lambda x, y: x.matmul(y), st.linalg.matmul]
    if x.ndim == y.ndim == 2:
        forms += [st.mm, st.sparse.mm, lambda x, y: x.mm(y)]
    if x.ndim == y.ndim == 3:
        forms += [st.bmm, lambda x, y: x.bmm(y)]
    if (x.ndim, y.ndim) == (2, 1):
        forms += [st.mv, lambda x, y: x.mv(y)]
    for form in forms:
        out = form(x, y)
        assert np.allclose(as_dense(out).detach().numpy(), expected)
        is_sparse = set(names) <= {"a", "b"}
        assert out.layout is (st.sparse_coo if is_sparse else st.strided)
        assert is_sparse or out.is_contiguous()

    def product(p: Any, q: Any) -> Any:
        return as_dense(st.matmul(make_x(p), make_y(q)))

    assert gradcheck(product, (p, q))
    assert gradgradcheck(lambda p, q: product(p, q) ** 2, (p, q))


def test_sums_of_products() -> None:
    s = st.eye(3).to_sparse() * 2
    d, v = st.arange(9.0).view(3, 3), st.ones(3)
    for mat, mat1, mat2 in ((d, s, d), (d, d, s), (d, s, s), (s, s, s)):
        expected = 3 * as_dense(mat) + 0.5 * (as_dense(mat1) @ as_dense(mat2))
        for addmm in (st.addmm, st.sparse.addmm):
            out = as_dense(addmm(mat, mat1, mat2, beta=3, alpha=0.5))
            assert out.tolist() == expected.tolist()
    assert st.addmv(v, s, v).tolist() == [3, 3, 3]
    assert st.nn.functional.linear(d, s, v).tolist() == (2 * d + 1).tolist()
    assert st.nn.functional.linear(s, d).tolist() == (2 * d.t()).tolist()
    half = d.half()
    assert st.addmm(half, half.to_sparse(), half).dtype == st.float16


def test_gradients_of_sparse_leaves() -> None:
    leaf = st.sparse_coo_tensor(st.tensor([[0, 1], [1, 0]]), st.tensor([2.0, 3.0]), (2, 2))
    leaf.requires_grad_()
    (st.tensor([[1.0, 10.0]]) @ leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.to_dense().tolist() == [[0, 1], [10, 0]]
    p = st.nn.Parameter(st.tensor([[1.0, 0.0], [0.0, 2.0]]))
    (p.to_sparse() @ p.to_sparse()).to_dense().sum().backward()
    assert p.grad is not None
    assert p.grad.tolist() == [[2, 0], [0, 4]]


def test_products_of_nothing() -> None:
    empty = st.zeros(3, 3).to_sparse()
    full = st.ones(3, 3)
    for x, y in ((empty, full), (full, empty), (empty, empty), (empty, full.to_sparse())):
        assert as_dense(x @ y).tolist() == [[0] * 3] * 3


def test_arrays_are_operands_of_products_and_others_are_refused() -> None:
    s, array = st.eye(2).to_sparse(), np.ones((2, 2), np.float32)
    assert (s @ array).tolist() == (array @ s).tolist() == [[1, 1], [1, 1]]
    for call in (lambda: s @ 3, lambda: "a" @ s, lambda: st.mm(s, [[1.0]])):  # type: ignore[operator]
        with pytest.raises(TypeError):
            call()
    with pytest.raises(RuntimeError, match="inner sizes differ"):
        st.mm(s, st.ones(3, 3))
    with pytest.raises(RuntimeError, match="inner sizes differ"):
        st.ones(3, 3) @ s
    with pytest.raises(RuntimeError, match="same dtype"):
        st.mm(s, st.ones(2, 2, dtype=st.float64))


def pair() -> tuple[Any, Any]:
    """A sparse (2, 3) tensor that is not coalesced, [[0, 0, 3], [4, 0, 6]], and another one."""
    x = st.sparse_coo_tensor([[0, 1, 1, 1], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 1.0], (2, 3))
    return x, st.sparse_coo_tensor([[0, 1, 0], [2, 0, 1]], [1.0, 2.0, 7.0], (2, 3))


ARITHMETIC = {
    "add": [[0, 7, 4], [6, 0, 6]],
    "sub": [[0, -7, 2], [2, 0, 6]],
    "mul": [[0, 0, 3], [8, 0, 0]],
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_two_sparse_tensors_are_operands_element_by_element(name: str) -> None:
    x, y = pair()
    symbol, in_place = {
        "add": (operator.add, operator.iadd),
        "sub": (operator.sub, operator.isub),
        "mul": (operator.mul, operator.imul),
    }[name]
    for form in (getattr(st, name), getattr(x.__class__, name), symbol):
        out = form(x, y)
        assert out.is_sparse
        assert out.to_dense().tolist() == ARITHMETIC[name]
    for form in (getattr(x.__class__, f"{name}_"), in_place):
        target = x.clone()
        assert form(target, y) is target
        assert target.to_dense().tolist() == ARITHMETIC[name]
        assert x.to_dense().tolist() == [[0, 0, 3], [4, 0, 6]]


def test_numbers_are_operands_of_products_and_quotients() -> None:
    x, _ = pair()
    two = st.tensor(2.0)
    for out in (x * 2, 2 * x, x.mul(two), st.mul(x, 2), st.mul(2, x), x.clone().mul_(2)):
        assert out.to_dense().tolist() == [[0, 0, 6], [8, 0, 12]]
    for out in (x / 2, x.div(two), st.div(x, 2), x.clone().div_(2)):
        assert out.to_dense().tolist() == [[0, 0, 1.5], [2, 0, 3]]
    for out in (-x, x.neg(), st.neg(x), x.clone().neg_()):
        assert out.to_dense().tolist() == [[0, 0, -3], [-4, 0, -6]]
    for out in (st.div(x, 4, rounding_mode="floor"), x.div(4, rounding_mode="trunc")):
        assert out.to_dense().tolist() == [[0, 0, 0], [1, 0, 1]]
    whole = st.sparse_coo_tensor([[1]], [3], (2,))
    assert (whole / 2).to_dense().tolist() == [0, 1.5]
    with pytest.raises(RuntimeError, match="zero-dim dense tensor divisor"):
        st.div(x, x)
    with pytest.raises(RuntimeError, match="dense divisor"):
        st.div(st.ones(2, 3), x)


def test_alpha_scales_the_second_operand() -> None:
    x, y = pair()
    expected = [[0, 14, 5], [8, 0, 6]]
    for out in (st.add(x, y, alpha=2), x.add(y, alpha=2), x.clone().add_(y, alpha=2)):
        assert out.to_dense().tolist() == expected
    for out in (st.sub(x, y, alpha=-2), x.sub(y, alpha=-2), x.clone().sub_(y, alpha=-2)):
        assert out.to_dense().tolist() == expected
    dense = x.to_dense()
    for result in (st.add(dense, y, alpha=2), dense.sub(y, alpha=-2), dense.add_(y, alpha=2)):
        assert result.tolist() == expected


def test_a_dense_tensor_takes_a_sparse_one_in_place() -> None:
    x, y = pair()
    for name, expected in ARITHMETIC.items():
        dense = x.to_dense()
        base = dense[:]
        assert getattr(dense, f"{name}_")(y) is dense
        assert base.tolist() == expected
    dense = alias = x.to_dense()
    dense += y
    dense -= y
    dense *= y
    assert dense is alias
    assert alias.tolist() == ARITHMETIC["mul"]
    assert (alias - y).tolist() == [[0, -7, 2], [6, 0, 0]]
    leaf = st.ones(2, 3, requires_grad=True)
    target = leaf * 2
    target.mul_(y)
    target.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [[0, 14, 2], [4, 0, 0]]
    with pytest.raises(RuntimeError, match="can't be cast"):
        st.ones(2, 3, dtype=st.int64).add_(y)


def test_a_dense_factor_broadcasts_to_the_sparse_one() -> None:
    x, _ = pair()
    row, column = st.tensor([1.0, 2.0, 3.0]), st.tensor([[2.0], [10.0]])
    for factor in (row, column):
        expected = (x.to_dense() * factor).tolist()
        for out in (x * factor, factor * x, st.mul(factor, x), x.clone().mul_(factor)):
            assert out.is_sparse
            assert out.to_dense().tolist() == expected
    rows = st.sparse_coo_tensor([[1]], [[1.0, 2.0, 3.0]], (2, 3))
    assert (rows * row).to_dense().tolist() == [[0, 0, 0], [1, 4, 9]]
    assert (rows * rows).to_dense().tolist() == [[0, 0, 0], [1, 4, 9]]
    infinite = st.sparse_coo_tensor([[1]], [st.inf], (2,))
    assert (infinite * st.sparse_coo_tensor([[0]], [2.0], (2,))).to_dense().tolist() == [0, 0]


def test_wrong_operands_of_arithmetic_are_errors() -> None:
    x, y = pair()
    rows = st.sparse_coo_tensor([[1]], [[1.0, 2.0, 3.0]], (2, 3))
    for call in (lambda: x + rows, lambda: x * rows):
        with pytest.raises(RuntimeError, match="sparse dimensions differ: 2, 1"):
            call()
    for call in (lambda: x.mul(y.t()), lambda: x + y.t()):
        with pytest.raises(RuntimeError, match="shapes of sparse tensors differ"):
            call()
    with pytest.raises(RuntimeError, match="cannot hold the sum with a dense one"):
        x.add_(st.ones(2, 3))
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.to(st.int64).add_(y)
    leaf = x.clone().requires_grad_()
    for call in (lambda: leaf.mul_(2), lambda: leaf.add_(y), lambda: leaf.div_(2)):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            call()


def test_gradients_of_sparse_arithmetic() -> None:
    places, shape = [[0, 1, 1, 1], [2, 0, 2, 2]], (2, 3)

    def arithmetic(p: Any, q: Any) -> Any:
        x, y = (st.sparse_coo_tensor(places, v, shape) for v in (p, q))
        z = x.mul(y).sub(x.add(y, alpha=3)).div(2).neg()
        return z.add_(x).mul_(y).to_dense()

    values = [st.rand(4, dtype=st.float64).requires_grad_() for _ in range(2)]
    assert gradcheck(arithmetic, values)


def test_dimensions_of_a_dense_tensor() -> None:
    x = st.ones(2, 3)
    assert (x.sparse_dim(), x.dense_dim()) == (0, 2)
    assert (st.tensor(1.0).sparse_dim(), st.tensor(1.0).dense_dim()) == (0, 0)


def test_sparse_mask_takes_the_elements_at_the_indices() -> None:
    x, y = pair()
    dense = st.arange(6.0).view(2, 3).requires_grad_()
    out = dense.sparse_mask(y)
    assert out._values().tolist() == [2, 3, 1]
    (out.to_dense() * 2).sum().backward()
    assert dense.grad is not None
    assert dense.grad.tolist() == [[0, 2, 2], [2, 0, 0]]
    assert x.sparse_mask(y)._values().tolist() == [3, 4, 0]
    assert st.zeros(2, 3).to_sparse().sparse_mask(y)._values().tolist() == [0, 0, 0]
    rows = st.sparse_coo_tensor([[1]], [[1.0, 2.0, 3.0]], (2, 3))
    assert dense.detach().sparse_mask(rows).to_dense().tolist() == [[0, 0, 0], [3, 4, 5]]
    with pytest.raises(RuntimeError, match="incompatible sizes"):
        st.ones(3, 3).sparse_mask(y)
    with pytest.raises(TypeError, match="must be a sparse tensor"):
        dense.sparse_mask(dense)


def test_backward_takes_a_sparse_gradient() -> None:
    g, _ = pair()
    expected = [[0, 0, 3], [4, 0, 6]]
    leaf = st.ones(2, 3, requires_grad=True)
    leaf.backward(g)
    assert leaf.grad is not None
    assert leaf.grad.is_sparse
    assert leaf.grad.to_dense().tolist() == expected
    leaf.grad.mul_(2)
    assert g.to_dense().tolist() == expected
    leaf.backward(g)
    assert leaf.grad.to_dense().tolist() == [[0, 0, 9], [12, 0, 18]]
    leaf.backward(st.ones(2, 3))
    assert leaf.grad.tolist() == [[1, 1, 10], [13, 1, 19]]
    leaf.grad = None
    st.autograd.backward([leaf * 2, leaf, leaf], [g, g, g])
    assert leaf.grad.to_dense().tolist() == [[0, 0, 12], [16, 0, 24]]
    (grad,) = st.autograd.grad(leaf.clone(), leaf, g)
    assert grad.to_dense().tolist() == expected
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        leaf.sum(0).backward(g)
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        leaf.backward(g.to(st.complex64))


def test_backward_of_a_sparse_result() -> None:
    x, g = pair()
    leaf = x.coalesce().detach().requires_grad_()
    (leaf * 2).backward(g)
    assert leaf.grad is not None
    assert leaf.grad.to_dense().tolist() == [[0, 0, 2], [4, 0, 0]]


def test_sparse_gradient_of_gather_without_dimensions() -> None:
    for index, expected in ((st.tensor(0), 1.0), (st.tensor([0, 0]), 2.0)):
        x = st.tensor(3.0, requires_grad=True)
        x.gather(0, index, sparse_grad=True).sum().backward()
        assert x.grad is not None
        assert x.grad.is_sparse
        assert x.grad.to_dense().item() == expected
