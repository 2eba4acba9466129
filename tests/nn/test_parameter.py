"""Parameter and Buffer."""

from __future__ import annotations

import copy
import pickle

import pytest

import shmtensor as st
from shmtensor import nn


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
