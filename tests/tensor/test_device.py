"""Devices: names, and clear errors for missing ones."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import shmtensor as st
from shmtensor.device import as_device


def test_names() -> None:
    assert st.device("cpu") == st.device("cpu")
    assert str(st.device("cuda", 1)) == "cuda:1"
    assert st.device("cuda:1") == st.device("cuda", 1)
    assert repr(st.device("cuda:0")) == "device(type='cuda', index=0)"
    assert st.device(st.device("cpu")).type == "cpu"
    assert len({st.device("cpu"), st.device("cpu")}) == 1
    assert pickle.loads(pickle.dumps(st.device("cuda", 2))) == st.device("cuda", 2)


def test_the_cpu_computes_with_numpy() -> None:
    assert st.device("cpu").xp is np
    st.device("cpu").synchronize()
    assert as_device(None) == st.device("cpu")


@pytest.mark.parametrize("name", ["tpu", "cuda:x", "cpu:"])
def test_no_such_device(name: str) -> None:
    with pytest.raises(RuntimeError, match="no such device"):
        st.device(name)


def test_an_index_given_twice() -> None:
    with pytest.raises(RuntimeError, match="twice"):
        st.device("cuda:1", 1)


@pytest.mark.parametrize(
    "use", [lambda: st.ones(1).cuda(), lambda: st.tensor([1.0], device="cuda")]
)
def test_cuda_says_what_is_missing(use: object) -> None:
    with pytest.raises(RuntimeError, match=r"CuPy|only 'cpu'"):
        use()  # type: ignore[operator]
