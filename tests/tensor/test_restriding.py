"""In place, but of the geometry."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st


def test_shapes_and_memory() -> None:
    x = st.arange(6.0).reshape(2, 1, 3).clone()
    place = x.data_ptr()
    assert x.squeeze_() is x
    assert x.shape == (2, 3)
    assert x.t_().stride() == (1, 3)
    assert x.unsqueeze_(0).shape == (1, 3, 2)
    assert x.transpose_(0, 2).shape == (2, 3, 1)
    assert x.swapaxes_(0, 1).swapdims_(0, 1).squeeze_(-1).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.as_strided_((2, 2), (1, 1), 1).tolist() == [[1, 2], [2, 3]]
    assert x.data_ptr() == place + 4
    with pytest.raises(RuntimeError, match="t"):
        st.zeros(2, 2, 2).t_()


def test_history_goes_on() -> None:
    w = st.arange(6.0, dtype=st.float64).reshape(3, 2)
    x = st.ones(2, 3, dtype=st.float64, requires_grad=True)
    y = x * 3
    y.t_()
    y.mul_(w)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == (3 * w.T).tolist()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.t_()
    with st.no_grad():
        x.t_()
    assert x.shape == (3, 2)


def test_a_view_made_before_is_never_wrong() -> None:
    x = st.ones(2, 3, requires_grad=True) * 1
    row = x[0]
    x.t_()
    assert row.sum().item() == 3  # nothing was written
    x.mul_(2)
    with pytest.raises(RuntimeError, match="another geometry in place"):
        row.sum()


def test_retained_gradients_follow() -> None:
    x = st.ones(2, 3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.t_()
    (y * st.arange(6.0).reshape(3, 2)).sum().backward()
    assert y.grad.shape == (3, 2)
    assert y.grad.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_resizing() -> None:
    x = st.arange(6.0)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_((2, 4)).flatten()[:4].tolist() == [0, 1, 2, 3]
    assert x.resize_as_(st.zeros(3)).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        st.zeros(2, requires_grad=True).resize_(3)


def test_set() -> None:
    source = st.arange(6.0)
    x = st.zeros(1)
    assert x.set_(source).tolist() == source.tolist()
    assert np.shares_memory(x.numpy(), source.numpy())
    assert x.set_(source, 1, (2, 2)).tolist() == [[1, 2], [3, 4]]
    assert x.set_(source, 0, (3,), (2,)).tolist() == [0, 2, 4]
    assert x.set_().shape == (0,)
    with pytest.raises(RuntimeError, match="could not set"):
        x.set_(st.arange(3))


def test_diagonals_and_maps() -> None:
    x = st.zeros(5, 2)
    assert x.fill_diagonal_(1, wrap=True).tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert st.zeros(3, 2).fill_diagonal_(1).tolist() == [[1, 0], [0, 1], [0, 0]]
    assert st.zeros(2, 3).fill_diagonal_(1, wrap=True).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert st.zeros(3, 2).t().fill_diagonal_(2).tolist() == [[2, 0, 0], [0, 2, 0]]
    assert st.zeros(2, 2, 2).fill_diagonal_(3)[1, 1, 1] == 3
    with pytest.raises(RuntimeError, match="fill_diagonal_"):
        st.zeros(2, 3, 4).fill_diagonal_(1)
    y = st.tensor([1.0, 2.0])
    assert y.map2_(st.tensor([10.0, 20.0]), st.tensor(1.0), lambda a, b, c: a + b + c).tolist() == [
        12,
        23,
    ]


def test_predicates() -> None:
    x = st.zeros(2, 3, 4, 5)
    assert x.is_cpu
    assert not any([x.is_meta, x.is_nested, x.is_quantized, x.is_conj(), x.is_neg()])
    assert not x.is_distributed()
    assert x.name is None
    assert st.tensor([3]).is_nonzero()
    assert x.const_data_ptr() == x.data_ptr()
    assert x.dim_order() == (0, 1, 2, 3)
    assert x.permute(0, 2, 3, 1).dim_order() == (0, 3, 1, 2)
    assert not x.is_contiguous(memory_format=st.channels_last)
    last = st.zeros(2, 4, 5, 3).permute(0, 3, 1, 2)
    assert last.is_contiguous(memory_format=st.channels_last)
    assert x.to(other=st.zeros(1, dtype=st.int64)).dtype is st.int64
    with pytest.raises(TypeError, match="unexpected keyword"):
        x.to(kind=3)
