"""Indices, masks and in-place writes at them, on CUDA beside the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st

X = np.arange(120.0).reshape(2, 3, 4, 5)
I, J = np.array([0, 1, 1]), np.array([[1], [0]])
MASK3 = np.array([True, False, True])
MASK34 = np.arange(12).reshape(3, 4) % 3 == 0

INDICES: dict[str, Any] = {
    "number": 1,
    "slices": (slice(None), slice(1, 3), Ellipsis, slice(None, None, 2)),
    "vector": (I,),
    "int32": (I.astype(np.int32),),
    "second": (slice(None), I),
    "apart": (slice(None), I, slice(None), I),
    "together": (slice(None), I, I),
    "broadcast": (slice(None), J, I),
    "number and vector": (0, slice(None), I),
    "new dimension": (None, slice(None), I),
    "negative": (slice(None), -I - 1),
    "empty": (slice(None), np.zeros(0, np.int64)),
    "mask": (slice(None), MASK3),
    "mask of two": (slice(None), MASK34),
    "mask and vector": (slice(None), MASK3, slice(1, 3), np.array([0, 1])),
    "mask of all": (X > 50,),
    "0-d": (np.asarray(1), slice(None), np.asarray(2)),
    "True": (True, 1),
    "list": ([0, 1], [0, 2]),
}


def on(device: str, value: Any) -> Any:
    """The value with arrays as tensors on a device."""
    if isinstance(value, np.ndarray):
        return st.tensor(value).to(device)
    if isinstance(value, tuple):
        return tuple(on(device, v) for v in value)
    return value


def compare(run: Callable[[str], Any]) -> None:
    """Checks values and dtypes of run(device) on both devices."""
    ours, expected = run("cuda"), run("cpu")
    for a, b in zip(ours, expected, strict=True):
        assert a.device.type == "cuda"
        np.testing.assert_array_equal(a.detach().cpu().numpy(), b.detach().numpy())
        assert a.dtype == b.dtype


@pytest.mark.parametrize("name", INDICES)
def test_reads_and_their_gradients(cp: Any, name: str) -> None:
    def run(device: str) -> Any:
        x = st.tensor(X).to(device).requires_grad_()
        out = x[on(device, INDICES[name])]
        (out * out).sum().backward()
        return out, x.grad

    compare(run)


@pytest.mark.parametrize("name", INDICES)
def test_writes_and_their_gradients(cp: Any, name: str) -> None:
    def run(device: str) -> Any:
        x, index = st.tensor(X).to(device), on(device, INDICES[name])
        number = x.clone()
        number[index] = 7
        source = (x[index] * 2).detach().requires_grad_()
        out = (x * 1).requires_grad_() * 1
        out[index] = source
        (out * out).sum().backward()
        gradient = source.grad
        if (
            device == "cpu"
        ):  # the last of several values has it; on a device all: Note [Kept values]
            gradient = 2 * out.detach()[index]
        return number, out, gradient

    compare(run)


def test_an_index_on_the_cpu_is_moved(cp: Any) -> None:
    x = st.tensor(X).to("cuda")
    assert st.equal(x[:, st.tensor(I)].cpu(), st.tensor(X)[:, st.tensor(I)])


REPEATED: list[tuple[Any, ...]] = [
    (..., np.array([1, 1])),
    (np.array([1, 1]), ...),
    (np.array([0, 0]), ..., np.array([1, 1])),
    (None, ..., np.array([0, 0])),
    (np.array([0, 0]),),
]


@pytest.mark.parametrize("index", REPEATED, ids=str)
@pytest.mark.parametrize("dtype", [st.complex64, st.float64, st.bfloat16])
def test_gradients_of_repeated_indices(cp: Any, index: tuple[Any, ...], dtype: Any) -> None:
    def gradient(device: str) -> Any:
        x = (st.arange(4.0).reshape(2, 2) + 1).to(dtype).to(device).requires_grad_()
        place = tuple(st.tensor(i).to(device) if isinstance(i, np.ndarray) else i for i in index)
        y = x[place]
        weights = (st.arange(float(y.numel())).reshape(y.shape) + 1).to(dtype).to(device)
        (y * weights * ((1 + 2j) if dtype is st.complex64 else 1)).abs().sum().backward()
        return x.grad.cpu()

    assert st.allclose(gradient("cuda"), gradient("cpu"))


@pytest.mark.parametrize("dtype", [st.int64, st.float32, st.bool])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unique_slices(cp: Any, dim: int, dtype: Any) -> None:
    x = st.tensor(np.random.default_rng(0).integers(0, 2, (2000, 3, 2))).to(dtype)
    ours = st.unique(x.cuda(), return_inverse=True, return_counts=True, dim=dim)
    expected = st.unique(x, return_inverse=True, return_counts=True, dim=dim)
    for a, b in zip(ours, expected, strict=True):
        assert (a.dtype, a.tolist()) == (b.dtype, b.tolist())


ROWS_AT, PLACES = np.array([2, 0]), np.array([[0, 2, 1, 1], [2, 0, 0, 2]])
M, S = np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(2, 4) + 20

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "index_select": lambda x, s, at, p: x.index_select(0, at),
    "index_add": lambda x, s, at, p: x.index_add(0, at, s, alpha=2),
    "index_copy": lambda x, s, at, p: x.index_copy(0, at, s),
    "index_fill": lambda x, s, at, p: x.index_fill(0, at, 3.5),
    "index_fill tensor": lambda x, s, at, p: x.index_fill(0, at, s[0, 0]),
    "gather": lambda x, s, at, p: x.gather(0, p),
    "take_along_dim": lambda x, s, at, p: st.take_along_dim(x, p, 0),
    "take": lambda x, s, at, p: x.take(p * 3),
    "put": lambda x, s, at, p: x.put(at * 2, s[0, :2]),
    "scatter": lambda x, s, at, p: x.scatter(1, at.unsqueeze(0), s[:1, :2]),
    "masked_fill": lambda x, s, at, p: x.masked_fill(x > 5, -1.0),
    "masked_fill 0-d": lambda x, s, at, p: x.masked_fill(x > 5, s[0, 1]),
    "masked_select": lambda x, s, at, p: x.masked_select(x > 5),
    "masked_scatter": lambda x, s, at, p: x.masked_scatter(x > 5, s),
    "where": lambda x, s, at, p: st.where(x > 5, x, 0.5),
    "repeat_interleave": lambda x, s, at, p: (
        x.repeat_interleave(at + 1, 0, output_size=None)
        if len(at) == len(x)
        else x[:2].repeat_interleave(at + 1, 0)
    ),
    "unfold": lambda x, s, at, p: x.unfold(1, 2, 1),
    "as_strided": lambda x, s, at, p: (x * 1).as_strided((2, 2), (4, 2), 1),
    "diagonal_scatter": lambda x, s, at, p: x.diagonal_scatter(s[0, :3]),
    "select_scatter": lambda x, s, at, p: x.select_scatter(s[0], 0, 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_their_gradients(cp: Any, name: str) -> None:
    def run(device: str) -> Any:
        x, s = (st.tensor(v).to(device).requires_grad_() for v in (M, S))
        out = FUNCTIONS[name](x, s, *(st.tensor(v).to(device) for v in (ROWS_AT, PLACES)))
        grads = st.autograd.grad((out * out).sum(), (x, s), allow_unused=True)
        return out, *(g for g in grads if g is not None)

    compare(run)


INPLACE: dict[str, Callable[..., Any]] = {
    "index_add_": lambda x, s, at: x.index_add_(0, at, s),
    "index_copy_": lambda x, s, at: x.index_copy_(0, at, s),
    "index_fill_": lambda x, s, at: x.index_fill_(0, at, 3.5),
    "index_put_": lambda x, s, at: x.index_put_((at,), s, accumulate=True),
    "masked_fill_": lambda x, s, at: x.masked_fill_(x > 5, -1),
    "masked_scatter_": lambda x, s, at: x.masked_scatter_(x > 5, s),
    "put_": lambda x, s, at: x.put_(at * 2, s[0, :2]),
    "scatter_": lambda x, s, at: x.scatter_(1, at.unsqueeze(0), s[:1, :2]),
    "diagonal": lambda x, s, at: x.diagonal().copy_(s[0, :3]),
    "a view": lambda x, s, at: x[:, 1:3].mul_(2),
}


@pytest.mark.parametrize("name", INPLACE)
def test_in_place_forms_write_the_tensor(cp: Any, name: str) -> None:
    def run(device: str) -> Any:
        x, s, at = (st.tensor(v).to(device) for v in (M, S, ROWS_AT))
        address = x.data_ptr()
        INPLACE[name](x, s, at)
        assert x.data_ptr() == address
        return (x,)

    compare(run)


WRITES: dict[str, Callable[..., Any]] = {
    "index_add": lambda x, at, s: x.index_add(0, at, s),
    "scatter_add": lambda x, at, s: x.scatter_add(0, at, s),
    "scatter_reduce": lambda x, at, s: x.scatter_reduce(0, at, s, "prod"),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_another_dtype_is_named_as_it_is(cp: Any, name: str, dtype: str) -> None:
    x = st.zeros(4, dtype=getattr(st, dtype), device="cuda")
    at, source = st.tensor([0, 1]).cuda(), st.zeros(2, device="cuda")
    match = f"^{name.rstrip('_')}: expected .* the same dtype: {dtype}, float32, "
    with pytest.raises(RuntimeError, match=match):
        WRITES[name](x, at, source)
    WRITES[name](x, at, source.to(x.dtype))


def test_nonzero(cp: Any) -> None:
    compare(lambda device: (st.tensor(MASK34).to(device).nonzero(),))
    compare(lambda device: st.tensor(MASK34).to(device).nonzero(as_tuple=True))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0,), (2, 0, 6)], ids=str)
def test_writes_to_nothing(cp: Any, shape: tuple[int, ...]) -> None:
    x = st.zeros(shape, device="cuda")
    for value in (1.0, st.zeros_like(x[..., ::2]), st.tensor(2.0), st.tensor(2.0, device="cuda")):
        x[..., ::2] = value
    x[..., ::2].copy_(x[..., 1::2])
    assert tuple(x.shape) == shape


def test_writes_to_expanded_memory_are_refused(cp: Any) -> None:
    x = st.zeros(1, 4, device="cuda").expand(3, 4)
    with pytest.raises(RuntimeError, match="expanded or read-only"):
        x[..., ::2] = 1.0
