"""Parameter and Buffer."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.parameter import UninitializedTensorMixin, is_lazy


def test_parameter_is_the_memory_of_its_data() -> None:
    x = st.ones(3)
    p = nn.Parameter(x)
    assert p.data_ptr() == x.data_ptr()
    assert p.requires_grad
    assert p.is_leaf
    assert not x.requires_grad
    assert isinstance(p, st.Tensor)
    assert type(p * 2) is st.Tensor
    assert not nn.Parameter(st.tensor([1, 2]), requires_grad=False).requires_grad
    assert nn.Parameter().numel() == 0


def test_parameter_carries_attributes_and_copies() -> None:
    p = nn.Parameter(st.ones(2), requires_grad=False)
    p.is_expert = True
    q = copy.deepcopy(p)
    assert type(q) is nn.Parameter
    assert not q.requires_grad
    assert q.data_ptr() != p.data_ptr()
    assert type(pickle.loads(pickle.dumps(p))) is nn.Parameter
    assert repr(p).startswith("Parameter containing:\ntensor([1., 1.]")


def test_wrong_data_is_refused() -> None:
    with pytest.raises(TypeError, match="list"):
        nn.Parameter([1.0])
    with pytest.raises(RuntimeError, match="int64"):
        nn.Parameter(st.tensor([1]))


@pytest.mark.parametrize("cls", [nn.UninitializedParameter, nn.UninitializedBuffer])
def test_uninitialized_has_a_dtype_and_no_shape(cls: Any) -> None:
    p = cls(dtype=st.float64)
    assert isinstance(p, UninitializedTensorMixin)
    assert is_lazy(p)
    assert not is_lazy(st.ones(2))
    assert repr(p) == str(p) == f"<{cls.__name__}>"
    assert (p.dtype, p.device, p.size()) == (st.float64, st.device("cpu"), (0,))
    assert p.requires_grad is (cls is nn.UninitializedParameter)
    assert p.is_floating_point()
    assert p.half().dtype is st.float16
    with pytest.raises(RuntimeError, match="has no shape"):
        p.shape  # noqa: B018
    for use in (
        lambda: p + 1,
        lambda: st.ones(2) * p,
        lambda: st.stack([p]),
        lambda: p[0],
        lambda: len(p),
        lambda: bool(p),
        lambda: f"{p:3}",
        p.__array__,
        lambda: p.numel(),
        lambda: p.detach(),
        lambda: nn.init.zeros_(p),
        lambda: nn.functional.linear(st.ones(2), p),
    ):
        with pytest.raises(ValueError, match="attempted to use an uninitialized"):
            use()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_uninitialized_copies(copied: Any) -> None:
    p = copied(nn.UninitializedParameter(False, dtype=st.float64))
    assert type(p) is nn.UninitializedParameter
    assert (p.requires_grad, p.dtype) == (False, st.float64)
    b = copied(nn.UninitializedBuffer(persistent=False))
    assert type(b) is nn.UninitializedBuffer
    assert not b.persistent


def test_materialize_makes_a_parameter() -> None:
    p: Any = nn.UninitializedParameter(dtype=st.float64)
    p.materialize((2, 3))
    assert type(p) is nn.Parameter
    assert (p.shape, p.dtype, p.requires_grad) == ((2, 3), st.float64, True)
    (p * 2).sum().backward()
    assert st.equal(p.grad, st.full((2, 3), 2.0, dtype=st.float64))
    b: Any = nn.UninitializedBuffer()
    b.materialize(2, dtype=st.int64)
    assert type(b) is nn.Buffer
    assert (b.shape, b.dtype) == ((2,), st.int64)
