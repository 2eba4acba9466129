"""Small ops with a kernel: the same as NumPy's form, also where the kernel declines."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.ops.table.op_table import ROWS


def strided() -> list[np.ndarray]:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    return [x, x[:, ::2], x.transpose(2, 0, 1), x[0, 0, 0], x[:0], x.astype(np.int64)]


def test_flatten_shares_memory() -> None:
    x = st.zeros(2, 3)
    x.flatten()[4] = 7
    assert x[1, 1].item() == 7
    assert st.tensor(3.0).flatten().shape == (1,)


def test_views_have_numpys_strides() -> None:
    for x in strided()[:3]:
        t = st.from_numpy(x)
        assert t.unsqueeze(1).shape == x[:, None].shape
        assert t.unsqueeze(-1).squeeze(-1).array.strides == x.strides
        for offset in (-1, 0, 1):
            expected = x.diagonal(offset, 0, 1)
            view = t.diagonal(offset, 0, 1)
            assert view.array.strides == expected.strides
            assert np.array_equal(view.numpy(), expected)
        for dim in (0, 1, -1):
            parts = t.unbind(dim)
            assert [p.tolist() for p in parts] == np.moveaxis(x, dim, 0).tolist()


def test_views_know_their_parent() -> None:
    x = st.zeros(2, 3, requires_grad=True)
    y = x * 1
    y.flatten().add_(1)
    y.unsqueeze(0).mul_(2)
    y.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_readonly_stays() -> None:
    x = np.zeros((2, 2))
    x.flags.writeable = False
    for view in (native.flatten(x, 0, 1), native.squeeze(x, None), native.diagonal(x, 0, 0, 1)):
        assert view is not None
        assert not view.flags.writeable


def test_products_and_logarithms_of_sums() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 4, 5))
    for dim in (None, 0, 1, -1):
        assert np.allclose(st.tensor(x).prod(dim).numpy(), np.prod(x, dim))
    integers = rng.integers(-5, 5, (3, 4)).astype(np.int32)
    assert np.array_equal(st.tensor(integers).prod(1).numpy(), np.prod(integers, 1, np.int64))
    inf = np.inf
    rows = np.array([[1.0, 2, 3], [-inf, -inf, -inf], [inf, 0, 0], [-inf, 0, 1e4], [np.nan, 1, 2]])
    with np.errstate(all="ignore"):
        expected = np.log(np.exp(rows[:1]).sum(1)).tolist() + [-inf, inf, 1e4, np.nan]
    assert np.allclose(st.tensor(rows).logsumexp(1).numpy(), expected, equal_nan=True)


def test_factories_take_the_usual_spellings() -> None:
    assert st.arange(2, 9, 3).tolist() == [2, 5, 8]
    assert st.arange(3).dtype is st.int64
    assert st.arange(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert st.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert st.zeros(np.int64(2)).shape == (2,)
    with pytest.raises(RuntimeError, match="negative"):
        st.zeros(-1)
    with pytest.raises(RuntimeError, match="step"):
        st.arange(0, 5, 0)
    with pytest.raises(RuntimeError, match="away"):
        st.arange(5, 0)


def test_short_rand_draws_the_same_stream() -> None:
    st.manual_seed(5)
    x = [st.rand(5), st.randn(3), st.rand(2)]
    st.manual_seed(5)
    y = [st.rand(5, requires_grad=True), st.randn(3, dtype=st.float32), st.rand(2, device="cpu")]
    assert [v.tolist() for v in x] == [v.tolist() for v in y]


def test_factories_are_shared_memory() -> None:
    for x in (st.zeros(3), st.ones(3), st.empty(3), st.arange(3), st.rand(3)):
        assert x.is_shared()


def test_ranks_of_bmm_and_dot() -> None:
    with pytest.raises(RuntimeError, match="bmm"):
        st.bmm(st.ones(2, 3), st.ones(2, 3))
    with pytest.raises(RuntimeError, match="dot"):
        st.dot(st.ones(2, 3), st.ones(3))


def test_kernel_or_fallback_calls_the_kernel_first() -> None:
    function = native.KernelOrFallback(lambda x: x or None, lambda x: "fallback")
    assert function(3) == 3
    assert function(0) == "fallback"
    assert function.kernel(1) == 1
    assert function.fallback(1) == "fallback"


def test_powers_of_even_distances_are_products_of_few() -> None:
    n = 5001
    for base, start, end in ((10.0, 0.0, 1.0), (10.0, 3.5, -20.0), (2.0, -100, 100), (0.5, 0, 30)):
        got = st.logspace(start, end, n, base)
        want = np.asarray(base, np.float64) ** np.linspace(start, end, n)
        assert got.dtype == st.float32
        assert (np.abs(got.numpy() - want) <= np.spacing(want.astype(np.float32))).all()
    assert not np.isnan(
        st.logspace(-400, 400, n).numpy()
    ).any()  # 0 and infinity are not multiplied
    assert st.logspace(0, 2, n, -2.0).isnan().any()


def test_linspace_of_integers_is_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor.ops.creation import linspace as module

    monkeypatch.delattr(module, "linspace_float64")
    assert st.linspace(0, 10, 4, dtype=st.int64).tolist() == [0, 3, 6, 10]
    assert st.linspace(10, -2.5, 5, dtype=st.int32).tolist() == [10, 7, 4, 1, -2]
    assert st.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [st.float64, st.int64])
def test_index_reduce_takes_entire_slices(
    reduce: str, include_self: bool, dim: int, dtype: st.dtype
) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(1, 9, (5, 4)).astype(dtype)
    index = np.array([3, 0, 3, 2, 3])
    source = rng.integers(1, 9, (5, 4) if dim == 0 else (5, 5)).astype(dtype)
    got = st.tensor(x).index_reduce(
        dim, st.tensor(index), st.tensor(source), reduce, include_self=include_self
    )
    full = np.broadcast_to(index[:, None] if dim == 0 else index, source.shape).copy()
    want = ROWS["_scatter_reduce"].forward(np, x, source, full, dim % 2, reduce, include_self)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.numpy(), want)


def test_index_reduce_refuses_indices_outside() -> None:
    x = st.zeros(3, 2)
    for include_self in (True, False):
        with pytest.raises(IndexError, match="index is out of range: 3"):
            x.index_reduce(0, st.tensor([3]), st.ones(1, 2), "amax", include_self=include_self)
    assert x.tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.int64])
def test_sums_of_multiples(dtype: st.dtype) -> None:
    x, y = st.arange(6, dtype=dtype).reshape(2, 3), st.ones(3, dtype=dtype)
    assert x.add(y, alpha=2).tolist() == [[2, 3, 4], [5, 6, 7]]
    assert x.sub(y, alpha=2).tolist() == [[-2, -1, 0], [1, 2, 3]]
    assert st.add(x, 1, alpha=3).tolist() == [[3, 4, 5], [6, 7, 8]]
    z = x.clone()
    values = z.numpy()
    assert z.add_(x, alpha=3) is z
    assert z.sub_(y, alpha=1) is z
    assert values.tolist() == [[-1, 3, 7], [11, 15, 19]]


def test_sums_of_multiples_in_place_are_differentiable() -> None:
    x, y = st.ones(3, requires_grad=True), st.tensor([1.0, 2.0, 3.0], requires_grad=True)
    z = x * 2
    z.add_(y, alpha=0.5).sub_(y * y, alpha=2)
    z.sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    assert y.grad.tolist() == [0.5 - 4, 0.5 - 8, 0.5 - 12]
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(y, alpha=2)


def test_triangles_in_place_write_nothing_anew() -> None:
    x = st.arange(9.0).reshape(3, 3)
    values = x.numpy()
    assert x.tril_() is x
    assert x.triu_(-1) is x
    assert values.tolist() == [[0, 0, 0], [3, 4, 0], [0, 7, 8]]
    transposed = st.arange(4.0).reshape(2, 2).t()
    assert transposed.tril_().tolist() == [[0, 0], [1, 3]]
    y = st.ones(3, 3, requires_grad=True)
    (y * 2).tril_().sum().backward()
    assert y.grad.tolist() == [[2, 0, 0], [2, 2, 0], [2, 2, 2]]


def test_scatter_of_a_number_makes_no_array_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor.ops.index import gather_scatter as module

    monkeypatch.delattr(module, "crop_to_index")
    x, index = st.zeros(2, 3), st.tensor([[0, 2], [1, 1]])
    assert x.scatter(1, index, 2.0).tolist() == [[2, 0, 2], [0, 2, 0]]
    assert x.scatter(0, st.tensor([[1, 0, 1]]), 3.0).tolist() == [[0, 3, 0], [3, 0, 3]]
    assert x.scatter_(1, index, 5).tolist() == [[5, 0, 5], [0, 5, 0]]


def test_histc_counts_by_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ROWS["_histc"], "forward", None)
    x = st.tensor([0.0, 0.1, 0.5, 0.99, 1.0, 2.0, float("nan")])
    assert x.histc(2, 0, 1).tolist() == [2, 3]
    assert x[:-1].histc(4).tolist() == [2, 2, 1, 1]
    assert st.histc(st.zeros(2, 3).double(), 3, -1, 1).tolist() == [0, 6, 0]


def test_cross_is_one_pass_and_differentiable() -> None:
    x, y = st.randn(4, 3, dtype=st.float64), st.randn(3, dtype=st.float64)
    np.testing.assert_allclose(st.cross(x, y[None], -1).numpy(), np.cross(x.numpy(), y.numpy()))
    assert st.cross(st.tensor([1, 2, 3]), st.tensor([4, 5, 6]), 0).tolist() == [-3, 6, -3]
    x.requires_grad_()
    y.requires_grad_()
    assert st.autograd.gradcheck(lambda x, y: st.linalg.cross(x, y[None]), (x, y))
    z = st.randn(2, 3, dtype=st.complex128, requires_grad=True)
    assert st.autograd.gradcheck(lambda z: st.linalg.cross(z, z.flip(0)), (z,))


@pytest.mark.parametrize("dtype", [st.uint8, st.int8, st.int64])
def test_integers_are_clamped_in_place(dtype: st.dtype) -> None:
    x = st.tensor([0, 3, 100], dtype=dtype)
    values = x.numpy()
    assert x.clamp_(1, 50) is x
    assert values.tolist() == [1, 3, 50]
    assert x.clamp_(-(10**30), 10**30).tolist() == [1, 3, 50]  # as far as the dtype's limits
    assert x.clamp(min=4).tolist() == [4, 4, 50]
    assert x.clamp_(max=-1 if dtype != st.uint8 else 2).max() == (-1 if dtype != st.uint8 else 2)
