"""Pointwise kernels have the values and dtypes of CuPy's ufuncs; fused rows those of the CPU."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import cupy_runtime

SIZES = (0, 1, 3, 255, 1024, 1027, 4099)
DTYPES = ("?", "b", "h", "i", "q", "B", "H", "I", "Q", "e", "f", "d", "F", "D")
UFUNCS = (
    "abs", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt",
    "ceil", "copysign", "cos", "cosh", "deg2rad", "equal", "exp", "exp2", "expm1", "fabs", "fix",
    "floor", "floor_divide", "fmax", "fmin", "fmod", "greater", "greater_equal", "heaviside",
    "hypot", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2",
    "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal", "power", "rad2deg",
    "reciprocal", "remainder", "rint", "sign", "signbit", "sin", "sinh", "sqrt", "square",
    "subtract", "tan", "tanh", "true_divide", "trunc",
)  # fmt: skip
EXACT = ("add", "multiply", "true_divide", "maximum", "greater", "negative", "absolute", "where")


@pytest.fixture
def xp(cp: Any) -> Any:
    cupy_runtime.initialize()
    st.ones(1, device="cuda")
    from shmtensor.ops.cuda.pointwise import pointwise

    return pointwise()


def numbers(n: int, dtype: str, seed: int = 0) -> Any:
    """Numbers around 0, with special values of floats."""
    values = np.random.default_rng(seed).normal(0, 3, n)
    if np.dtype(dtype).kind in "fc" and n > 8:
        values[:6] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40
    with np.errstate(all="ignore"):
        return np.abs(values).astype(dtype) if np.dtype(dtype).kind == "u" else values.astype(dtype)


def bits(array: Any) -> Any:
    """The bytes of an array; every NaN has the same ones."""
    values = array.get()
    if values.dtype.kind in "fc":
        values[np.isnan(values)] = np.nan
    return values.view(np.uint8)


def launched(function: Any) -> bool:
    """Whether the function has launched a kernel of its own."""
    return any(kernel is not None for kernel in function.kernels.values())


@pytest.mark.parametrize("name", UFUNCS)
def test_values_are_those_of_cupys_ufunc(cp: Any, xp: Any, name: str) -> None:
    ours, plain = getattr(xp, name), getattr(cp, name)
    operands = [cp.asarray(numbers(1027, "f", seed)) for seed in range(plain.nin)]
    result, expected = ours(*operands), plain(*operands)
    assert result.dtype == expected.dtype
    assert launched(ours)
    if name == "remainder":  # x - floor(x / y) * y, which a compiler may round once or twice
        error = np.abs(result.get() - expected.get()) / np.maximum(
            *np.abs(np.stack([x.get() for x in operands]))
        )
        assert np.nanmax(error) < 2.0**-22
        assert (np.isnan(result.get()) == np.isnan(expected.get())).all()
    else:
        assert (bits(result) == bits(expected)).all()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in EXACT for d in DTYPES if (n, d) != ("negative", "?")],  # not defined for bool
)
def test_every_dtype_has_cupys_result(cp: Any, xp: Any, name: str, dtype: str) -> None:
    ours, plain = getattr(xp, name), getattr(cp, name)
    x, y = (cp.asarray(numbers(67, dtype, seed)) for seed in (0, 1))
    operands = (x > 0, x, y) if name == "where" else (x,) if name in EXACT[5:7] else (x, y)
    result, expected = ours(*operands), plain(*operands)
    assert result.dtype == expected.dtype
    assert (bits(result) == bits(expected)).all()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["f", "e", "b", "d"])
def test_sizes_alignments_and_places(cp: Any, xp: Any, n: int, dtype: str) -> None:
    x, y = (cp.asarray(numbers(n + 1, dtype, seed)) for seed in (0, 1))
    for a, b in ((x[:n], y[:n]), (x[1:], y[1:]), (x[1:], y[:n])):
        expected = cp.multiply(a, b)
        assert (bits(xp.multiply(a, b)) == bits(expected)).all()
        out = a.copy()
        assert xp.multiply(out, b, out) is out
        assert (bits(out) == bits(expected)).all()
        out = cp.empty(n + 3, dtype)[3:]
        assert xp.multiply(a, b, out=out) is out
        assert (bits(out) == bits(expected)).all()


def test_an_overlap_is_computed_as_if_there_were_none(cp: Any, xp: Any) -> None:
    x = cp.arange(5000, dtype="f")
    y = x.copy()
    xp.add(x[:-1], 1.0, x[1:])
    assert (x[1:] == y[:-1] + 1).all()


@pytest.mark.parametrize("number", [2, 2.5, True, 1 + 2j, np.float64(2.5), np.int8(3), np.bool_(1)])
@pytest.mark.parametrize("dtype", ["b", "f", "e"])
def test_numbers_have_cupys_promotion(cp: Any, xp: Any, number: Any, dtype: str) -> None:
    x = cp.asarray(numbers(33, dtype))
    for name in ("multiply", "true_divide"):
        for operands in ((x, number), (number, x)):
            try:
                expected = getattr(cp, name)(*operands)
            except TypeError:
                with pytest.raises(TypeError):
                    getattr(xp, name)(*operands)
                continue
            result = getattr(xp, name)(*operands)
            assert result.dtype == expected.dtype, (name, operands)
            assert (bits(result) == bits(expected)).all(), (name, operands)


def test_a_number_beyond_the_dtype_is_cupys_error(cp: Any, xp: Any) -> None:
    with pytest.raises(OverflowError):
        xp.add(cp.ones(3, "u1"), 300)


def test_arrays_without_dimensions_and_expanded_ones(cp: Any, xp: Any) -> None:
    x = cp.asarray(numbers(100, "f")).reshape(10, 10)
    number = cp.asarray(3.0, "f")
    for operands in ((x, number), (number, x), (x, cp.broadcast_to(number, (10, 10)))):
        before = len(xp.subtract.kernels)
        assert (bits(xp.subtract(*operands)) == bits(cp.subtract(*operands))).all()
        assert len(xp.subtract.kernels) >= before
    assert xp.subtract(number, number).shape == ()


def test_other_operands_are_cupys(cp: Any, xp: Any) -> None:
    x, y = cp.ones((3, 4), "f"), cp.ones(4, "f")
    assert xp.add(x, y).shape == (3, 4)
    assert xp.add(x.T, x.T).flags.c_contiguous
    assert xp.add(x, x, dtype="d").dtype == np.float64
    assert xp.add(x, x, out=cp.empty((3, 4), "d")).dtype == np.float64
    with pytest.raises(TypeError):
        xp.add(x)
    with pytest.raises(ValueError):
        xp.add(x, cp.ones((2, 4), "f"))
    assert xp.add.reduce(y) == 4


def test_the_current_stream_is_used(cp: Any, xp: Any) -> None:
    x = cp.ones(1000, "f")
    cp.cuda.get_current_stream().synchronize()
    for _ in range(3):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            y = x
            for _ in range(20):
                y = xp.add(y, x)
            assert float(y[999]) == 21
        stream.synchronize()


def test_a_new_thread_has_a_context(cp: Any, xp: Any) -> None:
    x = cp.ones(1000, "f")
    cp.cuda.get_current_stream().synchronize()

    def run() -> None:
        xp.add(x, x, x)
        xp.add(x, x, x)
        cp.cuda.get_current_stream().synchronize()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert float(x[5]) == 4


def test_the_grid_covers_sizes_beyond_32_bits(cp: Any, xp: Any) -> None:
    x = cp.ones(3, "f")
    xp.add(x, x)
    kernel = next(iter(k for k in xp.add.kernels.values() if k is not None))
    for n in (1, 127, 128, 129, 2**31 - 1, 2**31 + 5, 2**33 + 1, 2**40):
        blocks, threads = kernel.grid(n)
        whole = blocks * threads * kernel.per_thread
        assert n <= whole < n + 256 * kernel.per_thread
        assert blocks < 2**31
        assert threads % 32 == 0


# ---- rows


def test_in_place_ops_write_without_a_copy(cp: Any) -> None:
    x = st.arange(1000.0, device="cuda")
    memory = x.data_ptr()
    x.add_(1).mul_(2).sub_(x / 2).clamp_(1, 500).neg_()
    assert x.data_ptr() == memory
    c = st.arange(1000.0)
    c.add_(1).mul_(2).sub_(c / 2).clamp_(1, 500).neg_()
    assert st.equal(x.cpu(), c)
    x.add_(st.ones(1000, dtype=st.float64, device="cuda"), alpha=2)
    assert x.dtype is st.float32
    assert st.equal(x.cpu(), c + 2)


@pytest.mark.parametrize("source", ["?", "q", "e", "f", "d"])
def test_casts_and_copies(cp: Any, xp: Any, source: str) -> None:
    from shmtensor.ops.cuda.pointwise_rows import cast_array, copy_array, write_array

    x = cp.asarray(np.random.default_rng(0).normal(0, 30, 1027).astype(source))
    assert (bits(copy_array(x)) == bits(x)).all()
    y = x.reshape(13, 79).T
    assert copy_array(y).strides == y.strides
    assert (copy_array(y) == y).all()
    for target in ("?", "i", "e", "f", "d"):
        expected = x.astype(target)
        assert (bits(cast_array(x, np.dtype(target))) == bits(expected)).all(), target
        assert (bits(write_array(x, cp.empty(1027, target))) == bits(expected)).all(), target
    with pytest.raises(ValueError, match="read-only"):
        write_array(x[:1], cp.broadcast_to(cp.zeros((), source), (5,)))


# Of each kind one: the op table has them all, in arrays that are shorter than a thread's pack.
FUSED = {
    "relu": lambda x, y: st.relu(x),
    "gelu": lambda x, y: st.nn.functional.gelu(x),
    "softplus": lambda x, y: st.nn.functional.softplus(x, 2.0, 3.0),
    "clamp": lambda x, y: st.clamp(x, -0.5, 0.5),
    "mul": lambda x, y: x * y,
    "where": lambda x, y: st.where(x > y, x, y),
    "mse_loss": lambda x, y: st.nn.functional.mse_loss(x, y),
    "bce_with_logits": lambda x, y: st.nn.functional.binary_cross_entropy_with_logits(x, y),
}


CASES = [(name, st.float32) for name in FUSED]
CASES += [(name, dtype) for name in ("relu", "gelu", "mul") for dtype in (st.float16, st.float64)]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_rows_and_gradients_are_the_cpus(cp: Any, name: str, dtype: Any) -> None:
    st.manual_seed(1)
    values = [st.randn(1027).to(dtype) for _ in range(2)]
    results = []
    for device in ("cpu", "cuda"):
        x, y = (v.detach().to(device).requires_grad_() for v in values)
        out = FUSED[name](x, y)
        weights = st.linspace(-1, 1, out.numel(), device=device).to(dtype).reshape(out.shape)
        (out * weights).sum().backward()
        results.append([v.cpu() for v in (out.detach(), x.grad, y.grad) if v is not None])
    tolerance = {st.float16: 2e-3, st.float32: 2e-6, st.float64: 1e-13}[dtype]
    for plain, ours in zip(*results, strict=True):
        assert ours.dtype is plain.dtype
        scale = max(float(plain.abs().max()), 1.0)
        assert float((ours.double() - plain.double()).abs().max()) <= tolerance * scale


def test_nan_and_negative_zero(cp: Any) -> None:
    values = [float("nan"), -0.0, 0.0, float("inf"), -float("inf"), 1.0] * 3
    for op in (st.relu, st.sigmoid, st.neg, st.sign, st.nn.functional.silu, st.abs):
        x = st.tensor(values)
        ours, plain = op(x.cuda()).cpu(), op(x)
        assert st.equal(ours.isnan(), plain.isnan())
        st.testing.assert_close(ours, plain, rtol=1e-6, atol=0, equal_nan=True)
        if op in (st.neg, st.abs):
            assert st.equal(ours.signbit(), plain.signbit())


def test_what_is_no_expression_is_computed_by_the_row(cp: Any) -> None:
    x = st.arange(12, device="cuda").reshape(3, 4)
    assert st.relu(x - 5).cpu().tolist() == (np.arange(12).reshape(3, 4) - 5).clip(0).tolist()
    y = st.ones(3, 4, device="cuda")
    assert (y.T * st.ones(3, device="cuda")).shape == (4, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda h: h * 65536.0,
        lambda h: 65536 * h,
        lambda h: h.clone().mul_(65536.0),
        lambda h: h / 1e6,
        lambda h: st.add(h, h, alpha=1e5),
        lambda h: 1e5 - h,
    ],
)
def test_numbers_beyond_float16(cp: Any, call: Any) -> None:
    """They are not rounded to float16: results that it has are not infinite."""
    h = st.tensor([1e-4, -3e-3, 0.0, 3e4], dtype=st.float16)
    plain, ours = call(h), call(h.cuda()).cpu()
    assert ours.dtype is plain.dtype
    np.testing.assert_allclose(ours.float().numpy(), plain.float().numpy(), 1e-3, 1e-7)


def test_the_gradient_of_relu_keeps_nan(cp: Any) -> None:
    for device in ("cpu", "cuda"):
        x = st.tensor([float("nan"), 1.0, -1.0, 0.0], device=device, requires_grad=True)
        st.relu(x).backward(st.tensor([1.0, 2.0, 3.0, 4.0], device=device))
        assert x.grad.tolist() == [1.0, 2.0, 0.0, 0.0]
