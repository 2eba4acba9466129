"""SciPy's sparse matrices and scikit-learn's estimators over our memory; joblib's workers."""

from __future__ import annotations

import operator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import cloudpickle
import foreign_workers
import numpy as np
import pytest
import scipy.sparse
from foreign_workers import run_alone, through
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor import native
from shmtensor.multiprocessing.reduction import dumps

LONG = 60.0


def shared_csr() -> tuple[Any, Any]:
    """A matrix on memory of ours, and the tensor of its numbers."""
    private = scipy.sparse.random(50, 50, 0.1, format="csr", dtype=np.float32, random_state=0)
    data, indices, indptr = (st.tensor(a) for a in (private.data, private.indices, private.indptr))
    parts = (data.numpy(), indices.numpy(), indptr.numpy())
    return scipy.sparse.csr_matrix(parts, shape=(50, 50), copy=False), data


def test_a_sparse_matrix_on_our_memory_travels_as_handles() -> None:
    matrix, data = shared_csr()
    assert matrix.data.ctypes.data == data.data_ptr()
    assert native.is_shared(matrix.indices)
    received = through(matrix)
    assert len(dumps(matrix)[1]) == 3
    assert received.data.ctypes.data == data.data_ptr()
    data *= 2
    assert (received != matrix).nnz == 0
    private = scipy.sparse.eye(4, format="csr")
    assert not dumps(private)[1]
    assert (through(private) != private).nnz == 0


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_operators_with_sparse_matrices(kind: Any) -> None:
    matrix, x = kind(np.eye(3)), st.ones(3)
    assert np.asarray(matrix @ x).tolist() == [1, 1, 1]  # SciPy takes the memory; no graph
    assert (matrix @ x.numpy()).tolist() == [1, 1, 1]
    for function in (operator.add, operator.sub, operator.matmul, operator.iadd):
        with pytest.raises(TypeError):
            function(x, matrix)
    with pytest.raises(TypeError):
        matrix + x
    with pytest.raises(IndexError):
        x[matrix]
    with pytest.raises(RuntimeError, match="requires grad"):
        matrix @ st.ones(3, requires_grad=True)
    assert x.tolist() == [1, 1, 1]


def test_estimators_fit_on_tensors_without_a_copy() -> None:
    x = st.randn(100, 3)
    y = x @ st.tensor([1.0, 2.0, 3.0])
    assert np.shares_memory(check_array(x), x.numpy())
    model = LinearRegression().fit(x, y)
    assert model.coef_ == pytest.approx([1, 2, 3], abs=1e-4)
    assert st.from_numpy(model.predict(x)).allclose(y, atol=1e-4)
    scaled = StandardScaler().fit_transform(x.double())
    assert scaled.mean(0) == pytest.approx(np.zeros(3), abs=1e-9)
    received = through(model)
    assert np.array_equal(received.predict(x), model.predict(x))
    with pytest.raises(RuntimeError, match="requires grad"):
        LinearRegression().fit(x.requires_grad_(), y)


# Arguments and results are handles, except in joblib's pool of the standard library: its pickler
# knows no reductions but its own.
@pytest.mark.parametrize(
    ("backend", "is_shared"), [("loky", True), ("multiprocessing", False), ("threading", True)]
)
def test_joblib_takes_and_returns_tensors(backend: str, is_shared: bool) -> None:
    run_alone(f"""
        import joblib
        x = st.rand(300_000)  # more than joblib's limit for memory maps
        expected = float(x.numpy().sum())
        parallel = joblib.Parallel(2, backend={backend!r}, max_nbytes="1M", timeout=60)
        double = joblib.delayed(foreign_workers.double)
        tensors = parallel(double(x[i:]) for i in range(3))
        assert [type(t) for t in tensors] == [st.Tensor] * 3
        assert [t.is_shared() for t in tensors] == [{is_shared}] * 3
        assert tensors[0].equal(2 * x) and tensors[2].equal(2 * x[2:])
        arrays = parallel(double(x.numpy()) for _ in range(2))
        assert all(np.array_equal(a, 2 * x.numpy()) for a in arrays)
        shared = parallel(joblib.delayed(foreign_workers.is_shared)(x) for _ in range(2))
        assert shared == [{is_shared}] * 2
    """)


def test_cross_validation_in_workers() -> None:
    run_alone("""
        from sklearn.linear_model import LinearRegression
        from sklearn.model_selection import cross_val_score

        x = st.randn(60, 3)
        y = x @ st.tensor([1.0, 2.0, 3.0])
        scores = cross_val_score(LinearRegression(), x.numpy(), y.numpy(), cv=3, n_jobs=2)
        assert np.allclose(scores, 1)
    """)


def test_cloudpickle_copies_the_bytes() -> None:
    x = st.arange(5.0)
    copy = cloudpickle.loads(cloudpickle.dumps(x))
    assert copy.equal(x)
    assert copy.data_ptr() != x.data_ptr()


def test_process_pool_executor_of_the_standard_library() -> None:
    matrix, data = shared_csr()
    with ProcessPoolExecutor(1, mp_context=mp.get_context("fork")) as executor:
        assert executor.submit(foreign_workers.is_shared, data).result(LONG)
        # Its own queue copies arrays: only tensors are registered with the standard library.
        assert not executor.submit(foreign_workers.is_shared, matrix.data).result(LONG)
        result = executor.submit(foreign_workers.double, matrix).result(LONG)
        assert (result != 2 * matrix).nnz == 0
    with mp.Pool(1) as pool:
        assert pool.apply(foreign_workers.is_shared, (matrix.data,))
