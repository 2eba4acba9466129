"""Sparse matrices in compressed form (CSR, CSC): SciPy's values and memory, PyTorch's semantics."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import shmtensor as st
from shmtensor import sparse
from shmtensor.autograd import gradcheck, gradgradcheck
from shmtensor.multiprocessing import get_context

RNG = np.random.default_rng(2)
LAYOUTS = {st.sparse_csr: "csr", st.sparse_csc: "csc", st.sparse_coo: "coo"}
COMPRESSED = [st.sparse_csr, st.sparse_csc]


def scipys(layout: Any, n: int = 4, m: int = 5, density: float = 0.4) -> Any:
    """A random SciPy array, with an empty row and an empty column."""
    dense = RNG.standard_normal((n, m)) * (RNG.random((n, m)) < density)
    dense[1], dense[:, 2] = 0, 0
    return scipy.sparse.coo_array(dense).asformat(LAYOUTS[layout])


def random(layout: Any, n: int = 4, m: int = 5) -> sparse.SparseTensor:
    return sparse.from_scipy(scipys(layout, n, m))


def csr(values: Any = (3.0, 4.0, 5.0)) -> sparse.SparseCompressedTensor:
    return st.sparse_csr_tensor([0, 1, 1, 3], [1, 0, 3], values, (3, 4))


def same(x: sparse.SparseTensor, y: Any) -> bool:
    return np.array_equal(x.to_dense().numpy(), y)


# ------------------------------------------------------------------ creation and parts
def test_parts() -> None:
    x = csr()
    assert x.to_dense().tolist() == [[0, 3, 0, 0], [0, 0, 0, 0], [4, 0, 0, 5]]
    assert (x.crow_indices().tolist(), x.col_indices().tolist()) == ([0, 1, 1, 3], [1, 0, 3])
    assert x.values().tolist() == [3, 4, 5]
    assert (x.shape, x.ndim, x.sparse_dim(), x.dense_dim(), x._nnz()) == ((3, 4), 2, 2, 0, 3)
    assert x.layout is st.sparse_csr
    assert (x.is_sparse, x.is_sparse_csr) == (False, True)
    assert x._indices().tolist() == [[0, 2, 2], [1, 0, 3]]
    y = x.t()
    assert (y.ccol_indices().tolist(), y.row_indices().tolist()) == ([0, 1, 1, 3], [1, 0, 3])
    assert (y.shape, y.layout, y.is_sparse_csr) == ((4, 3), st.sparse_csc, False)
    assert y.values().data_ptr() == x.values().data_ptr()
    assert same(y, x.to_dense().t())
    assert y.t().layout is st.sparse_csr
    assert x.transpose(0, -1).layout is st.sparse_csc
    assert x.transpose(1, 1) is x
    assert st.sparse_csr_tensor([0, 1, 2], [1, 4], [1, 2]).shape == (2, 5)
    assert st.sparse_csc_tensor([0, 1, 2], [1, 4], [1, 2]).shape == (5, 2)
    assert st.sparse_csr_tensor([0, 0], [], []).shape == (1, 0)
    assert st.sparse_csr_tensor([0], [], [], (0, 3)).to_dense().shape == (0, 3)
    again = st.sparse_compressed_tensor([0, 1, 1, 3], [1, 0, 3], [3.0, 4, 5], layout=x.layout)
    assert again.to_dense().tolist() == x.to_dense().tolist()


def test_indices_keep_their_dtype_and_memory() -> None:
    for dtype, kept in ((st.int32, st.int32), (st.int64, st.int64), (st.int16, st.int64)):
        crow, col = st.tensor([0, 1, 2], dtype=dtype), st.tensor([1, 0], dtype=dtype)
        values = st.tensor([3.0, 4.0])
        x = st.sparse_csr_tensor(crow, col, values)
        assert x.crow_indices().dtype == x.col_indices().dtype == kept
        assert (x.crow_indices().data_ptr() == crow.data_ptr()) == (dtype == kept)
        assert x.values().data_ptr() == values.data_ptr()
        assert (x @ st.eye(2)).tolist() == [[0, 3], [4, 0]]
    mixed = st.sparse_csr_tensor(crow.int(), col.long(), values)
    assert mixed.crow_indices().dtype == mixed.col_indices().dtype == st.int64


@pytest.mark.parametrize("layout", COMPRESSED)
def test_printed_like_pytorchs(layout: Any) -> None:
    first, second = ("crow", "col") if layout is st.sparse_csr else ("ccol", "row")
    x = csr() if layout is st.sparse_csr else csr().t()
    values = x.values().requires_grad_()
    assert repr(x) == (
        f"tensor({first}_indices=tensor([0, 1, 1, 3]),\n"
        f"       {second}_indices=tensor([1, 0, 3]),\n"
        "       values=tensor([3., 4., 5.]),\n"
        f"       size={tuple(x.shape)}, nnz=3, layout={layout}, requires_grad=True)"
    )
    assert "grad_fn=<" in repr(x.with_values(values * 2))


BAD: dict[str, tuple[Any, str]] = {
    "first": (lambda f: f([1, 1, 2], [0, 1], [1.0, 2.0]), r"\[..., 0\] == 0` is not satisfied: 1"),
    "last": (lambda f: f([0, 1, 3], [0, 1], [1.0, 2.0]), r"-1\] == nnz` is .*: 3, nnz 2"),
    "decreasing": (
        lambda f: f([0, 2, 1, 2], [0, 1], [1.0, 2.0]),
        r"0 <= \w+\[..., 1:\] - .* <= 2` is not satisfied: \['-1 at 1'\]",
    ),
    "overflow": (
        lambda f: f(
            np.array([0, 2**31 - 1, -2, 1], np.int32),
            np.zeros(1, np.int32),
            [1.0],
            (3, 2**40) if f is st.sparse_csr_tensor else (2**40, 3),
        ),
        r"<= 1099511627776` is not satisfied: \[.* at 1'\]",
    ),
    "long": (lambda f: f([0, 3], [0, 1, 1], [1.0, 2.0, 3.0]), r"<= 2` .*: \['3 at 0'\]"),
    "high": (lambda f: f([0, 1, 2], [0, 7], [1.0, 2.0], (2, 2)), r"< 2` .*: \['7 at 1'\]"),
    "low": (lambda f: f([0, 1, 2], [-1, 0], [1.0, 2.0]), r"0 <= \w+ < 1` .*: \['-1 at 0'\]"),
    "twice": (lambda f: f([0, 0, 2], [1, 1], [1.0, 2.0]), r"distinct` .*: \['\[1, 1\] at 0'\]"),
    "unsorted": (
        lambda f: f([0, 1, 3], [2, 1, 0], [1.0, 2.0, 3.0]),
        r"sorted and distinct` .*: \['\[1, 0\] at 1'\]",
    ),
    "nnz": (lambda f: f([0, 1], [0], [1.0, 2.0]), "same nnz: 1 and 2"),
    "ndim": (lambda f: f([[0, 1]], [[0]], [[1.0]]), r"\(1, 2\), \(1, 1\), \(1, 1\), batches and"),
    "none": (lambda f: f([], [], []), r"shape \(n \+ 1,\)"),
    "size": (lambda f: f([0, 1], [0], [1.0], (3, 3)), r"inconsistent with \w+: \(3, 3\), 2 of"),
    "dims": (lambda f: f([0, 1], [0], [1.0], (1, 1, 1)), r"inconsistent with \w+: \(1, 1, 1\)"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("maker", ["sparse_csr_tensor", "sparse_csc_tensor"])
def test_malformed_indices_are_refused(maker: str, name: str) -> None:
    call, message = BAD[name]
    with pytest.raises(RuntimeError, match=f"{maker}: .*{message}"):
        call(getattr(st, maker))


def test_wrong_use() -> None:
    x = csr()
    for call, message in (
        (x.ccol_indices, r"expected sparse column .* got shmtensor.sparse_csr: shape \(3, 4\)"),
        (x.row_indices, "use col_indices"),
        (x.t().crow_indices, "expected sparse row .*use ccol_indices"),
        (x.indices, r"coordinate tensor layout .*use crow_indices and col_indices, or to_sparse_"),
        (st.ones(2).to_sparse_csr, r"to_sparse_csr: only matrices .*shape \(2,\)"),
        (st.ones(2, 2, 2).to_sparse(1).to_sparse_csc, r"to_sparse_csc: only .*\(2, 2, 2\)"),
        (lambda: st.ones(2, 2).to_sparse(1).to_sparse_csr(), "1 dense dimensions"),
        (lambda: st.ones(2, 2).to_sparse_csr(1), "1 dense dimensions"),
        (lambda: x @ st.ones(3, 3), "inner sizes differ"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()
    for layout in (None, st.sparse_coo, st.strided):
        with pytest.raises(ValueError, match="sparse_csr or sparse_csc, but got"):
            st.sparse_compressed_tensor([0], [], [], layout=layout)


# ------------------------------------------------------------------ conversions
@pytest.mark.parametrize("layout", COMPRESSED)
def test_conversions(layout: Any) -> None:
    x = random(layout)
    dense = x.to_dense()
    coo = x.to_sparse_coo()
    assert type(coo) is sparse.SparseTensor
    assert coo.layout is st.sparse_coo
    assert coo.is_coalesced() == (layout is st.sparse_csr)
    assert coo._values().data_ptr() == x.values().data_ptr()
    for source, name in itertools.product((x, coo, dense), ("csr", "csc")):
        y = getattr(source, f"to_sparse_{name}")()
        expected = scipy.sparse.coo_array(dense.numpy()).asformat(name)
        assert y.layout is getattr(st, f"sparse_{name}")
        parts = [part.tolist() for part in y.parts().values()]
        assert parts == [a.tolist() for a in (expected.indptr, expected.indices, expected.data)]
        assert same(y, dense)
    assert x.to_sparse_csr() is x if layout is st.sparse_csr else x.to_sparse_csc() is x
    doubled = st.sparse_coo_tensor([[1, 0, 1], [0, 1, 0]], [1.0, 2.0, 3.0], (2, 2))
    assert doubled.to_sparse_csr().values().tolist() == [2, 4]
    assert x.to(st.float32).dtype == st.float32
    assert x.to(st.float32).layout is x.cpu().layout is x.detach().layout is layout
    copied = copy.deepcopy(x)
    assert copied.layout is x.clone().layout is layout
    assert copied.values().data_ptr() != x.values().data_ptr()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scipys_memory_is_ours(layout: Any) -> None:
    matrix = scipys(layout)
    x = sparse.from_scipy(matrix)
    assert x.layout is layout
    assert same(x, matrix.toarray())
    assert np.shares_memory(x._values().numpy(), matrix.data)
    if layout is not st.sparse_coo:
        compressed, plain, _ = x.parts().values()
        assert np.shares_memory(compressed.numpy(), matrix.indptr)
        assert np.shares_memory(plain.numpy(), matrix.indices)
        assert plain.numpy().dtype == matrix.indices.dtype == np.int32
    x._values().mul_(2)
    assert same(x, matrix.toarray())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_our_memory_is_scipys(layout: Any) -> None:
    x = random(layout).clone()  # in shared memory
    assert x.is_shared() or x.share_memory_().is_shared()
    matrix = sparse.to_scipy(x)
    assert type(matrix) is getattr(scipy.sparse, f"{LAYOUTS[layout]}_array")
    assert np.array_equal(matrix.toarray(), x.to_dense())
    assert np.shares_memory(matrix.data, x._values().numpy())
    if layout is not st.sparse_coo:
        compressed, plain, _ = x.parts().values()
        assert np.shares_memory(matrix.indptr, compressed.numpy())
        assert np.shares_memory(matrix.indices, plain.numpy())
        long = sparse.from_scipy(matrix).to_dense().to_sparse_csr()  # its indices are int64
        assert np.shares_memory(sparse.to_scipy(long).indices, long.col_indices().numpy())
    matrix.data *= 3
    assert np.array_equal(matrix.toarray(), x.to_dense())


def test_what_scipy_does_not_have_or_has_differently() -> None:
    for value in (np.eye(2), st.eye(2), scipy.sparse.lil_array((2, 2)), 3):
        with pytest.raises(TypeError, match=f"CSR, CSC or COO: a {type(value).__name__}"):
            sparse.from_scipy(value)
    unsorted = scipy.sparse.csr_array((np.ones(2), np.array([1, 0]), np.array([0, 2])))
    with pytest.raises(RuntimeError, match=r"sorted and distinct.*\[1, 0\] at 0"):
        sparse.from_scipy(unsorted)
    unsorted.sum_duplicates()
    assert sparse.from_scipy(unsorted).to_dense().tolist() == [[1, 1]]
    with pytest.raises(TypeError, match="a sparse tensor is needed: a Tensor"):
        sparse.to_scipy(st.eye(2))
    with pytest.raises(RuntimeError, match=r"a matrix of numbers is needed: shape \(2,\)"):
        sparse.to_scipy(st.ones(2).to_sparse())
    with pytest.raises(RuntimeError, match="requires grad"):
        sparse.to_scipy(csr().requires_grad_())


# ------------------------------------------------------------------ products
DENSE = {"matrix": (5, 3), "vector": (5,), "batch": (2, 5, 3)}


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("layout", COMPRESSED)
def test_products_and_their_gradients(layout: Any, name: str) -> None:
    matrix = scipys(layout)
    x = sparse.from_scipy(matrix)
    values = st.tensor(matrix.data, requires_grad=True)
    y = st.tensor(RNG.standard_normal(DENSE[name]), requires_grad=True)
    expected = matrix.toarray() @ y.detach().numpy()
    forms: list[Callable[..., Any]] = [lambda x, y: x @ y, st.matmul, lambda x, y: x.matmul(y)]
    if name == "matrix":
        forms += [st.sparse.mm, st.mm, lambda x, y: (y.t() @ x.t()).t()]
    if name == "vector":
        forms += [st.mv, lambda x, y: x.mv(y), lambda x, y: y @ x.t()]
    for form in forms:
        np.testing.assert_allclose(form(x, y).detach(), expected, rtol=1e-12)

    def product(v: Any, y: Any) -> Any:
        return x.with_values(v) @ y

    assert gradcheck(product, (values, y))
    assert gradgradcheck(lambda v, y: product(v, y) ** 2, (values, y))


@pytest.mark.parametrize(("first", "second"), list(itertools.product(LAYOUTS, LAYOUTS)))
def test_two_sparse_ones(first: Any, second: Any) -> None:
    x, y = random(first), random(second)
    a, b = x.to_dense().numpy(), y.to_dense().numpy()
    pairs = ((x + y, a + b), (x - y, a - b), (x * y, a * b), (x @ y.t(), a @ b.T))
    for out, expected in pairs:
        np.testing.assert_allclose(out.to_dense(), expected, atol=1e-14)
    for out in (x + y, x * y, x @ y.t()):
        # A sum with coordinate form asks the compressed one, a subclass, first.
        assert out.layout in (first, second)
        assert first is st.sparse_coo or out.layout is first
    mixed = st.sparse.addmm(x, x, y.t() @ y, beta=2, alpha=3)
    np.testing.assert_allclose(mixed.to_dense(), 2 * a + 3 * a @ b.T @ b, atol=1e-13)


@pytest.mark.parametrize("layout", COMPRESSED)
def test_arithmetic(layout: Any) -> None:
    x = random(layout)
    a, row = x.to_dense().numpy(), RNG.standard_normal(5)
    for out, expected in (
        (x * 2, a * 2), (2 * x, a * 2), (x / 2, a / 2), (-x, -a), (x * st.tensor(row), a * row),
        (x.div(0.1, rounding_mode="floor"), np.floor_divide(a, 0.1)), (x.add(x, alpha=3), a * 4),
    ):  # fmt: skip
        np.testing.assert_allclose(out.to_dense(), expected, atol=1e-14)
        assert out.layout is layout
    dense = st.tensor(RNG.standard_normal((4, 5)))
    np.testing.assert_allclose(x + dense, a + dense.numpy())
    np.testing.assert_allclose(x.sum(), a.sum())
    np.testing.assert_allclose(x.norm(), np.linalg.norm(a))
    added = st.addmm(dense[:, :4], x, st.tensor(a.T), beta=0.5, alpha=2)
    np.testing.assert_allclose(added, 0.5 * dense[:, :4].numpy() + 2 * a @ a.T)
    mask = st.ones(4, 5).to_sparse_csr()
    assert same(x.sparse_mask(mask), a)
    assert dense.sparse_mask(x).layout is layout
    assert np.array_equal(dense.sparse_mask(x).to_dense(), np.where(a != 0, dense, 0))


@pytest.mark.parametrize("layout", COMPRESSED)
def test_in_place(layout: Any) -> None:
    x, y = random(layout), random(layout)
    a, b = x.to_dense().numpy(), y.to_dense().numpy()
    z = x.clone()
    z @ st.ones(5, dtype=st.float64)  # so that its rows are computed
    z += y
    np.testing.assert_allclose(z.to_dense(), a + b, atol=1e-14)
    np.testing.assert_allclose(z @ st.eye(5, dtype=st.float64), a + b, atol=1e-14)
    z -= y * 2
    z *= 3
    z.div_(2)
    np.testing.assert_allclose(z.to_dense(), (a - b) * 1.5, atol=1e-13)
    np.testing.assert_allclose(z.clamp_(min=0).to_dense(), np.clip((a - b) * 1.5, 0, None))
    assert z.layout is layout
    assert z.zero_()._nnz() == 0
    assert same(z, np.zeros((4, 5)))
    assert z.layout is layout


def test_gradients_of_leaves() -> None:
    x = csr().requires_grad_()
    (x @ st.arange(4.0)).sum().backward()
    assert x.grad is not None
    assert x.grad.layout is st.sparse_csr
    assert x.grad.to_dense().tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 3]]
    p = st.nn.Parameter(st.tensor([[1.0, 0.0], [2.0, 3.0]]))
    (p.to_sparse_csr() @ st.tensor([1.0, 10.0])).sum().backward()
    assert p.grad is not None
    assert p.grad.tolist() == [[1, 0], [1, 10]]
    out = st.nn.functional.linear(st.ones(1, 4), csr().requires_grad_(), st.zeros(3))
    assert out.tolist() == [[3, 0, 9]]


# ------------------------------------------------------------------ other processes, files
def double(queue: Any) -> None:
    x = queue.get()
    x.values().mul_(2)
    queue.put((x.layout, x.to_dense().tolist()))


def test_another_process_sees_the_same_memory() -> None:
    context = get_context("fork")
    queue, x = context.SimpleQueue(), csr()
    x @ st.ones(4)  # the rows that it computed stay here
    process = context.Process(target=double, args=(queue,))
    queue.put(x)
    process.start()
    process.join(60)
    layout, rows = queue.get()
    assert layout is st.sparse_csr
    assert rows == x.to_dense().tolist() == [[0, 6, 0, 0], [0, 0, 0, 0], [8, 0, 0, 10]]


@pytest.mark.parametrize("layout", COMPRESSED)
def test_pickles_and_files(layout: Any, tmp_path: Any) -> None:
    x = random(layout)
    again = pickle.loads(pickle.dumps(x))
    st.save([x, x], tmp_path / "x.pt")
    loaded, alias = st.load(tmp_path / "x.pt")
    assert loaded is alias
    for y in (again, loaded):
        assert type(y) is sparse.SparseCompressedTensor
        assert y.layout is layout
        for name, part in x.parts().items():
            assert y.parts()[name].tolist() == part.tolist()
            assert y.parts()[name].dtype == part.dtype


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.compressed.add_(1), r"== 0` is not satisfied: 1"),
        (lambda x: x.plain.mul_(9), r"is not satisfied"),
        (lambda x: setattr(x, "plain", x.plain.to(st.int16)), r"dtypes of indices"),
        (lambda x: setattr(x, "plain", x.plain.int()), r"dtypes of indices"),
        (lambda x: setattr(x, "plain", 3), r"not the indices and values"),
        (lambda x: setattr(x, "numbers", x.numbers[:1]), r"same nnz"),
        (lambda x: setattr(x, "shape", (3, -4)), r"not the sizes"),
        (lambda x: setattr(x, "shape", (2, 4)), r"inconsistent"),
        (lambda x: setattr(x, "shape", (3, 2)), r"is not satisfied"),
    ],
)
def test_files_of_malformed_matrices_are_refused(change: Any, message: str, tmp_path: Any) -> None:
    x = csr()
    change(x)
    st.save(x, tmp_path / "x.pt")
    with pytest.raises(pickle.UnpicklingError, match=message):
        st.load(tmp_path / "x.pt")


# ------------------------------------------------------------------ PyTorch
@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse CS")  # its layouts are in beta
@pytest.mark.filterwarnings("ignore:Sparse invariant")
@pytest.mark.parametrize("layout", COMPRESSED)
def test_files_and_values_are_pytorchs(layout: Any, tmp_path: Any) -> None:
    torch = pytest.importorskip("torch")
    for n, m in ((4, 5), (1, 7), (9, 2), (30, 20)):
        x = sparse.from_scipy(scipys(layout, max(n, 2), max(m, 3)))
        st.save(x, tmp_path / "x.pt")
        theirs = torch.load(tmp_path / "x.pt")
        assert str(theirs.layout) == f"torch.{layout.name}"
        assert theirs.to_dense().tolist() == x.to_dense().tolist()
        torch.save(theirs, tmp_path / "y.pt")
        ours = st.load(tmp_path / "y.pt")
        for name, part in ours.parts().items():
            expected = getattr(theirs, name)()
            assert part.tolist() == expected.tolist()
            assert str(part.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
        dense = RNG.standard_normal((x.shape[1], 3))
        expected = theirs @ torch.from_numpy(dense)
        np.testing.assert_allclose(x @ st.tensor(dense), expected, rtol=1e-12)
        assert str(theirs.t().layout)[6:] == x.t().layout.name
        assert (x + x).to_dense().tolist() == (theirs + theirs).to_dense().tolist()
        assert theirs.is_sparse == x.is_sparse
        assert theirs.is_sparse_csr == x.is_sparse_csr


def test_indices_are_integers() -> None:
    for rows, columns in (([0.0, 0.5, 1.0], [1]), ([0, 0, 1], [1.5]), ([0, 0, 1], [True])):
        with pytest.raises(RuntimeError, match="sparse_csr_tensor: the indices must be int32 or"):
            st.sparse_csr_tensor(rows, columns, [3.0], (2, 2))
    assert st.sparse_csr_tensor([0, 0, 0], [], [], (2, 2)).to_dense().tolist() == [[0, 0], [0, 0]]
