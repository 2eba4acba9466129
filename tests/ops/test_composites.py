"""Functions composed of rows, against NumPy: values, in-place forms, aliases, creation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.ops import COMPOSITES, ROWS

random = np.random.default_rng(0)
X, Y = random.uniform(-1, 1, (3, 4)), random.uniform(0.5, 2, (3, 4))
A, B = random.uniform(-1, 1, (2, 3, 4)), random.uniform(-1, 1, (2, 4, 3))
V, W = random.uniform(-1, 1, 4), random.uniform(0.5, 2, 4)
N = random.integers(0, 5, (3, 4))
HOLES = np.where(X > 0.3, np.nan, X)
PLACES = np.array([[0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 1, 1]])
ROWS_AT = np.array([0, 2])
MASK = X > 0

Reference = Callable[[], Any]


def assign(x: Any, index: Any, value: Any) -> Any:
    out = x.copy()
    out[index] = value
    return out


def index_add(x: Any, index: Any, value: Any) -> Any:
    out = x.copy()
    np.add.at(out, index, value)
    return out


def away(x: Any) -> Any:
    return x - x.mean()


# name: (positional arguments, named ones, what NumPy has)
CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], Reference]] = {
    "addmm": ((X[:, :3], X, Y.T), {"beta": 2}, lambda: 2 * X[:, :3] + X @ Y.T),
    "addmv": ((X[:, 0], X, V), {"alpha": 3}, lambda: X[:, 0] + 3 * X @ V),
    "addr": ((X, X[:, 0], V), {}, lambda: X + np.outer(X[:, 0], V)),
    "addbmm": ((X[:, :3], A, B), {}, lambda: X[:, :3] + (A @ B).sum(0)),
    "baddbmm": ((X[:, :3] + A @ B, A, B), {"beta": 0}, lambda: A @ B),
    "adjoint": ((A,), {}, lambda: A.swapaxes(1, 2)),
    "alias_copy": ((X,), {}, lambda: X),
    "allclose": ((X, X + 1e-9), {}, lambda: True),
    "aminmax": ((X,), {"dim": 1}, lambda: (X.min(1), X.max(1))),
    "argsort": ((X, 1, True), {}, lambda: np.argsort(-X, 1)),
    "argwhere": ((MASK,), {}, lambda: np.argwhere(MASK)),
    "as_strided_copy": ((X, (2, 2), (4, 1), 1), {}, lambda: X[:2, 1:3]),
    "as_strided_scatter": (
        (X, Y[:2, :2], (2, 2), (4, 1), 1),
        {},
        lambda: assign(X, np.s_[:2, 1:3], Y[:2, :2]),
    ),
    "atleast_1d": ((np.asarray(X[0, 0]),), {}, lambda: X[0, :1]),
    "atleast_2d": ((V,), {}, lambda: V[None]),
    "atleast_3d": ((V,), {}, lambda: V[None, :, None]),
    "bincount": ((N.ravel(),), {}, lambda: np.bincount(N.ravel())),
    "block_diag": ((X, Y), {}, lambda: np.block([[X, 0 * X], [0 * X, Y]])),
    "bmm": ((A, B), {}, lambda: A @ B),
    "broadcast_shapes": (((3, 1), (4,)), {}, lambda: (3, 4)),
    "broadcast_tensors": ((V, X), {}, lambda: (np.broadcast_to(V, X.shape), X)),
    "bucketize": ((X, np.sort(V)), {}, lambda: np.searchsorted(np.sort(V), X)),
    "cartesian_prod": ((V, W[:2]), {}, lambda: np.array(list(itertools.product(V, W[:2])))),
    "cdist": ((X, Y), {}, lambda: np.sqrt(((X[:, None] - Y) ** 2).sum(-1))),
    "celu": ((X, 0.5), {}, lambda: np.where(X > 0, X, 0.5 * np.expm1(X / 0.5))),
    "chain_matmul": ((X, Y.T, X), {}, lambda: X @ Y.T @ X),
    "chunk": ((X, 3, 1), {}, lambda: (X[:, :2], X[:, 2:])),
    "clamp": ((X, -0.2, 0.3), {}, lambda: np.clip(X, -0.2, 0.3)),
    "clamp_max": ((X, 0.1), {}, lambda: np.minimum(X, 0.1)),
    "clamp_min": ((X, V), {}, lambda: np.maximum(X, V)),
    "column_stack": (([V, W],), {}, lambda: np.column_stack([V, W])),
    "combinations": ((V,), {}, lambda: np.array(list(itertools.combinations(V, 2)))),
    "constant_pad_nd": (
        (X, (1, 2), 7.0),
        {},
        lambda: np.pad(X, ((0, 0), (1, 2)), constant_values=7),
    ),
    "corrcoef": ((X,), {}, lambda: np.corrcoef(X)),
    "cov": ((X,), {}, lambda: np.cov(X)),
    "cross": ((X[:, :3], Y[:, :3], 1), {}, lambda: np.cross(X[:, :3], Y[:, :3])),
    "cumulative_trapezoid": ((V,), {"dx": 2.0}, lambda: np.cumsum((V[1:] + V[:-1]) * 1.0)),
    "diag": ((X, 1), {}, lambda: np.diag(X, 1)),
    "diag_embed": ((V,), {}, lambda: np.diag(V)),
    "diagflat": ((X,), {}, lambda: np.diagflat(X)),
    "diagonal_copy": ((X,), {}, lambda: X.diagonal()),
    "diagonal_scatter": ((X, V[:3]), {}, lambda: assign(X, (np.arange(3), np.arange(3)), V[:3])),
    "diff": ((X, 2), {}, lambda: np.diff(X, 2)),
    "dist": ((X, Y), {}, lambda: np.linalg.norm(X - Y)),
    "dot": ((V, W), {}, lambda: V @ W),
    "dsplit": ((A, 2), {}, lambda: np.dsplit(A, 2)),
    "dstack": (([X, Y],), {}, lambda: np.dstack([X, Y])),
    "einsum": (("bij,bjk->ki", A, B), {}, lambda: np.einsum("bij,bjk->ki", A, B)),
    "equal": ((X, Y), {}, lambda: False),
    "expand_copy": ((V, (3, 4)), {}, lambda: np.tile(V, (3, 1))),
    "eye": ((2, 3), {"dtype": "float64"}, lambda: np.eye(2, 3)),
    "fill": ((X, 2.0), {}, lambda: np.full_like(X, 2)),
    "flatten": ((A, 1), {}, lambda: A.reshape(2, 12)),
    "fliplr": ((X,), {}, lambda: X[:, ::-1]),
    "flipud": ((X,), {}, lambda: X[::-1]),
    "float_power": ((Y, 2), {}, lambda: Y**2),
    "full_like": ((X, 3), {}, lambda: np.full_like(X, 3)),
    "gather": ((X, 1, PLACES), {}, lambda: np.take_along_axis(X, PLACES, 1)),
    "histc": ((X, 4, -1, 1), {}, lambda: np.histogram(X, 4, (-1, 1))[0].astype(float)),
    "hsplit": ((X, [1]), {}, lambda: np.hsplit(X, [1])),
    "hstack": (([X, Y],), {}, lambda: np.hstack([X, Y])),
    "index_add": ((X, 0, ROWS_AT, Y[:2]), {"alpha": 2}, lambda: index_add(X, ROWS_AT, 2 * Y[:2])),
    "index_copy": ((X, 0, ROWS_AT, Y[:2]), {}, lambda: assign(X, ROWS_AT, Y[:2])),
    "index_fill": ((X, 0, ROWS_AT, 5.0), {}, lambda: assign(X, ROWS_AT, 5.0)),
    "index_put": ((X, (ROWS_AT,), Y[:2]), {}, lambda: assign(X, ROWS_AT, Y[:2])),
    "index_reduce": (
        (X, 0, ROWS_AT, Y[:2], "amax"),
        {},
        lambda: assign(X, ROWS_AT, np.maximum(X[ROWS_AT], Y[:2])),
    ),
    "index_select": ((X, 1, ROWS_AT), {}, lambda: X[:, ROWS_AT]),
    "inner": ((X, V), {}, lambda: np.inner(X, V)),
    "isin": ((N, np.array([0, 2])), {}, lambda: np.isin(N, [0, 2])),
    "kron": ((X, Y[:2]), {}, lambda: np.kron(X, Y[:2])),
    "ldexp": ((X, N), {}, lambda: X * 2.0**N),
    "logspace": ((0, 2, 5), {"dtype": "float64"}, lambda: np.logspace(0, 2, 5)),
    "log_softmax": ((X, 1), {}, lambda: X - np.log(np.exp(X).sum(1, keepdims=True))),
    "masked_fill": ((X, MASK, 9.0), {}, lambda: np.where(MASK, 9.0, X)),
    "masked_scatter": ((X, MASK, Y), {}, lambda: assign(X, MASK, Y.ravel()[: MASK.sum()])),
    "masked_select": ((X, MASK), {}, lambda: X[MASK]),
    "max": ((X, 1), {}, lambda: (X.max(1), X.argmax(1))),
    "median": ((X[:, :3], 1), {}, lambda: (np.median(X[:, :3], 1), np.argsort(X[:, :3], 1)[:, 1])),
    "meshgrid": ((V, W), {"indexing": "ij"}, lambda: np.meshgrid(V, W, indexing="ij")),
    "min": ((X, Y), {}, lambda: np.minimum(X, Y)),
    "mm": ((X, Y.T), {}, lambda: X @ Y.T),
    "movedim": ((A, 0, 2), {}, lambda: np.moveaxis(A, 0, 2)),
    "msort": ((X,), {}, lambda: np.sort(X, 0)),
    "mv": ((X, V), {}, lambda: X @ V),
    "nanmean": ((HOLES,), {}, lambda: np.nanmean(HOLES)),
    "nanquantile": ((HOLES, 0.3), {}, lambda: np.nanquantile(HOLES, 0.3)),
    "narrow_copy": ((X, 1, 1, 2), {}, lambda: X[:, 1:3]),
    "nonzero": ((N,), {"as_tuple": True}, lambda: np.nonzero(N)),
    "nonzero_static": ((N,), {"size": 3, "fill_value": -2}, lambda: np.argwhere(N)[:3]),
    "norm": ((X, 1), {}, lambda: np.abs(X).sum()),
    "ones_like": ((X,), {}, lambda: np.ones_like(X)),
    "outer": ((V, W), {}, lambda: np.outer(V, W)),
    "permute_copy": ((A, (2, 0, 1)), {}, lambda: A.transpose(2, 0, 1)),
    "polygamma": ((1, Y), {}, lambda: sum(1 / (Y + k) ** 2 for k in range(200000)) + 1 / (Y + 2e5)),
    "prelu": ((X, V[:1]), {}, lambda: np.where(X > 0, X, V[0] * X)),
    "prod": ((X, 1), {}, lambda: X.prod(1)),
    "put": (
        (X, np.array([1, 5]), V[:2]),
        {},
        lambda: assign(X.ravel(), [1, 5], V[:2]).reshape(3, 4),
    ),
    "quantile": ((X, 0.7, 1), {}, lambda: np.quantile(X, 0.7, 1)),
    "ravel": ((X,), {}, lambda: X.ravel()),
    "renorm": ((X, 2, 0, 0.1), {}, lambda: X * 0.1 / (np.linalg.norm(X, axis=1)[:, None] + 1e-7)),
    "repeat_interleave": ((X, 2, 1), {}, lambda: X.repeat(2, 1)),
    "rot90": ((X,), {}, lambda: np.rot90(X)),
    "rsub": ((X, Y), {"alpha": 2}, lambda: Y - 2 * X),
    "scatter": ((X, 1, PLACES[:2], Y), {}, lambda: _scattered(X, PLACES[:2], Y)),
    "scatter_add": (
        (X, 1, PLACES, Y),
        {},
        lambda: index_add(X, (np.arange(3)[:, None], PLACES), Y),
    ),
    "scatter_reduce": (
        (X, 1, PLACES, Y, "sum"),
        {},
        lambda: index_add(X, (np.arange(3)[:, None], PLACES), Y),
    ),
    "searchsorted": (
        (np.sort(V), X),
        {"right": True},
        lambda: np.searchsorted(np.sort(V), X, "right"),
    ),
    "select_copy": ((X, 0, 1), {}, lambda: X[1]),
    "select_scatter": ((X, V, 0, 1), {}, lambda: assign(X, 1, V)),
    "selu": (
        (X,),
        {},
        lambda: 1.0507009873554805 * np.where(X > 0, X, 1.6732632423543772 * np.expm1(X)),
    ),
    "slice_scatter": ((X, Y[:2], 0, 1), {}, lambda: assign(X, np.s_[1:], Y[:2])),
    "softmax": ((X, 1), {}, lambda: np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    "sort": ((X, 1), {}, lambda: (np.sort(X, 1), np.argsort(X, 1))),
    "split": ((X, 3, 1), {}, lambda: (X[:, :3], X[:, 3:])),
    "split_with_sizes_copy": ((X, [1, 3], 1), {}, lambda: (X[:, :1], X[:, 1:])),
    "squeeze_copy": ((X[:, :1], 1), {}, lambda: X[:, 0]),
    "std": ((X, 1), {}, lambda: X.std(1, ddof=1)),
    "std_mean": ((X, 1), {}, lambda: (X.std(1, ddof=1), X.mean(1))),
    "t": ((X,), {}, lambda: X.T),
    "t_copy": ((X,), {}, lambda: X.T),
    "take": ((X, PLACES), {}, lambda: X.take(PLACES)),
    "take_along_dim": ((X, PLACES, 1), {}, lambda: np.take_along_axis(X, PLACES, 1)),
    "tensor_split": ((X, 3, 1), {}, lambda: np.array_split(X, 3, 1)),
    "tensordot": ((A, B, ([1, 2], [2, 1])), {}, lambda: np.tensordot(A, B, ([1, 2], [2, 1]))),
    "tile": ((X, (2, 2)), {}, lambda: np.tile(X, (2, 2))),
    "trace": ((X,), {}, lambda: np.trace(X)),
    "transpose_copy": ((A, 0, 1), {}, lambda: A.swapaxes(0, 1)),
    "trapezoid": ((X, V), {}, lambda: np.trapezoid(X, V)),
    "tril_indices": ((3, 4), {}, lambda: np.stack(np.tril_indices(3, 0, 4))),
    "triu_indices": ((3, 4, 1), {}, lambda: np.stack(np.triu_indices(3, 1, 4))),
    "unbind_copy": ((X,), {}, lambda: tuple(X)),
    "unflatten": ((X, 1, (2, -1)), {}, lambda: X.reshape(3, 2, 2)),
    "unfold_copy": ((V, 0, 2, 1), {}, lambda: np.stack([V[:2], V[1:3], V[2:]])),
    "unique": ((N,), {"return_inverse": True}, lambda: np.unique(N, return_inverse=True)),
    "unique_consecutive": ((np.array([1, 1, 2, 2, 1]),), {}, lambda: np.array([1, 2, 1])),
    "unravel_index": ((PLACES, (2, 2)), {}, lambda: np.unravel_index(PLACES, (2, 2))),
    "unsafe_chunk": ((X, 2, 1), {}, lambda: (X[:, :2], X[:, 2:])),
    "unsafe_split": ((X, 2, 1), {}, lambda: (X[:, :2], X[:, 2:])),
    "unsqueeze_copy": ((X, 1), {}, lambda: X[:, None]),
    "var": ((X, 1), {"correction": 0}, lambda: X.var(1)),
    "var_mean": ((X,), {}, lambda: (X.var(ddof=1), X.mean())),
    "vdot": ((V, W), {}, lambda: np.vdot(V, W)),
    "view_copy": ((X, 4, 3), {}, lambda: X.reshape(4, 3)),
    "vsplit": ((X, [1]), {}, lambda: np.vsplit(X, [1])),
    "vstack": (([V, W],), {}, lambda: np.vstack([V, W])),
    "where": ((MASK, X, Y), {}, lambda: np.where(MASK, X, Y)),
    "zeros_like": ((X,), {}, lambda: np.zeros_like(X)),
}


def _scattered(x: Any, index: Any, source: Any) -> Any:
    out = x.copy()
    np.put_along_axis(out[:2], index, source[:2], 1)
    return out


def as_tensors(value: Any, requires_grad: bool = False) -> Any:
    """Arrays inside as Tensors; numbers, shapes and names stay."""
    if isinstance(value, np.ndarray):
        t = st.tensor(value)
        return t.requires_grad_(requires_grad and value.dtype == np.float64)
    if isinstance(value, (list, tuple)) and any(isinstance(v, np.ndarray) for v in value):
        return type(value)(as_tensors(v, requires_grad) for v in value)
    return st.tensor(value) if isinstance(value, np.generic) else value


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("name", CASES)
def test_function_is_numpys(name: str) -> None:
    args, kwargs, reference = CASES[name]
    ours = flat(getattr(st, name)(*as_tensors(args), **kwargs))
    theirs = flat(reference())
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        value = np.asarray(x.numpy() if isinstance(x, st.Tensor) else x)
        assert value.shape == np.shape(y)
        assert value.dtype.kind == np.asarray(y).dtype.kind
        assert np.allclose(value, y, 1e-9, 1e-9, equal_nan=True)


@pytest.mark.parametrize("name", [n for n in CASES if n in COMPOSITES and COMPOSITES[n].inplace])
def test_in_place_form_writes_the_tensor(name: str) -> None:
    args, kwargs, reference = CASES[name]
    x, *operands = as_tensors(args)
    expected = reference()
    assert getattr(x, f"{name}_")(*operands, **kwargs) is x
    assert np.allclose(x.numpy(), expected)


def test_aliases_are_the_same_function() -> None:
    for row in (*ROWS.values(), *COMPOSITES.values()):
        for alias in row.aliases:
            if row.function:
                assert getattr(st, alias) is getattr(st, row.name), alias
            if row.method:
                assert callable(getattr(st.Tensor, alias)), alias


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn"])
def test_sizes_as_numbers_or_sequence(name: str) -> None:
    make = getattr(st, name)
    assert make(2, 3).shape == make((2, 3)).shape == make([2, 3]).shape == (2, 3)
    assert make(()).shape == ()
    x = make(2, dtype=st.float64, requires_grad=True)
    assert x.requires_grad
    assert x.dtype == st.float64


@pytest.mark.parametrize("name", ["new_zeros", "new_ones", "new_empty"])
def test_new_tensors_have_this_ones_dtype(name: str) -> None:
    x = st.ones(1, dtype=st.float64)
    assert getattr(x, name)(2, 3).dtype == st.float64
    assert getattr(x, name)((2, 3), dtype=st.int64).dtype == st.int64
    assert x.new_full((2,), 3).tolist() == [3.0, 3.0]
    assert x.new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)


def test_likes_and_layouts() -> None:
    x = st.zeros(2, 3, dtype=st.float64)
    assert st.rand_like(x).dtype == st.randn_like(x).dtype == st.float64
    assert st.randint_like(x, 5).shape == (2, 3)
    assert st.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert st.empty_permuted((2, 3), (1, 0)).stride() == (1, 2)
    zeros = st.zeros(2, device="cpu", layout=st.strided)
    assert zeros.clone(memory_format=st.preserve_format).shape == (2,)
    formats = (st.contiguous_format, st.channels_last, st.channels_last_3d)
    assert all(isinstance(f, st.memory_format) for f in formats)
    assert isinstance(st.strided, st.layout)
    assert x[..., st.newaxis].shape == (2, 3, 1)
    assert st.zero_(st.ones(2)).tolist() == [0, 0]


def test_a_static_count_is_filled_up() -> None:
    x = st.tensor([0, 3, 0])
    assert x.nonzero_static(size=3, fill_value=-2).tolist() == [[1], [-2], [-2]]


def test_resize_as() -> None:
    x = st.arange(6)
    assert st.resize_as_(x, st.ones(2, 2)) is x
    assert x.tolist() == [[0, 1], [2, 3]]


def test_the_gradient_of_a_quantile_reaches_its_rank() -> None:
    x = st.tensor([1.0, 4.0, 2.0], dtype=st.float64)
    q = st.tensor([0.25, 0.75], dtype=st.float64, requires_grad=True)
    st.quantile(x, q).sum().backward()
    assert q.grad.tolist() == [2.0, 4.0]


def test_lazy_functions_return_the_tensor_itself() -> None:
    x = st.tensor([1 + 2j])
    assert st.resolve_conj(x) is x
    assert st.resolve_neg(x) is x


def test_numbers_that_do_not_fit_wrap_around() -> None:
    assert st.full_like(st.ones(1, dtype=st.uint8), -9).tolist() == [247]
    assert st.arange(-1, 2, dtype=st.uint8).tolist() == [255, 0, 1]


def test_the_size_of_a_range_is_counted_before_its_numbers_are_cut_off() -> None:
    assert st.arange(0, -4.5, -2, dtype=st.int32).tolist() == [0, -2, -4]
    assert st.arange(0, -4.5, -2, dtype=st.int64).tolist() == [0, -2]


def test_sums_of_float16_are_formed_in_float32() -> None:
    wide = random.uniform(-1, 1, (1, 8, 40, 40)).astype("float16")
    filters = random.uniform(-1, 1, (8, 8, 3, 3)).astype("float16")
    x, w = st.tensor(wide), st.tensor(filters)
    out = st.conv2d(x, w)
    assert out.dtype == st.float16
    exact = st.conv2d(x.double(), w.double()).numpy()
    assert np.allclose(out.numpy(), exact, rtol=6e-4, atol=1e-3)
    assert st.norm(st.full((70000,), 200.0, dtype=st.float16)).item() == np.float16(52915)
    mean = st.nn.functional.avg_pool2d(st.full((1, 1, 40, 40), 60.0, dtype=st.float16), 40)
    assert mean.item() == 60


def test_complex_logarithms_of_sums() -> None:
    z = X + 1j * Y
    expected = np.log(np.exp(z) + np.exp(z[::-1]))
    assert np.allclose(st.logaddexp(st.tensor(z), st.tensor(z[::-1].copy())).numpy(), expected)
    running = np.log(np.cumsum(np.exp(z), 1))
    assert np.allclose(np.exp(st.logcumsumexp(st.tensor(z), 1).numpy()), np.exp(running))
    t = st.tensor(z, requires_grad=True)
    assert st.autograd.gradcheck(lambda v: st.logcumsumexp(v, 1), (t,))
    assert st.autograd.gradcheck(lambda v: st.logaddexp(v, v.flip(0) * 2), (t,))


def test_complex_numbers_drawn_in_place() -> None:
    st.manual_seed(0)
    x = st.zeros(4000, dtype=st.complex64).normal_(0, 2)
    assert x.abs().square().mean().item() == pytest.approx(4, rel=0.1)
    y = st.zeros(400, dtype=st.complex64).uniform_(1, 2)
    assert 1 <= y.imag.min().item() < y.imag.max().item() <= 2


def test_numpys_functions_take_numbers_where_ops_take_tensors() -> None:
    x = st.tensor(X)
    with_numbers: Any = [
        (np.maximum(x, 0.5), np.maximum(X, 0.5)),
        (np.arctan2(1.0, x), np.arctan2(1.0, X)),
        (np.equal(X[0, 0], x), X[0, 0] == X),
        (np.power(x, 2), X**2),
        (np.ldexp(x, 2), X * 4),
    ]
    for ours, numpys in with_numbers:
        assert isinstance(ours, st.Tensor)
        assert np.allclose(ours.numpy(), numpys)


@pytest.mark.parametrize(("x", "y"), [(1, 2), (1.5, 2), (2, 1.5), (True, False), (0.5, True)])
def test_where_of_two_numbers(x: Any, y: Any) -> None:
    out = st.where(st.tensor([True, False]), x, y)
    assert out.tolist() == [x, y]
    assert out.dtype == st.result_type(st.tensor(x), st.tensor(y))


@pytest.mark.parametrize("name", ["add", "maximum", "matmul", "hstack"])
def test_an_output_that_cannot_be_written(name: str) -> None:
    x, one = st.ones(3, 3), st.zeros(1)
    args: Any = ((x, x),) if name == "hstack" else (x, x)
    shape = (3, 6) if name == "hstack" else (3, 3)
    with pytest.raises(RuntimeError, match=f"{name}: the memory cannot be written: shape"):
        getattr(st, name)(*args, out=one.expand(shape))
    assert one.tolist() == [0]
    out = st.zeros(shape).share(readonly=True)
    with pytest.raises(RuntimeError, match=f"{name}: .* read-only"):
        getattr(st, name)(*args, out=out)
    assert not out.any()
