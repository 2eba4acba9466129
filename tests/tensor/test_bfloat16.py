"""bfloat16 as a dtype of tensors: names, promotion, conversions, exchange, gradients, layers."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.native import bfloat16 as Scalar

bf16 = st.bfloat16


def rounded(x: Any) -> np.ndarray:
    """The values that bfloat16 has for float32 numbers, by adding half of the last place's unit."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    odd = bits >> 16 & 1
    return ((bits + 0x7FFF + odd) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def values(x: st.Tensor) -> np.ndarray:
    return x.detach().float().numpy()


def test_the_dtype() -> None:
    assert st.zeros(2, dtype=bf16).dtype is bf16
    assert (str(bf16), bf16.itemsize, bf16.name) == ("shmtensor.bfloat16", 2, "bfloat16")
    assert np.dtype(Scalar) is bf16.dtype
    for spelling in (bf16, "bfloat16", Scalar, pickle.loads(pickle.dumps(bf16))):
        assert st.ones(1, dtype=spelling).dtype is bf16
    x = st.ones(2, dtype=bf16)
    assert x.is_floating_point()
    assert not x.is_complex()
    assert x.element_size() == 2
    assert x.type() == "shmtensor.BFloat16Tensor"
    info = st.finfo(bf16)
    assert (info.bits, info.eps, info.tiny) == (16, 2.0**-7, 2.0**-126)
    assert info.max == -info.min == 3.3895313892515355e38
    assert info.dtype == "bfloat16"
    assert isinstance(x, st.BFloat16Tensor)
    assert st.BFloat16Tensor([1.5]).dtype is bf16


def test_the_default_dtype() -> None:
    st.set_default_dtype(bf16)
    try:
        for x in (
            st.ones(3),
            st.zeros(3),
            st.tensor([1.5]),
            st.rand(3),
            st.randn(3),
            st.full((3,), 2.0),
        ):
            assert x.dtype is bf16
        assert st.ones(3).tolist() == [1, 1, 1]
        assert (st.arange(3) / 2).dtype is bf16
        assert repr(st.ones(2)) == "tensor([1., 1.])"
    finally:
        st.set_default_dtype(st.float32)


def test_making() -> None:
    assert st.tensor([1.1, 2.0], dtype=bf16).tolist() == [1.1015625, 2.0]
    assert st.full((2,), 0.1, dtype=bf16).tolist() == [0.10009765625] * 2
    assert st.arange(5, dtype=bf16).tolist() == [0, 1, 2, 3, 4]
    assert st.linspace(0, 1, 5, dtype=bf16).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert st.eye(2, dtype=bf16).tolist() == [[1, 0], [0, 1]]
    assert st.empty(2, 3, dtype=bf16).shape == (2, 3)
    x = st.ones(3, dtype=bf16)
    for y in (
        st.zeros_like(x),
        st.ones_like(x),
        x.new_zeros(2),
        x.new_tensor([1.0]),
        st.rand_like(x),
    ):
        assert y.dtype is bf16
    assert st.tensor(3.7, dtype=bf16).item() == 3.703125
    assert st.tensor([[1.0, 2.0]], dtype=bf16)[0, 1].item() == 2


@pytest.mark.parametrize(
    ("other", "vector", "scalar"),
    [
        ("bool", "bfloat16", "bfloat16"),
        ("uint8", "bfloat16", "bfloat16"),
        ("int64", "bfloat16", "bfloat16"),
        ("float16", "float32", "bfloat16"),
        ("float32", "float32", "bfloat16"),
        ("float64", "float64", "bfloat16"),
        ("complex64", "complex64", "complex64"),
    ],
)
def test_promotion(other: str, vector: str, scalar: str) -> None:
    """By PyTorch's table: with a tensor that has dimensions, and with a 0-d one."""
    x, d = st.ones(2, dtype=bf16), getattr(st, other)
    assert (x + st.ones(2, dtype=d)).dtype is getattr(st, vector)
    assert (st.ones(2, dtype=d) + x).dtype is getattr(st, vector)
    assert (x + st.ones((), dtype=d)).dtype is getattr(st, scalar)
    assert st.promote_types(bf16, d) is getattr(st, vector)
    assert st.result_type(x, st.ones((), dtype=d)) is getattr(st, scalar)


def test_promotion_with_numbers() -> None:
    x = st.ones(2, dtype=bf16)
    for y in (x + 1, 1 + x, x * 2.5, 2.5 - x, x / 3, x**2, x + True):
        assert y.dtype is bf16
    assert (x + 1j).dtype is st.complex64
    assert st.can_cast(st.int64, bf16)
    assert not st.can_cast(bf16, st.int64)
    with pytest.raises(RuntimeError, match="can't be cast"):
        st.ones(2, dtype=st.int64).add_(x)


def test_conversions() -> None:
    x = st.tensor([1.1, -2.7, 300.0])
    y = x.bfloat16()
    assert y.dtype is bf16
    assert values(y).tolist() == rounded([1.1, -2.7, 300.0]).tolist()
    assert y.to(st.int64).tolist() == [1, -2, 300]
    assert y.half().dtype is st.float16
    assert x.half().bfloat16().dtype is bf16
    assert y.double().tolist() == y.tolist()
    assert st.tensor([0, 2, 0], dtype=bf16).bool().tolist() == [False, True, False]
    assert y.to(bf16) is y
    assert (
        y.view(st.int16).tolist()
        == values(y).view(np.uint32).__rshift__(16).astype(np.int16).tolist()
    )
    assert y.view(st.uint16).view(bf16).tolist() == y.tolist()
    assert st.ones(3, dtype=st.int64).to(y).dtype is bf16
    assert y.type_as(x).dtype is st.float32


def test_text() -> None:
    assert repr(st.tensor([1.0, 2.0], dtype=bf16)) == "tensor([1., 2.], dtype=shmtensor.bfloat16)"
    x = st.tensor([1.5, -2.25, float("nan")], dtype=bf16)
    assert repr(x) == "tensor([ 1.5000, -2.2500,     nan], dtype=shmtensor.bfloat16)"
    assert repr(st.zeros(0, dtype=bf16)) == "tensor([], dtype=shmtensor.bfloat16)"


def test_numpy_has_no_bfloat16() -> None:
    x = st.tensor([1.5, 2.5], dtype=bf16)
    assert not hasattr(x, "__array_interface__")
    for export in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"unsupported ScalarType BFloat16.*float\(\)"):
            export()
    assert np.asarray(x, dtype=np.float32).tolist() == [1.5, 2.5]
    bits = x.view(st.uint16).numpy()
    bits[0] = 0
    assert x.tolist() == [0, 2.5]
    assert (np.float32(2) * x).dtype is bf16
    assert np.exp(x).dtype is bf16


def test_arrays_of_the_dtype_come_in() -> None:
    array = np.array([1.0, 2.0], bf16)
    x = st.from_numpy(array)
    x += 1
    assert array.tolist() == [2, 3]
    loaded = pickle.loads(pickle.dumps(array))
    assert st.from_numpy(loaded).dtype is bf16


def test_copies_and_files() -> None:
    x = st.tensor([1.5, 2.5], dtype=bf16, requires_grad=True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert y.dtype is bf16
        assert y.tolist() == x.tolist()
    file = io.BytesIO()
    st.save({"x": x.detach(), "dtype": bf16}, file)
    file.seek(0)
    loaded = st.load(file)
    assert loaded["x"].dtype is bf16
    assert loaded["x"].tolist() == [1.5, 2.5]
    assert loaded["dtype"] == bf16


def test_dlpack_round_trips() -> None:
    x = st.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=bf16)
    y = st.from_dlpack(x.T)
    y[0, 1] = 7
    assert x.tolist() == [[1, 2], [7, 4]]
    assert y.dtype is bf16
    with pytest.raises(BufferError):
        st.from_dlpack(st.ones(2, dtype=bf16, requires_grad=True))


def test_views_share_and_writes_count() -> None:
    x = st.arange(12, dtype=bf16).reshape(3, 4)
    x[1] = 0.1
    x[:, 2] += 1
    x.t()[0] *= 2
    want = np.arange(12, dtype=np.float32).reshape(3, 4)
    want[1] = rounded(0.1)
    want[:, 2] = rounded(want[:, 2] + 1)
    want[:, 0] = rounded(want[:, 0] * 2)
    assert values(x).tolist() == want.tolist()
    assert x._version > 0
    part = x[0]
    part.exp_().mul_(0.5)
    assert values(x[0]).tolist() == rounded(rounded(np.exp(want[0])) * 0.5).tolist()
    out = st.empty(3, 4, dtype=bf16)
    assert st.add(x, 1, out=out) is out
    assert values(out).tolist() == rounded(values(x) + 1).tolist()
    with pytest.raises(RuntimeError, match="cannot be written"):
        st.ones(1, dtype=bf16).expand(3).add_(1)
    for piece in st.arange(4, dtype=bf16).split(2):
        piece.zero_()
    integers = st.arange(4, dtype=bf16)
    integers.chunk(2)[0].fill_(9)
    assert integers.tolist() == [9, 9, 2, 3]
    assert next(iter(integers.unbind())).fill_(5).item() == integers[0].item() == 5


def test_random_numbers() -> None:
    st.manual_seed(3)
    u = st.rand(20_000, dtype=bf16)
    assert u.dtype is bf16
    assert float(u.max()) < 1
    assert float(u.min()) >= 0
    assert abs(float(u.float().mean()) - 0.5) < 0.02
    z = st.randn(20_000, dtype=bf16)
    assert abs(float(z.float().std()) - 1) < 0.03
    for low, high in ((-2.0, -1.0), (-1.0, 0.0), (3.0, 7.0)):
        x = st.empty(5_000, dtype=bf16).uniform_(low, high)
        assert low <= float(x.min()) <= float(x.max()) < high
    assert st.empty(1_000, dtype=bf16).normal_(5, 0.1).float().mean().item() == pytest.approx(
        5, abs=0.05
    )
    dropped = st.nn.functional.dropout(st.ones(1_000, dtype=bf16), 0.5)
    assert set(dropped.tolist()) == {0.0, 2.0}
    st.manual_seed(3)
    assert st.rand(20_000, dtype=bf16).tolist() == u.tolist()


def test_gradients_are_of_the_dtype() -> None:
    x = st.tensor([1.0, 2.0, 3.0], dtype=bf16, requires_grad=True)
    y = (x * x).exp().log() + x
    y.sum().backward()
    assert x.grad.dtype is bf16
    assert x.grad.tolist() == [3, 5, 7]
    (x * 2).sum().backward()
    assert x.grad.tolist() == [5, 7, 9]
    w = st.tensor([1.0, 1.0, 1.0], requires_grad=True)
    (x * w).sum().backward()
    assert w.grad.dtype is st.float32
    assert x.grad.dtype is bf16
    (g,) = st.autograd.grad((x**3).sum(), x, create_graph=True)
    (gg,) = st.autograd.grad(g.sum(), x)
    assert gg.dtype is bf16
    assert gg.tolist() == [6, 12, 18]
    many = sum((x * k for k in range(300)), st.zeros(3, dtype=bf16))
    assert many.dtype is bf16
    a = st.randn(4, 5, dtype=bf16, requires_grad=True)
    b = st.randn(5, dtype=bf16, requires_grad=True)
    ((a + b)[1:3].reshape(-1).relu() @ st.ones(10, dtype=bf16)).backward()
    assert (a.grad.dtype, b.grad.dtype, b.grad.shape) == (bf16, bf16, (5,))


@pytest.mark.parametrize("dtype", [st.bfloat16, st.float16])
def test_sums_do_not_stop_growing(dtype: np.dtype) -> None:
    """In 16 bits a sum of ones would stop at 256 (bfloat16) or 2048 (float16)."""
    ones = st.ones(30, 1000, dtype=dtype)
    assert ones.sum().item() == st.tensor(30_000.0).to(dtype).item()
    assert ones.sum(0).tolist() == [30] * 1000
    assert ones.mean().item() == 1
    assert ones.cumsum(1)[0, -1].item() == 1000
    assert (ones @ ones.T)[3, 4].item() == 1000
    assert ones.norm().item() == pytest.approx(173.2, rel=4e-3)
    assert st.nn.functional.avg_pool1d(ones, 1000).tolist() == [[1.0]] * 30


def test_neighbours_and_limits() -> None:
    one, two = st.ones((), dtype=bf16), st.full((), 2.0, dtype=bf16)
    assert st.nextafter(one, two).item() == 1 + 2**-7
    assert st.nextafter(one, -two).item() == 1 - 2**-8
    zero = st.zeros((), dtype=bf16)
    assert st.nextafter(zero, -one).item() == -(2.0**-133)
    assert st.nextafter(one, one).item() == 1
    assert st.isnan(st.nextafter(one, one * float("nan"))).item()
    x = st.tensor([float("inf"), -float("inf"), float("nan")], dtype=bf16)
    limit = st.finfo(bf16).max
    assert x.nan_to_num().tolist() == [limit, -limit, 0]
    assert x.nan_to_num(1, 2, 3).tolist() == [2, 3, 1]
    assert st.full((), float("nan"), dtype=bf16).nan_to_num().item() == 0


def test_linear_algebra_wants_more_bits() -> None:
    for dtype in (bf16, st.float16):
        with pytest.raises(RuntimeError, match="32 bits"):
            st.inverse(st.eye(2, dtype=dtype))


@pytest.mark.parametrize("dtype", [st.bfloat16, st.float16])
def test_a_model_learns(dtype: np.dtype) -> None:
    st.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)).to(dtype)
    assert {p.dtype for p in model.parameters()} == {dtype}
    x, y = st.randn(32, 8, dtype=dtype), st.arange(32) % 3
    adam = st.optim.Adam(model.parameters(), lr=0.01, eps=1e-4)
    losses = []
    for _ in range(60):
        adam.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert loss.dtype is dtype
    assert losses[-1] < 0.4 * losses[0]
    assert {p.grad.dtype for p in model.parameters()} == {dtype}
    for entry in adam.state_dict()["state"].values():
        assert entry["exp_avg"].dtype is dtype
    image, f = st.randn(2, 1, 8, 8, dtype=dtype), nn.functional
    filters = st.randn(2, 1, 3, 3, dtype=dtype, requires_grad=True)
    running = st.zeros(2), st.ones(2)
    out = f.max_pool2d(f.batch_norm(f.conv2d(image, filters), *running, training=True).relu(), 2)
    out.sum().backward()
    assert out.dtype is filters.grad.dtype is dtype
    assert model.bfloat16()[0].weight.dtype is bf16


@pytest.mark.parametrize("dtype", [st.bfloat16, st.float16])
def test_an_sgd_step_is_rounded_once(dtype: np.dtype) -> None:
    start = np.linspace(0.5, 1.5, 9).astype(np.float32)
    p = nn.Parameter(st.tensor(start).to(dtype))
    p.grad = st.full((9,), 0.3, dtype=dtype)
    before, g = values(p), values(p.grad)
    st.optim.SGD([p], lr=0.1).step()
    want = st.tensor(before - np.float32(0.1) * g).to(dtype)
    assert p.tolist() == want.tolist()


@pytest.mark.torch
def test_with_torch() -> None:
    import torch

    theirs = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T
    ours = st.from_dlpack(theirs)
    ours[0, 0] = 9
    assert theirs[0, 0] == 9
    assert ours.stride() == theirs.stride()
    imported = torch.from_dlpack(ours)
    assert imported.dtype is torch.bfloat16
    assert imported.data_ptr() == theirs.data_ptr()
    file = io.BytesIO()
    torch.save({"x": theirs}, file)
    file.seek(0)
    x = st.load(file)["x"]
    assert (x.dtype, x.tolist()) == (bf16, theirs.tolist())
    file = io.BytesIO()
    st.save({"x": x}, file)
    file.seek(0)
    assert torch.load(file)["x"].equal(theirs)
    for name in ("uint8", "int64", "float16", "float32", "complex64"):
        d, t = getattr(st, name), getattr(torch, name)
        assert st.promote_types(bf16, d).name == str(torch.promote_types(torch.bfloat16, t))[6:]
