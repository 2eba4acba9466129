"""Sparse tensors on a GPU: what they give on the CPU, with gradients."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.sparse import SparseTensor
from shmtensor.testing import assert_close

RANDOM = np.random.default_rng(4)
PLACES = np.array([[0, 2, 0, 2, 1, 2], [1, 0, 1, 2, 3, 0]])  # two of them twice
VALUES = np.array([1.0, 2.0, 3.0, 4.0, -5.0, 0.5])
ROWS = RANDOM.standard_normal((6, 5))
DENSE = RANDOM.standard_normal((4, 7))
MASK = np.where(RANDOM.random((3, 4)) < 0.5, RANDOM.standard_normal((3, 4)), 0.0)
DTYPES = [st.float32, st.float64, st.float16, st.bfloat16, st.complex64, st.int64, st.int32]


def at_places(device: str, values: Any = VALUES, **kwargs: Any) -> Any:
    size = (3, 4, *np.shape(values)[1:])
    return st.sparse_coo_tensor(PLACES, st.tensor(values), size, device=device, **kwargs)


def dense_on(device: str, array: Any = DENSE) -> Any:
    return st.tensor(array, dtype=st.float64).to(device)


def flat(results: Any) -> Any:
    for x in results if isinstance(results, (list, tuple)) else [results]:
        if isinstance(x, (list, tuple)):
            yield from flat(x)
        elif isinstance(x, SparseTensor):
            assert x._indices().device == x._values().device == x.device
            yield from (x._indices(), x._values())
            yield (tuple(x.shape), x.is_coalesced(), x.dtype, x._nnz(), x.dense_dim())
        else:
            yield x


def same(ours: Any, expected: Any, tolerance: float = 1e-9) -> None:
    pairs = list(zip(flat(ours), flat(expected), strict=True))
    for x, y in pairs:
        if not isinstance(y, st.Tensor):
            assert x == y
            continue
        assert x.device == st.device("cuda:0")
        assert (x.dtype, x.shape, x.requires_grad) == (y.dtype, y.shape, y.requires_grad)
        if y.dtype == st.bfloat16:
            x, y = x.float(), y.float()
        x, y = x.detach().cpu().numpy(), y.detach().numpy()
        np.testing.assert_allclose(x, y, tolerance, tolerance)


CASES: dict[str, Callable[[str], Any]] = {}


def case(function: Callable[[str], Any]) -> Callable[[str], Any]:
    CASES[function.__name__] = function
    return function


# ---------------------------------------------------------------- creation and conversion


@case
def compressed(device: str) -> Any:
    x = dense_on(device, MASK).to_sparse_csr()
    y, z = x.to_sparse_csc(), at_places(device).to_sparse_csr()
    parts = [*x.parts().values(), *y.parts().values(), *z.parts().values()]
    parts = [part.long() if part.dtype != st.float64 else part for part in parts]
    right, left = dense_on(device), dense_on(device, DENSE[:3])
    again = st.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [3.0, 4.0, 5.0], (2, 2), device=device)
    products = x @ right, y @ right, y.t() @ left, (x + z).to_dense(), x * z, again.to_dense()
    return *parts, products


@case
def created_from_lists(device: str) -> Any:
    x = st.sparse_coo_tensor([[0, 5]], [1.0, 2.0], device=device)
    assert x.shape == (6,)
    return x, x.to_dense()


@case
def created_by_size(device: str) -> Any:
    x = st.sparse_coo_tensor((2, 3), device=device)
    return x, x.to_dense(), x.coalesce()


@case
def created_from_parts(device: str) -> Any:
    """The indices go where the values are."""
    values = st.tensor(VALUES).to(device)
    return [
        st.sparse_coo_tensor(st.tensor(PLACES), values, (3, 4)),
        st.sparse_coo_tensor(st.tensor(PLACES).to(device), values),
        st.sparse_coo_tensor(PLACES, values, dtype=st.float32, check_invariants=True),
    ]


@case
def created_by_the_default_device(device: str) -> Any:
    with st.device(device):
        return st.sparse_coo_tensor(PLACES, VALUES, (3, 4))


@case
def coalesced(device: str) -> Any:
    x = at_places(device)
    y = x.coalesce()
    assert y.coalesce() is y
    return y, y.indices(), y.values(), x.to_dense(), y.to_dense(), y.to_dense(st.float32)


@case
def coalesced_rows(device: str) -> Any:
    x = at_places(device, ROWS)
    return x, x.coalesce(), x.to_dense(), x.coalesce().to_dense()


@case
def three_dimensions(device: str) -> Any:
    places = np.stack([*PLACES, [1, 0, 1, 0, 1, 0]])
    x = st.sparse_coo_tensor(places, VALUES, (3, 4, 2), device=device)
    return x.coalesce(), x.to_dense(), x.transpose(0, 2), x.transpose(1, 2).coalesce()


@case
def one_dimension(device: str) -> Any:
    x = st.sparse_coo_tensor(PLACES[:1], VALUES, (3,), device=device)
    return x.coalesce(), x.to_dense()


@case
def no_sparse_dimension(device: str) -> Any:
    x = dense_on(device, 3.0).to_sparse()
    zero = dense_on(device, 0.0).to_sparse()
    return x, x.to_dense(), zero, zero.to_dense()


@case
def from_dense(device: str) -> Any:
    x = dense_on(device, MASK)
    rows = dense_on(device, [[0.0, 0.0], [1.0, 0.0]])
    return x.to_sparse(), x.to_sparse().to_dense(), rows.to_sparse(1), rows.to_sparse_coo()


@case
def moved(device: str) -> Any:
    x = at_places("cpu").to(device)
    y = x.to(device, st.float32)
    return (
        x,
        y,
        y.to(st.complex64),
        x.to(y),
        x.to(dtype=st.float16),
        at_places("cpu").to(device=x.device),
    )


@case
def copies(device: str) -> Any:
    x = at_places(device)
    y = copy.deepcopy(x)
    y._values().add_(1)
    z = x.clone()
    z._values().add_(2)
    return x, y, z, x.detach()


# ---------------------------------------------------------------- arithmetic


@case
def sums(device: str) -> Any:
    x, y = at_places(device), at_places(device, VALUES[::-1].copy()).t().t()
    return x + y, x - y, x + x + x, x.sum(), x + dense_on(device, np.ones((3, 4)))


@case
def products(device: str) -> Any:
    x, w = at_places(device), dense_on(device, np.arange(12.0).reshape(3, 4))
    return x * 2, 3 * x, x / 4, -x, x * w, w.sum() * x, x.norm(), x.norm(1)


@case
def in_place(device: str) -> Any:
    x = at_places(device)
    x *= 2
    x.div_(4)
    y = at_places(device).clamp_(-1, 3)
    return x, y, at_places(device).zero_(), at_places(device, ROWS).zero_().to_dense()


@case
def element_by_element(device: str) -> Any:
    x, y = at_places(device), at_places(device, VALUES[::-1].copy()).coalesce()
    row, dense = dense_on(device, DENSE[0, :4]), dense_on(device, MASK)
    z = x.clone().add_(y, alpha=3).mul_(row).sub_(x).div_(2).neg_()
    target = dense.clone()
    target.add_(x).sub_(y, alpha=2).mul_(y)
    masks = dense.sparse_mask(x), x.sparse_mask(y), at_places(device).zero_().sparse_mask(x)
    floor = st.div(x, 2, rounding_mode="floor")
    return x * y, x * row, st.mul(x, dense), st.sub(dense, x), z, target, masks, floor


@case
def matrix_products(device: str) -> Any:
    x, y = at_places(device), dense_on(device)
    return [
        x @ y,
        x.coalesce() @ y,
        st.sparse.mm(x.t(), dense_on(device, DENSE[:3])),
        x.mm(y[:, ::2]),
        x @ y[:, 0],
        st.sparse.addmm(dense_on(device, ROWS[:3]), x, y[:, :5], beta=2, alpha=-1),
        st.spmm(at_places(device).zero_(), y),
        x @ y[:, :0],
    ]


@case
def mixed_dtypes(device: str) -> Any:
    return at_places(device).to(st.float32) @ dense_on(device)


# ---------------------------------------------------------------- gradients


def slopes(outputs: list[Any], *leaves: Any) -> Any:
    loss = sum((out * out.detach().cos()).sum() for out in outputs)
    loss.backward()
    return [x.grad for x in leaves]


@case
def gradients_of_products(device: str) -> Any:
    results = []
    for is_coalesced in (False, True):
        x = at_places(device)
        x = (x.coalesce() if is_coalesced else x).requires_grad_()
        y = dense_on(device).requires_grad_()
        results += [x @ y, *slopes([x @ y, x @ y[:, 1]], x._values(), y), x.grad]
    return results


@case
def gradients_of_conversions(device: str) -> Any:
    x = at_places(device, requires_grad=True)
    y = dense_on(device, MASK).requires_grad_()
    rows = at_places(device, ROWS, requires_grad=True)
    outputs = [
        x.to_dense(),
        x.coalesce().to_dense(),
        y.to_sparse().to_dense(),
        y.to_sparse(1).values(),
    ]
    outputs += [rows.coalesce().values(), rows.to_dense(), (x * y).sum(), x.coalesce().norm()]
    return slopes(outputs, x._values(), y, rows._values())


@case
def gradients_of_elements(device: str) -> Any:
    x, y = at_places(device, requires_grad=True), dense_on(device, MASK).requires_grad_()
    z = x.mul(x).sub(y.sparse_mask(x), alpha=2).mul(y)
    return slopes([z.to_dense(), y.clone().add_(x)], x._values(), y)


@case
def backward_with_sparse_gradients(device: str) -> Any:
    x = dense_on(device, MASK).requires_grad_()
    x.backward(at_places(device))
    (x * 2).backward(at_places(device))
    return x.grad, st.autograd.grad(x, x, at_places(device))


@case
def gradients_of_moves(device: str) -> Any:
    x = at_places("cpu", requires_grad=True)
    (x.to(device).to_dense() ** 2).sum().backward()
    return x.grad.to(device)


@case
def second_gradients(device: str) -> Any:
    x, y = at_places(device, requires_grad=True), dense_on(device).requires_grad_()
    out = st.sparse.mm(x, y)
    first = st.autograd.grad((out**3).sum(), [x._values(), y], create_graph=True)
    return st.autograd.grad(sum((g.sin() * 2).sum() for g in first), [x._values(), y])


@case
def complex_gradients(device: str) -> Any:
    values = (VALUES + 1j * VALUES[::-1]).astype(np.complex128)
    x = at_places(device, values, requires_grad=True)
    y = st.tensor(DENSE * (1 - 2j)).to(device).requires_grad_()
    out = x @ y
    (out.real**2 + out.imag * 3).sum().backward()
    return out, x.coalesce(), x._values().grad, y.grad


@case
def embeddings(device: str) -> Any:
    results = []
    index = st.tensor([[1, 3, 1], [0, 2, 1]]).to(device)
    for padding_idx in (None, 1):
        layer = nn.Embedding(5, 4, padding_idx, sparse=True).double()
        layer.weight.data.copy_(st.arange(20.0).reshape(5, 4))
        layer = layer.to(device)
        layer(index).sin().sum().backward()
        assert layer.weight.grad.is_sparse
        results.append(layer.weight.grad)
        layer(index).sum().backward()
        results += [layer.weight.grad, layer.weight.grad.coalesce()]
        (layer.weight * 2).sum().backward()  # a dense one is added
        results.append(layer.weight.grad)
    return results


@case
def bags(device: str) -> Any:
    results = []
    index, offsets = (st.tensor(x).to(device) for x in ([1, 3, 1, 0, 2, 1], [0, 2, 5]))
    for mode in ("sum", "mean"):
        layer = nn.EmbeddingBag(5, 4, mode=mode, sparse=True).double()
        layer.weight.data.copy_(st.arange(20.0).reshape(5, 4))
        layer = layer.to(device)
        layer(index, offsets).sin().sum().backward()
        assert layer.weight.grad.is_sparse
        results += [layer.weight.grad, layer.weight.grad.to_dense()]
    return results


@case
def gathered(device: str) -> Any:
    x = dense_on(device).requires_grad_()
    index = st.tensor([[1, 3, 1], [0, 2, 1]]).to(device)
    st.gather(x, 1, index, sparse_grad=True).sin().sum().backward()
    y = dense_on(device, 2.0).requires_grad_()
    st.gather(y, 0, st.tensor(0).to(device), sparse_grad=True).sum().backward()
    return x.grad, y.grad, x.grad.coalesce()


@case
def clipped(device: str) -> Any:
    layer = nn.Embedding(5, 4, sparse=True).double()
    layer.weight.data.copy_(st.arange(20.0).reshape(5, 4))
    layer = layer.to(device)
    layer(st.tensor([1, 1, 2]).to(device)).exp().sum().backward()
    norm = nn.utils.clip_grad_norm_(layer.parameters(), 0.5)
    clipped_grad = layer.weight.grad
    clipped_grad = clipped_grad.clone()
    nn.utils.clip_grad_value_(layer.parameters(), 0.01)
    return norm, clipped_grad, layer.weight.grad


@case
def created_gradients(device: str) -> Any:
    """With create_graph the values have a history."""
    weight = dense_on(device).requires_grad_()
    rows = nn.functional.embedding(st.tensor([1, 1, 0]).to(device), weight, 0, sparse=True)
    (g,) = st.autograd.grad((rows**3).sum(), weight, create_graph=True)
    assert g.is_sparse
    return g, st.autograd.grad((g.to_dense() ** 2).sum(), weight)[0].to_dense()


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_gpu_gives_what_the_cpu_gives(cp: Any, name: str) -> None:
    same(CASES[name]("cuda"), CASES[name]("cpu"))


# ---------------------------------------------------------------- dtypes and sizes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(cp: Any, dtype: Any) -> None:
    def results(device: str) -> Any:
        x = at_places("cpu").to(dtype).to(device)
        y = st.tensor(np.arange(28).reshape(4, 7) % 5).to(dtype).to(device)
        return x.coalesce(), x.to_dense(), x + x, x @ y, x.coalesce() @ y, x.t() @ y[:3]

    tolerance = {st.float16: 2e-3, st.bfloat16: 2e-2}.get(dtype, 1e-6)
    same(results("cuda"), results("cpu"), tolerance)


@pytest.mark.parametrize(
    ("n", "m", "nnz", "k"), [(50, 40, 700, 33), (1, 300, 90, 1), (7, 9, 1, 130)]
)
def test_larger_matrices(cp: Any, n: int, m: int, nnz: int, k: int) -> None:
    random = np.random.default_rng(n)
    places = np.stack([random.integers(0, n, nnz), random.integers(0, m, nnz)])
    values, dense = random.standard_normal(nnz), random.standard_normal((m, k))

    def results(device: str) -> Any:
        x = st.sparse_coo_tensor(places, values, (n, m), device=device, requires_grad=True)
        y = dense_on(device, dense).requires_grad_()
        out = x @ y + x.coalesce() @ y
        (out.sin()).sum().backward()
        return out, x.coalesce(), x._values().grad, y.grad, x.t() @ out

    same(results("cuda"), results("cpu"))


def test_sums_of_coalesced_matrices_are_the_same_in_each_run(cp: Any) -> None:
    random = np.random.default_rng(0)
    places, values = random.integers(0, 5, (2, 400)), random.standard_normal(400).astype("f")
    x = st.sparse_coo_tensor(places, values, (5, 5), device="cuda")
    first = x.coalesce()
    y = st.tensor(random.standard_normal((5, 8)).astype("f")).cuda()
    for _ in range(3):
        again = x.coalesce()
        assert st.equal(again.values(), first.values())
        assert st.equal(again @ y, first @ y)


# ---------------------------------------------------------------- the device


def test_attributes(cp: Any) -> None:
    x = at_places("cuda")
    assert (x.is_cuda, x.is_cpu, x.get_device(), x.device) == (True, False, 0, st.device("cuda:0"))
    y = x.cpu()
    assert (y.is_cuda, y.is_cpu, y.get_device(), y.device) == (False, True, -1, st.device("cpu"))
    assert y.cuda().device == y.cuda(0).device == x.device
    assert st.equal(y.to_dense(), at_places("cpu").to_dense())


def test_another_device(two_devices: Any, cp: Any) -> None:
    x = at_places("cuda:1")
    assert x.coalesce().device == x._indices().device == st.device("cuda:1")
    y = dense_on("cuda:1").requires_grad_()
    (x @ y).sum().backward()
    assert (x @ y).device == y.grad.device == x.to_dense().device == st.device("cuda:1")
    sparse = x.to_dense().to_sparse()
    assert sparse.device == st.device("cuda:1")
    assert st.equal(sparse.to("cuda:0").cpu().to_dense(), at_places("cpu").to_dense())
    layer = nn.Embedding(5, 3, 0, sparse=True).to("cuda:1")
    layer(st.tensor([1, 0], device="cuda:1")).sum().backward()
    assert layer.weight.grad.device == layer.weight.device
    with pytest.raises(RuntimeError, match=r"cuda:1 .* and cuda:0"):
        x + at_places("cuda:0")


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y,
        lambda x, y: y - x,
        lambda x, y: x @ dense_on("cpu"),
        lambda x, y: y @ dense_on("cuda"),
        lambda x, y: x * dense_on("cpu", MASK),
        lambda x, y: x + dense_on("cpu", MASK),
        lambda x, y: st.sparse.addmm(dense_on("cpu", ROWS[:3]), x, dense_on("cuda")[:, :5]),
    ],
)
def test_operands_on_two_devices_are_an_error(cp: Any, call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"(cuda:0.*cpu|cpu.*cuda:0)"):
        call(at_places("cuda"), at_places("cpu"))


def test_wrong_use_is_an_error(cp: Any) -> None:
    x = at_places("cuda")
    with pytest.raises(RuntimeError, match="inner sizes differ"):
        x @ dense_on("cuda", ROWS)
    with pytest.raises(RuntimeError, match="uncoalesced"):
        x.indices()
    with pytest.raises(RuntimeError, match="same nnz"):
        st.sparse_coo_tensor([[0, 1]], st.ones(1).cuda())
    for check, size in ((True, (3,)), (None, (3, 2))):
        with pytest.raises(RuntimeError, match="inconsistent"):
            st.sparse_coo_tensor([[0, 5]], [1.0, 2.0], size, device="cuda", check_invariants=check)
    with pytest.raises(RuntimeError, match=r"too large: \(4294967296, 4294967296\)"):
        st.sparse_coo_tensor([[0], [0]], [1.0], (2**32, 2**32), device="cuda").coalesce()


def test_an_index_that_is_out_of_range_is_left_out(cp: Any) -> None:
    """As everywhere on a GPU it is not checked; a product must not write elsewhere for it."""
    x = st.sparse_coo_tensor([[0, 9], [1, 0]], [1.0, 2.0], (3, 4), device="cuda")
    y = st.ones(4, 2, device="cuda")
    assert (x @ y).tolist() == [[1, 1], [0, 0], [0, 0]]
    x = st.sparse_coo_tensor(
        [[0, 1], [1, -9]], [1.0, 2.0], (3, 4), device="cuda", requires_grad=True
    )
    y.requires_grad_()
    out = x @ y
    out.sum().backward()
    assert out.tolist() == [[1, 1], [0, 0], [0, 0]]
    assert x._values().grad.tolist() == [2, 0]
    assert y.grad.tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]


# ---------------------------------------------------------------- printing, files, pickles


def test_printed_with_its_device(cp: Any) -> None:
    lines = repr(at_places("cuda")).splitlines()
    expected = repr(at_places("cpu")).splitlines()
    assert lines[:-1] == expected[:-1]
    assert lines[-1] == expected[-1].replace("size=", "device='cuda:0', size=")


def test_pickled_and_saved(cp: Any) -> None:
    x = at_places("cuda", ROWS)
    again = pickle.loads(pickle.dumps(x))
    same(again, at_places("cpu", ROWS))
    file = io.BytesIO()
    st.save({"x": x, "coalesced": x.coalesce()}, file)
    for location, device in ((None, "cuda:0"), ("cpu", "cpu"), ({"cuda:0": "cpu"}, "cpu")):
        for weights_only in (True, False):
            file.seek(0)
            loaded = st.load(file, location, weights_only=weights_only)
            assert loaded["x"].device == loaded["coalesced"].device == st.device(device)
            assert loaded["coalesced"].is_coalesced()
            assert not loaded["x"].is_coalesced()
            same([y.cuda() for y in loaded.values()], [x.cpu(), x.cpu().coalesce()])
    file = io.BytesIO()
    st.save(x.cpu(), file)
    file.seek(0)
    same(st.load(file, "cuda"), x.cpu())


def test_compared_by_testing(cp: Any) -> None:
    x = at_places("cuda")
    assert_close(x, at_places("cuda"))
    with pytest.raises(AssertionError):
        assert_close(x, x * 2)


def test_is_shared(cp: Any) -> None:
    x = at_places("cuda")
    assert x.is_shared() == x._values().is_shared()
    assert x.share_memory_() is x
