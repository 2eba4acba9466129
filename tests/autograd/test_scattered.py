"""Sparse gradients: the rows that backward keeps, and sums with sparse and dense
gradients. The oracle is the same program with dense gradients.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import functional as F
from shmtensor.sparse import SparseTensor

RNG = np.random.default_rng(5)
TABLE = RNG.normal(size=(6, 3))
FACTORS = RNG.normal(size=(2, 4, 3))
INDEX = np.array([[1, 5, 1, 0], [2, 1, 2, 2]])


def table() -> Any:
    return st.tensor(TABLE, requires_grad=True)


def looked_up(w: Any, sparse: bool, **options: Any) -> Any:
    return (F.embedding(st.tensor(INDEX), w, sparse=sparse, **options) * st.tensor(FACTORS)).sum()


def of_bags(w: Any, sparse: bool, **options: Any) -> Any:
    c = st.tensor(FACTORS[:, 0])
    return (F.embedding_bag(st.tensor(INDEX), w, sparse=sparse, **options) * c).sum()


def gather_sum(w: Any, sparse: bool) -> Any:
    index = st.tensor(INDEX[:, :3] % 6)
    return (w.t().gather(1, index, sparse_grad=sparse) * st.tensor(FACTORS[:, 0])).sum()


def both(f: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
    """The sparse gradient and the dense one."""
    gradients = []
    for sparse in (True, False):
        w = table()
        f(w, sparse, *args, **options).backward()
        gradients.append(w.grad)
    return gradients[0], gradients[1]


@pytest.mark.parametrize(
    ("f", "options", "n_rows"),
    [
        (looked_up, {}, 8),
        (looked_up, {"padding_idx": 1}, 5),
        (looked_up, {"padding_idx": -1}, 7),
        (looked_up, {"scale_grad_by_freq": True}, 8),
        (of_bags, {"mode": "sum"}, 8),
        (of_bags, {"mode": "mean", "padding_idx": 2}, 5),
        (of_bags, {"mode": "sum", "per_sample_weights": st.tensor(FACTORS[..., 0])}, 8),
    ],
)
def test_sparse_rows_equal_the_dense_gradient(f: Any, options: dict[str, Any], n_rows: int) -> None:
    sparse, dense = both(f, **options)
    assert isinstance(sparse, SparseTensor)
    assert not sparse.is_coalesced()
    assert (sparse.sparse_dim(), sparse.dense_dim(), sparse._nnz()) == (1, 1, n_rows)
    np.testing.assert_allclose(sparse.to_dense().numpy(), dense.numpy(), rtol=1e-12, atol=1e-15)


def test_gather_keeps_elements() -> None:
    w, v = table(), table()
    index = st.tensor(INDEX[:, :3] % 3)
    (w.gather(1, index, sparse_grad=True) ** 2).sum().backward()
    (v.gather(1, index) ** 2).sum().backward()
    assert (w.grad.sparse_dim(), w.grad.dense_dim(), w.grad._nnz()) == (2, 0, 6)
    np.testing.assert_allclose(w.grad.to_dense().numpy(), v.grad.numpy(), rtol=1e-12)


def test_the_rest_of_the_graph_gets_dense_gradients() -> None:
    sparse, dense = both(gather_sum)
    assert not sparse.is_sparse
    np.testing.assert_allclose(sparse.numpy(), dense.numpy(), rtol=1e-12)
    w = table()
    looked_up(w * 2, True).backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * both(looked_up)[1].numpy(), rtol=1e-12)


def test_sparse_gradients_are_concatenated_and_a_dense_one_makes_the_sum_dense() -> None:
    single = both(looked_up)[1].numpy()
    w = table()
    looked_up(w, True).backward()
    first = w.grad
    (looked_up(w, True) + looked_up(w, True)).backward()  # in one backward, and then into .grad
    assert (w.grad._nnz(), first._nnz()) == (24, 8)
    np.testing.assert_allclose(w.grad.to_dense().numpy(), 3 * single, rtol=1e-12)
    (looked_up(w, True) + (w * w).sum() + looked_up(w, True)).backward()
    assert not w.grad.is_sparse
    np.testing.assert_allclose(w.grad.numpy(), 5 * single + 2 * TABLE, rtol=1e-12)
    gradient = w.grad
    looked_up(w, True).backward()
    assert w.grad is gradient  # in place
    np.testing.assert_allclose(gradient.numpy(), 6 * single + 2 * TABLE, rtol=1e-12)


def test_a_table_may_be_written_after_the_look_up() -> None:
    w, index = table(), st.tensor([3, 1])
    g = st.ones(2, 3, dtype=st.float64)
    F.embedding(index, w, sparse=True).backward(g)
    index.zero_()
    g.zero_()
    assert w.grad._indices().tolist() == [[3, 1]]
    assert w.grad._values().tolist() == [[1.0] * 3] * 2


def test_grad_hooks_and_history() -> None:
    w = table()
    (g,) = st.autograd.grad(looked_up(w, True), [w])
    assert g.is_sparse
    assert w.grad is None
    gradients: list[Any] = []
    w.register_hook(lambda g: gradients.append(g) or g * 2)
    w.register_post_accumulate_grad_hook(lambda p: gradients.append(p.grad))
    looked_up(w, True).backward()
    assert [x.is_sparse for x in gradients] == [True, True]
    np.testing.assert_allclose(
        w.grad.to_dense().numpy(), 2 * both(looked_up)[1].numpy(), rtol=1e-12
    )
    v = table()
    rows = F.embedding(st.tensor([1, 2, 1]), v, sparse=True)
    (g,) = st.autograd.grad((rows**3).sum(), [v], create_graph=True)
    (g.to_dense() ** 2).sum().backward()
    expected = np.zeros_like(TABLE)  # of (2 * 3 v^2)^2 and (3 v^2)^2: 36 n^2 v^3
    expected[1], expected[2] = 4 * 36 * TABLE[1] ** 3, 36 * TABLE[2] ** 3
    np.testing.assert_allclose(v.grad.to_dense().numpy(), expected, rtol=1e-12)


def test_assigned_copied_and_sent() -> None:
    w = table()
    looked_up(w, True).backward()
    for other in (copy.deepcopy(w), pickle.loads(pickle.dumps(w))):
        assert other.grad.is_sparse
        np.testing.assert_array_equal(other.grad.to_dense().numpy(), w.grad.to_dense().numpy())
    v = table()
    v.grad = w.grad
    assert v.grad is w.grad
    with pytest.raises(RuntimeError, match="different shape or dtype"):
        st.ones(2, 3, dtype=st.float64, requires_grad=True).grad = w.grad
    module = nn.Embedding(6, 3, sparse=True)
    module(st.tensor([1])).sum().backward()
    module.double().share_memory()
    assert (module.weight.grad.is_sparse, module.weight.grad.dtype) == (True, st.float64)
    assert module.weight.grad.is_shared()


def test_clipping_zeroing_and_anomalies() -> None:
    sparse, dense = nn.Embedding(6, 3, sparse=True), nn.Embedding(6, 3)
    for m in (sparse, dense):
        (m(st.tensor(INDEX)) * st.tensor(FACTORS).float()).sum().backward()
    norms = [float(nn.utils.clip_grad_norm_(m.parameters(), 0.5)) for m in (sparse, dense)]
    np.testing.assert_allclose(*norms, rtol=1e-6)
    expected = dense.weight.grad.numpy()
    np.testing.assert_allclose(sparse.weight.grad.to_dense().numpy(), expected, rtol=1e-5)
    for m in (sparse, dense):
        nn.utils.clip_grad_value_(m.parameters(), 0.1)
    np.testing.assert_allclose(sparse.weight.grad.to_dense().numpy(), expected, rtol=1e-5)
    sparse.zero_grad(set_to_none=False)
    assert sparse.weight.grad._nnz() == 0
    out = F.embedding(st.tensor([1]), sparse.weight, sparse=True)
    with (
        st.autograd.set_detect_anomaly(True),
        pytest.raises(RuntimeError, match="EmbeddingBackward0' returned nan"),
        pytest.warns(UserWarning, match="Error detected"),
    ):
        out.backward(st.full((1, 3), float("nan")))


@pytest.mark.torch
def test_bags_as_pytorchs() -> None:
    import torch

    flat, offsets = INDEX.reshape(-1), np.array([0, 3, 3])
    for options in ({}, {"mode": "sum", "padding_idx": 2}, {"mode": "max"}, {"sparse": True}):
        results = []
        for lib in (st, torch):
            m = lib.nn.EmbeddingBag.from_pretrained(lib.tensor(TABLE), freeze=False, **options)
            out = m(lib.tensor(flat), lib.tensor(offsets))
            (out**2).sum().backward()
            g = m.weight.grad
            results.append((out.detach().numpy(), (g.to_dense() if g.is_sparse else g).numpy()))
            assert g.is_sparse == bool(options.get("sparse"))
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert repr(nn.EmbeddingBag(5, 2, mode="sum")) == repr(torch.nn.EmbeddingBag(5, 2, mode="sum"))
    with pytest.raises(AssertionError, match="padding_idx"):
        nn.EmbeddingBag(5, 2, padding_idx=5)
