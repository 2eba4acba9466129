"""Dtypes of indices, targets, weights and results, and errors of empty inputs."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F

ones = st.ones(3)
square = st.ones(2, 2)
short = st.tensor([0], dtype=st.int16)
middle = st.tensor([0], dtype=st.int32)
scores = st.ones(1, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ones.take(middle),
        lambda: ones.put(middle, ones[:1]),
        lambda: st.take_along_dim(ones, middle, 0),
        lambda: ones.gather(0, short),
        lambda: ones.scatter(0, short, 2.0),
        lambda: ones.scatter_add(0, short, ones),
        lambda: ones.scatter_reduce(0, short, ones, "sum"),
        lambda: ones.index_select(0, short),
        lambda: ones.index_select(0, st.tensor([0.0])),
        lambda: ones.index_add(0, short, ones[:1]),
        lambda: ones.index_copy(0, middle, ones[:1]),
        lambda: F.embedding(st.tensor([0.0]), square),
        lambda: F.embedding_bag(st.tensor([[0.0]]), square),
        lambda: F.cross_entropy(scores, middle),
        lambda: F.cross_entropy(scores, st.tensor([True])),
        lambda: F.cross_entropy(scores, middle, reduction="none"),
        lambda: F.nll_loss(scores, middle),
        lambda: F.nll_loss(scores, middle.long(), ones.double()),
        lambda: F.one_hot(middle),
    ],
)
def test_indices_and_targets_have_their_dtypes(wrong: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"int16|int32|float|bool"):
        wrong()


def test_indices_of_int32_where_pytorch_takes_them() -> None:
    assert ones.gather(0, middle).tolist() == ones.index_select(0, middle).tolist() == [1]
    assert ones[middle].tolist() == F.embedding(middle, ones.reshape(3, 1))[0].tolist() == [1]
    assert F.cross_entropy(scores, st.tensor([1], dtype=st.uint8)).item() == pytest.approx(
        np.log(3)
    )
    for wrong in (lambda: ones[short], lambda: ones.index_fill(0, middle, 2.0)):
        with pytest.raises(IndexError, match=r"int16|int32"):
            wrong()


def test_empty_indices_are_of_any_dtype() -> None:
    none = st.tensor([], dtype=st.uint8)
    assert ones.gather(0, none).shape == (0,)
    assert ones.scatter(0, none, 2.0).tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["mm", "matmul", "mv", "dot", "vdot"])
def test_products_go_only_into_their_dtype(name: str) -> None:
    x, y = (square, square) if name in ("mm", "matmul") else (square, square[0])
    x = x[0] if name in ("dot", "vdot") else x
    out = getattr(st, name)(x, y)
    assert getattr(st, name)(x, y, out=st.empty_like(out)).tolist() == out.tolist()
    with pytest.raises(RuntimeError, match="dtype float32, but got float64"):
        getattr(st, name)(x, y, out=out.double())


def test_nothing_to_choose_from() -> None:
    empty = st.ones(0)
    for wrong in (empty.argmax, empty.argmin, lambda: empty.kthvalue(1)):
        with pytest.raises(IndexError, match=r"\(0,\)"):
            wrong()
    assert st.tensor([], dtype=st.int16).median().item() == -32768
    assert st.tensor([], dtype=st.uint8).nanmedian().item() == 0
    assert st.isnan(empty.median()).item()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: st.tensor([1j]).unique(),
        lambda: st.unique(st.tensor([1j]), return_counts=True),
        lambda: st.unique(st.tensor([1j]), dim=0),
        lambda: st.unique_consecutive(st.tensor([1j])),
        lambda: st.tensor([True]).median(),
    ],
)
def test_dtypes_without_an_order(wrong: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match=r"complex64|bool"):
        wrong()


def test_weights_of_another_dtype_leave_the_losses() -> None:
    p, y = st.full((2,), 0.25), st.tensor([1.0, 0.0])
    w = st.tensor([2.0, 3.0], dtype=st.float64)
    expected = -(2 * np.log(0.25) + 3 * np.log(0.75)) / 2
    for out in (
        F.binary_cross_entropy(p, y, weight=w),
        F.binary_cross_entropy_with_logits(p.logit(), y, weight=w),
    ):
        assert out.dtype == st.float32
        assert out.item() == pytest.approx(expected, rel=1e-5)
    out = F.binary_cross_entropy_with_logits(p.logit(), y, pos_weight=w)
    assert out.dtype == st.float32
    assert out.item() == pytest.approx(-(2 * np.log(0.25) + np.log(0.75)) / 2, rel=1e-5)


def test_flatten_of_one_dimension_is_the_tensor() -> None:
    for x in (ones, st.ones(3, requires_grad=True)):
        assert x.flatten() is x
    x = st.ones(2, 3, requires_grad=True) * 1
    assert x.flatten(1) is x.flatten(-1, 1) is x
    assert x.flatten().shape == (6,)
    with pytest.raises(IndexError, match="out of range"):
        x.flatten(2, 2)


def test_other_small_refusals() -> None:
    with pytest.raises(RuntimeError, match="narrow_copy: dim is out of range: 5"):
        ones.narrow_copy(5, 1, 1)
    with pytest.raises(ValueError, match="slice step"):
        ones[::0]
    with pytest.raises(RuntimeError, match="must be a bool: 2"):
        st.ones(2).requires_grad = 2  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="complex value does not fit"):
        st.scalar_tensor(1j)


class Tag:
    """An attribute of a tensor."""


def test_a_tensor_takes_attributes() -> None:
    x: Any = st.ones(2)
    x.tag = "left"
    assert vars(x) == {"tag": "left"}
    assert copy.copy(x).tag == copy.deepcopy(x).tag == pickle.loads(pickle.dumps(x)).tag == "left"
    assert not hasattr(x.detach(), "tag")
    del x.tag
    with pytest.raises(AttributeError, match="tag"):
        _ = x.tag


def test_attributes_end_with_their_tensor() -> None:
    x: Any = st.ones(2)
    x.tag = tag = Tag()
    ref = weakref.ref(tag)
    del tag
    for _ in range(3):  # the tensor's memory is reused, its attributes are not
        del x
        assert ref() is None
        x = st.ones(2)
        assert vars(x) == {}
    x.tag = tag = Tag()
    tag.tensor = x  # type: ignore[attr-defined]
    ref = weakref.ref(tag)
    del x, tag
    gc.collect()
    assert ref() is None
