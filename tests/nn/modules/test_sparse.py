"""Embedding, and the look-ups of nn.functional."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import functional as F


def test_rows_and_gradients_add_up() -> None:
    m = nn.Embedding(5, 3)
    index = st.tensor([[1, 2], [1, 4]])
    np.testing.assert_array_equal(
        m(index).detach().numpy(), m.weight.detach().numpy()[index.numpy()]
    )
    m(index).sum().backward()
    assert m.weight.grad.numpy()[:, 0].tolist() == [0, 2, 1, 0, 1]


def test_padding_row_is_zero_and_stays() -> None:
    m = nn.Embedding(4, 2, padding_idx=-1)
    assert m.padding_idx == 3
    assert (m.weight[3].detach().numpy() == 0).all()
    m(st.tensor([3, 3, 0])).sum().backward()
    assert m.weight.grad.numpy()[:, 0].tolist() == [1, 0, 0, 0]
    with pytest.raises(AssertionError, match="4 of 4"):
        nn.Embedding(4, 2, padding_idx=4)


def test_max_norm_scales_rows_in_place() -> None:
    m = nn.Embedding.from_pretrained(st.tensor([[3.0, 4.0], [0.3, 0.4]]), max_norm=1.0)
    m(st.tensor([0, 1]))
    np.testing.assert_allclose(m.weight.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
    assert not m.weight.requires_grad


def test_gradient_scaled_by_frequency() -> None:
    m = nn.Embedding(3, 1, scale_grad_by_freq=True)
    out = m(st.tensor([0, 0, 1]))
    np.testing.assert_allclose(out.detach().numpy(), m.weight.detach().numpy()[[0, 0, 1]])
    out.sum().backward()
    np.testing.assert_allclose(m.weight.grad.numpy()[:, 0], [1, 1, 0])


def test_index_out_of_range_is_shown() -> None:
    with pytest.raises(IndexError, match="7"):
        nn.Embedding(5, 3)(st.tensor([7]))


def test_one_hot() -> None:
    assert F.one_hot(st.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(st.tensor([0]), 4).shape == (1, 4)
    with pytest.raises(RuntimeError):
        F.one_hot(st.tensor([5]), 3)


def test_normalized_rows_have_length_1() -> None:
    rows = F.normalize(st.randn(4, 3)).numpy()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
