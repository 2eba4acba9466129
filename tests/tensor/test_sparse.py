"""Sparse tensors in coordinate form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array

import shmtensor as st
from shmtensor import sparse

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


def test_the_product_and_its_gradients() -> None:
    x = coo_tensor(requires_grad=True)
    y = st.from_numpy(RNG.standard_normal((4, 2))).requires_grad_()
    w = RNG.standard_normal((3, 2))
    out = st.sparse.mm(x, y)
    dense = x.to_dense().detach().numpy()
    assert np.allclose(out.detach().numpy(), dense @ y.detach().numpy())
    (out * st.from_numpy(w)).sum().backward()
    assert np.allclose(y.grad.numpy(), dense.T @ w)
    slope = w @ y.detach().numpy().T
    assert np.allclose(x.grad._values().numpy(), slope[tuple(PLACES)])
    assert st.autograd.gradcheck(
        lambda v, y: sparse.spmm(st.sparse_coo_tensor(PLACES, v, (3, 4)), y),
        (x._values().detach().requires_grad_(), y),
    )
    assert st.allclose(x @ y.detach()[:, 0], out[:, 0])
    assert st.allclose(st.sparse.addmm(st.ones(3, 2), x, y, beta=2, alpha=3), 2 + 3 * out)
    with pytest.raises(RuntimeError, match="inner sizes differ"):
        sparse.mm(x, st.ones(3, 2, dtype=st.float64))


def test_arithmetic() -> None:
    x = coo_tensor()
    dense = x.to_dense()
    assert st.equal((x + x).to_dense(), dense * 2)
    assert st.equal((x * 2 - x).to_dense(), dense)
    assert st.equal((x / 2).to_dense(), dense / 2)
    assert st.equal(x.t().to_dense(), dense.t())
    assert st.equal(x + st.ones(3, 4), dense + 1)
    weights = st.arange(12.0, dtype=st.float64).reshape(3, 4)
    assert st.equal((x * weights).to_dense(), dense * weights)
    assert x.sum().item() == 10
    assert st.equal(x.clone().detach().to(st.float32).to_dense(), dense.float())
    with pytest.raises(RuntimeError, match="shapes of sparse tensors differ"):
        x + x.t()


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
