"""Writes at repeated indices: the gradient goes to the value that is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck, gradgradcheck

AT, OTHER = st.tensor([0, 2, 0, 1, 2, 2]), st.tensor([1, 1, 0, 1, 0, 0])
ALONG = st.tensor([[0, 1, 1, 0], [2, 2, 2, 1]])


def assign(index: Any, part: Callable[[Any], Any] = lambda y: y) -> Callable[[Any, Any], Any]:
    def write(x: Any, v: Any) -> Any:
        y = x * 1
        part(y)[index] = v
        return y

    return write


# Of a tensor (4, 3), and values of the shape that follows.
WRITES: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "index_put": (lambda x, v: x.index_put((AT,), v), (6, 3)),
    "index_put of elements": (lambda x, v: x.index_put((AT, OTHER), v), (6,)),
    "index_put of a row": (lambda x, v: x.index_put((AT,), v), (3,)),
    "index_put of a number": (lambda x, v: x.index_put((AT,), v), ()),
    "index_put_": (lambda x, v: (x * 1).index_put_((AT, OTHER), v), (6,)),
    "index_put from the end": (lambda x, v: x.index_put((st.tensor([0, -4]),), v), (2, 3)),
    "accumulated": (lambda x, v: x.index_put((AT,), v, accumulate=True), (6, 3)),
    "x[index]": (assign(AT), (6, 3)),
    "x[list]": (assign([0, 0, 1]), (3, 3)),
    "x[array]": (assign(np.array([0, 0])), (2, 3)),
    "x[:, index]": (assign((slice(None), OTHER)), (4, 6)),
    "x[0, index]": (assign((0, OTHER)), (6,)),
    "x[matrix, matrix]": (assign((AT.view(2, 3), OTHER.view(2, 3))), (2, 3)),
    "x[transposed]": (assign((AT.view(2, 3).t(), OTHER.view(2, 3).t())), (3, 2)),
    "x[index] of a row": (assign(AT), (3,)),
    "x[mask]": (assign(st.tensor([True, False, True, False])), (2, 3)),
    "a view": (assign(st.tensor([0, 0]), lambda y: y[1:]), (2, 3)),
    "a transposed view": (assign(st.tensor([0, 0]), lambda y: y.t()), (2, 4)),
    "put": (lambda x, v: x.put(AT, v), (6,)),
    "put_": (lambda x, v: (x * 1).put_(AT, v), (6,)),
    "index_copy": (lambda x, v: x.index_copy(0, AT, v), (6, 3)),
    "index_copy of columns": (lambda x, v: x.index_copy(1, OTHER, v), (4, 6)),
    "index_copy_": (lambda x, v: (x * 1).index_copy_(0, AT, v), (6, 3)),
    "index_fill": (lambda x, v: x.index_fill(0, AT, v), ()),
    "scatter": (lambda x, v: x.t().scatter(1, ALONG, v), (2, 4)),
    "scatter of rows": (lambda x, v: x.scatter(0, ALONG.t()[:, :2] * 0, v), (4, 2)),
    "scatter_": (lambda x, v: x.t().clone().scatter_(1, ALONG, v), (3, 5)),
    "scatter added": (lambda x, v: x.t().scatter(1, ALONG, v, reduce="add"), (2, 4)),
}


@pytest.mark.parametrize("name", WRITES)
def test_gradients_are_finite_differences(name: str) -> None:
    write, shape = WRITES[name]
    x = st.rand(4, 3, dtype=st.float64).requires_grad_()
    v = st.rand(*shape, dtype=st.float64).requires_grad_()
    assert gradcheck(write, (x, v))
    assert gradgradcheck(lambda *xv: write(*xv) ** 2, (x, v))


@pytest.mark.parametrize("dtype", [st.float32, st.float16, st.bfloat16, st.complex64])
def test_the_last_value_is_kept_and_has_the_gradient(dtype: Any) -> None:
    def assigned(v: Any) -> Any:
        y = st.zeros(1, dtype=dtype)
        y[[0, 0]] = v
        return y

    zero = st.tensor([0, 0])
    for write in (
        assigned,
        lambda v: st.zeros(1, dtype=dtype).index_put((zero,), v),
        lambda v: st.zeros(1, dtype=dtype).scatter(0, zero, v),
    ):
        x = st.tensor([1.0, 2.0]).to(dtype).requires_grad_()
        out = write(x)
        assert out.tolist() == [2]
        out.abs().sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [0, 1]


def test_a_number_written_to_one_place_counts_once() -> None:
    v = st.tensor(2.0, requires_grad=True)
    st.zeros(2).index_put((st.tensor([0, 0, 1]),), v).sum().backward()
    assert v.grad is not None
    assert v.grad.item() == 2


@pytest.mark.parametrize("index_order", "CF")
@pytest.mark.parametrize("values_order", "CF")
def test_the_order_of_memory_does_not_matter(index_order: Any, values_order: Any) -> None:
    index = st.from_numpy(np.array([[0, 1, 0], [1, 0, 0]], order=index_order))
    v = st.from_numpy(np.array([[1.0, 2, 3], [4, 5, 6]], order=values_order)).requires_grad_()
    y = st.zeros(2, dtype=st.float64)
    y[index] = v
    y.sum().backward()
    assert y.tolist() == [6, 4]
    assert v.grad is not None
    assert v.grad.tolist() == [[0, 0, 0], [1, 0, 1]]


@pytest.mark.parametrize("width", [1, 3])
def test_many_values(width: int) -> None:
    index = st.from_numpy(np.random.default_rng(0).integers(0, 500, 20000))
    v = st.arange(20000.0 * width).view(20000, width).requires_grad_()
    y = st.zeros(500, width)
    y[index] = v
    y.sum().backward()
    assert v.grad is not None
    assert np.array_equal(v.grad.numpy() == 1, (y[index] == v).numpy())
    assert v.grad.sum().item() == 500 * width


def test_batches_of_writes() -> None:
    def loss(v: Any) -> Any:
        return (st.zeros(2).index_put((st.tensor([0, 0]),), v) ** 2).sum()

    values = st.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert st.func.vmap(st.func.grad(loss))(values).tolist() == [[0, 4], [0, 8]]
