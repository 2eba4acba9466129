"""Gradients of overwritten values, and of medians; indices with several `...`."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st

OVER: dict[str, Any] = {
    "zero_": lambda y: y.zero_(),
    "fill_": lambda y: y.fill_(2.0),
    "fill_ by a tensor": lambda y: y.fill_(st.tensor(2.0)),
    "copy_": lambda y: y.copy_(st.ones(3)),
    "of nan": lambda y: y.copy_(st.tensor(float("nan"))),
}


@pytest.mark.parametrize("write", OVER.values(), ids=OVER)
def test_overwritten_values_have_gradient_zero(write: Any) -> None:
    x = st.tensor([1.0, 2.0, float("inf")], requires_grad=True)
    y = write(x * 1)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0, 0]


def test_both_sides_of_copy_have_their_gradient() -> None:
    x = st.ones(3, requires_grad=True)
    v = st.tensor(2.0, requires_grad=True)
    y = x * 3
    y.copy_(v)
    gx, gv = st.autograd.grad((y * y).sum(), (x, v), create_graph=True)
    assert gx.tolist() == [0, 0, 0]
    assert gv.item() == 12
    assert st.autograd.grad(gv, v)[0].item() == 6


@pytest.mark.parametrize("median", [st.median, st.nanmedian])
def test_equal_medians_share_the_gradient(median: Any) -> None:
    x = st.tensor([[1.0, 3.0], [3.0, 5.0]], requires_grad=True)
    median(x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 0.5], [0.5, 0]]


def test_median_with_nan_and_of_nothing() -> None:
    x = st.tensor([1.0, float("nan"), 2.0, 3.0], requires_grad=True)
    assert st.median(x).isnan()
    assert st.nanmedian(x).item() == 2
    st.nanmedian(x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0, 1, 0]
    assert st.nanmedian(st.ones(0)).isnan()


def test_several_ellipses() -> None:
    x = st.arange(24).reshape(2, 3, 4)
    assert st.equal(x[..., ...], x)
    assert st.equal(x[..., 0, ...], x[..., 0])
    assert st.equal(x[0, ..., ..., 1, 2], x[0, 1, 2])
    assert st.equal(x[0, ..., [0, 2], ...], x[0, ..., [0, 2]])
    assert st.equal(x[..., 0, 1, ..., 2], x[0, 1, 2])
    x[..., 3, ...] = -1
    assert (x[..., 3] == -1).all()
    with pytest.raises(IndexError, match=r"second `\.\.\.`"):
        x[..., 0, ..., 1]


def test_arguments_that_pytorch_takes_or_refuses() -> None:
    assert st.histogram(st.arange(5.0)).hist.shape == (100,)
    assert st.trapezoid(st.ones(2, 0)).tolist() == [0, 0]
    assert st.trapezoid(st.ones(0, 3), dim=0).tolist() == [0, 0, 0]
    assert st.trapezoid(st.ones(2, 0), st.ones(0)).tolist() == [0, 0]
    assert st.cumulative_trapezoid(st.ones(2, 0)).shape == (2, 0)
    x = st.tensor([1.5, float("nan"), 2.0], dtype=st.float64)
    total = st.nansum(x, dtype=st.bfloat16)
    assert total.dtype is st.bfloat16
    assert total.item() == 3.5
    product = st.prod(x[::2], dtype=st.bfloat16)
    assert product.dtype is st.bfloat16
    assert product.item() == 3
    assert st.prod(st.tensor([2, 3]), dtype=st.int32).dtype is st.int32
    assert st.nansum(st.tensor([2, 3]), dtype=st.float32).dtype is st.float32
    with pytest.raises(RuntimeError, match="1 dimension"):
        st.bucketize(st.ones(2), st.ones(2, 3))
    with pytest.raises(RuntimeError, match="overflow"):
        st.ones(2).fill_(1 + 2j)
    assert st.ones(2).fill_(2 + 0j).tolist() == [2, 2]


def test_a_cast_reduction_has_a_gradient() -> None:
    x = st.tensor([2.0, 3.0], requires_grad=True)
    (st.prod(x, dtype=st.float64) + st.nansum(x, dtype=st.float64)).backward()
    assert x.grad is not None
    assert x.grad.dtype is st.float32
    assert x.grad.tolist() == [4, 3]


def test_from_dlpack_copies_if_asked() -> None:
    x = st.ones(3)
    same, other = st.from_dlpack(x, device="cpu"), st.from_dlpack(x, copy=True)
    x.zero_()
    assert same.tolist() == [0, 0, 0]
    assert other.tolist() == [1, 1, 1]


def test_nan_as_an_imaginary_part_has_no_sign() -> None:
    x = st.tensor([complex(1, -float("nan"))])
    assert repr(x) == "tensor([1.+nanj])"
