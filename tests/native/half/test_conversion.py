"""The conversions of 16-bit floats, bit by bit, against integer arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

import shmtensor as st
from shmtensor import native

from ..cases import each

PATTERNS = np.arange(65536, dtype=np.uint32).astype(np.uint16)


def rounded(x: np.ndarray) -> np.ndarray:
    """float32 to the bits of bfloat16, to nearest even, by the distance to both neighbours."""
    bits = x.view(np.uint32).astype(np.uint64)
    low, remainder = bits >> 16, bits & 0xFFFF
    up = (remainder > 0x8000) | ((remainder == 0x8000) & (low % 2 == 1))
    return (low + up).astype(np.uint16)


def test_every_bfloat16_is_a_float32() -> None:
    wide = native.recast(PATTERNS.view(st.bfloat16), st.float32)
    assert (wide.view(np.uint32) == PATTERNS.astype(np.uint32) << 16).all()


def test_float32_is_rounded_to_even() -> None:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**32, 200_003, dtype=np.uint64).astype(np.uint32)
    ties = (rng.integers(0, 2**16, 5_000).astype(np.uint32) << 16) | 0x8000
    edges = np.array([0, 1, 0x7F7FFFFF, 0x7F800000, 0x80000001, 0xFF800000], np.uint32)
    x = np.concatenate([bits, ties, ties - 1, ties + 1, edges]).view(np.float32)
    x = x[~np.isnan(x)]
    out = native.recast(x, st.bfloat16)
    assert (out.view(np.uint16) == rounded(x)).all()


def test_nan_stays() -> None:
    x = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0x7FC00000], np.uint32).view(np.float32)
    for dtype in (st.bfloat16, st.float16):
        restored = native.recast(native.recast(x, dtype), st.float32)
        assert np.isnan(restored).all()
        assert (np.signbit(restored) == np.signbit(x)).all()


def test_float16_is_numpys() -> None:
    half = PATTERNS.view(np.float16)
    with np.errstate(all="ignore"):
        wide = half.astype(np.float32)
    got = native.recast(half, st.float32)
    number = ~np.isnan(wide)
    assert np.isnan(got[~number]).all()
    assert (got[number].view(np.uint32) == wide[number].view(np.uint32)).all()
    rng = np.random.default_rng(6)
    x = rng.integers(0, 2**32, 200_003, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([x[~np.isnan(x)], rng.standard_normal(5_001).astype(np.float32) * 1e-6])
    with np.errstate(all="ignore"):
        want = x.astype(np.float16)
    assert (native.recast(x, st.float16).view(np.uint16) == want.view(np.uint16)).all()


@each("dtype", [st.bfloat16, st.float16])
@each("n", [0, 1, 7, 8, 15, 16, 17, 33, 70_001])
def test_any_length(dtype: np.dtype, n: int) -> None:
    x = np.linspace(-3, 3, n, dtype=np.float32)
    half = native.recast(x, dtype)
    assert half.dtype == dtype
    assert (native.recast(half, st.float32) == half.astype(np.float32)).all()
    assert np.abs(half.astype(np.float32) - x).max(initial=0) <= 2**-8 * 3


@each("dtype", [st.bfloat16, st.float16])
def test_any_layout(dtype: np.dtype) -> None:
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    for view in (x.T, x[:, ::2], x[::-1], np.broadcast_to(x[0], (2, 4, 5)), x[1, 2, 3, ...]):
        half = native.recast(np.asarray(view), dtype)
        assert (half.astype(np.float32) == view).all()
        wide = native.recast(np.asarray(half.T), st.float32)
        assert (wide == view.T).all()
    assert native.recast(np.asfortranarray(x), dtype).flags.f_contiguous
    out = np.zeros((5, 4, 3), dtype)
    native.recast(x, out.T)
    assert (out.T.astype(np.float32) == x).all()


NUMBERS = np.array([-300.7, -1.0, -0.0, 0.0, 0.3, 1.0, 2.5, 255.0, 70_000.0])


@each(
    "other", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
              "float16", "float32", "float64", "longdouble", "complex64", "complex128"],
)  # fmt: skip
def test_every_dtype_round_trips(other: str) -> None:
    values = NUMBERS
    if other[0] in "iu" or other == "bool":
        info = np.iinfo("uint8" if other == "bool" else other)
        values = values[(values > info.min - 1) & (values <= info.max)]
    with np.errstate(over="ignore"):
        x = values.astype(other)
        single = x.real.astype(np.float32)
    half = x.astype(st.bfloat16) if x.dtype.kind != "c" else x.real.astype(st.bfloat16)
    assert (half.view(np.uint16) == rounded(single)).all()
    assert (half.astype(other) == native.recast(half, st.float32).astype(other)).all()


def test_numpy_keeps_the_two_apart() -> None:
    assert st.bfloat16 != st.float16
    assert not np.can_cast(st.bfloat16, st.float16)
    x = np.array([1.5, 3e38, 2.0], st.bfloat16)
    assert (x * np.float32(1)).dtype == np.float32
    assert np.add(x[:1], x[:1]).dtype == np.float32  # never float16, which cannot hold 3e38
    assert np.add.reduce(x[:1]).dtype == np.float32
    assert np.sort(x).tolist()[0] == 1.5
    assert (x.argmax(), x.argmin(), np.nonzero(x)[0].tolist()) == (1, 0, [0, 1, 2])
    assert x[0] == 1.5
    assert repr(x[0]) == "1.5"
    assert hash(x[0]) == hash(1.5)
    assert int(x[2]) == 2


ARITHMETIC: list[Callable[[st.Tensor, st.Tensor], st.Tensor]] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.gt,
    lambda a, b: a - 0.3, lambda a, b: 1 - a, lambda a, b: 2 / a, lambda a, b: a / 0,
    lambda a, b: a == 1, lambda a, b: a.exp(), lambda a, b: a.relu(),
]  # fmt: skip


@each("dtype", ["bfloat16", "float16"])
def test_arithmetic_is_that_of_float32_rounded_once(dtype: str) -> None:
    """In tiles of any length, with scalar operands, and in place."""
    kind, rng = getattr(st, dtype), np.random.default_rng(7)
    for n in (0, 1, 33, 2049, 70_001):
        x, y = (st.tensor(rng.normal(size=n).astype("f4")).to(kind) for _ in range(2))
        wide, other = x.float(), y.float()
        for f in ARITHMETIC:
            got, want = f(x, y), f(wide, other)
            assert got.dtype == (kind if want.dtype == st.float32 else st.bool)
            assert got.float().numpy().tobytes() == want.to(got.dtype).float().numpy().tobytes()
        z = x.clone()
        z += y
        z.mul_(z)
        z.relu_()
        want = (wide + other).to(kind).float()
        assert st.equal(z, (want * want).to(kind))
    x = st.ones(40, dtype=kind)
    x[1:].add_(x[:-1])  # input and output are the same memory
    assert x.sum().item() == 79


@each("dtype", ["bfloat16", "float16"])
def test_sums_are_those_of_float32_rounded_once(dtype: str) -> None:
    kind, rng = getattr(st, dtype), np.random.default_rng(8)
    for shape, dim in [
        ((), None), ((1,), 0), ((70_001,), None), ((5, 70_001), 1), ((2000, 10), 1), ((30, 700), 1),
        ((700, 30), 0), ((3000, 9), 0), ((2, 3000), 0), ((5, 600, 40), 1), ((20, 30, 40), (0, 2)),
        ((3, 4, 5), (0, 1, 2)), ((40, 5000), 0), ((0, 3), 0), ((3, 0), 1),
    ]:  # fmt: skip
        x = st.tensor(rng.integers(-4, 5, shape).astype("f4")).to(kind)
        transposed = x.transpose(0, -1) if x.ndim else x
        for y in (x, transposed):
            for keep in (False, True):
                want = y.float().sum(dim, keep)  # whole numbers: exact in any order
                got = y.sum(dim, keep)
                assert got.dtype == kind
                assert got.shape == want.shape
                assert st.equal(got, want.to(kind)), (shape, dim)


@each("dtype", ["bfloat16", "float16"])
def test_nan_and_infinities_stay_through_arithmetic(dtype: str) -> None:
    kind = getattr(st, dtype)
    x = st.tensor([np.nan, np.inf, -np.inf, 3e38, -0.0, 1.0] * 9).to(kind)
    y = st.tensor([1.0, -np.inf, 0.0, 3e38, 0.0, np.nan] * 9).to(kind)
    for f in ARITHMETIC:
        got, want = f(x, y).float().numpy(), f(x.float(), y.float()).to(kind).float().numpy()
        np.testing.assert_array_equal(got, want)
        assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@each("dtype", ["bfloat16", "float16"])
def test_sums_lose_no_more_than_the_last_rounding(dtype: str) -> None:
    kind, rng = getattr(st, dtype), np.random.default_rng(11)
    x = st.tensor(rng.uniform(0, 0.02, (1500, 1700)).astype("f4")).to(kind)
    exact = x.double()
    for dim in (None, 0, 1):
        want = exact.sum(dim).to(kind).double()
        assert ((x.sum(dim).double() - want).abs() <= want * 2.0**-7).all()
        assert (x.sum(dim).double() == want).double().mean() > 0.95


@each("dtype", ["bfloat16", "float16"])
def test_numbers_replace_nan_and_infinities(dtype: str) -> None:
    kind = getattr(st, dtype)
    x = st.tensor([np.nan, np.inf, -np.inf, 1.5, -0.0]).to(kind)
    limits = st.finfo(kind)
    assert st.nan_to_num(x).tolist() == [0.0, limits.max, limits.min, 1.5, 0.0]
    assert st.nan_to_num(x[::2], 1.0, 2.0, 3.0).tolist() == [1.0, 3.0, 0.0]
    transposed = x.expand(4, 5).T
    assert st.nan_to_num(transposed).tolist() == st.nan_to_num(transposed.contiguous()).tolist()
    assert st.nan_to_num(x[:0]).dtype == kind
    assert st.nan_to_num(x[0]).item() == 0.0
    out = st.empty(5, dtype=kind)
    assert st.nan_to_num(x, posinf=7.0, out=out) is out
    assert out[1].item() == 7.0
    x.nan_to_num_(nan=2.0)
    assert x[0].item() == 2.0


F = st.nn.functional
ONE = {
    "sqrt": st.sqrt,
    "rsqrt": st.rsqrt,
    "reciprocal": st.reciprocal,
    "square": st.square,
    "floor": st.floor,
    "ceil": st.ceil,
    "trunc": st.trunc,
    "round": st.round,
    "round to tenths": lambda x: st.round(x, decimals=1),
    "frac": st.frac,
    "sign": st.sign,
    "clamp": lambda x: x.clamp(-0.3, 70),
    "clamp below": lambda x: x.clamp(min=-0.3),
    "power 2": lambda x: x**2,
    "power 0.5": lambda x: x**0.5,
    "power -1": lambda x: x**-1,
    "power 1.5": lambda x: x**1.5,
    "leaky relu": F.leaky_relu,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, -2.0),
    "silu": F.silu,
}


def same(got: st.Tensor, want: st.Tensor, dtype: str) -> None:
    assert got.dtype == getattr(st, dtype)
    a, b = got.float().numpy(), want.to(got.dtype).float().numpy()
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(np.signbit(a)[b == 0], np.signbit(b)[b == 0])


@each("dtype", ["bfloat16", "float16"])
@each("name", ONE)
def test_every_number_of_16_bits(name: str, dtype: str) -> None:
    """The float32 result rounded once, in any layout and of any length."""
    x = st.tensor(PATTERNS.view("int16")).view(getattr(st, dtype))
    for part in (x, x[:37], x[:0], x.reshape(256, 256).T, x[::3]):
        same(ONE[name](part), ONE[name](part.float()), dtype)


@each("dtype", ["bfloat16", "float16"])
def test_two_numbers_of_16_bits(dtype: str) -> None:
    numbers = [1.5, -2.0, 0.0, 1.0, np.inf, -np.inf, np.nan]
    x = st.tensor(np.tile(numbers, 7)).to(getattr(st, dtype))
    y = st.tensor(np.repeat(numbers, 7)).to(getattr(st, dtype))
    for f in (st.maximum, st.minimum, st.copysign):
        for a, b in ((x, y), (x[1:], y[:-1]), (x[::2], y[::2]), (x[:7], y.reshape(7, 7))):
            same(f(a, b), f(a.float(), b.float()), dtype)
    for in_place in (
        lambda v: v.clamp_(-1, 1),
        lambda v: v.clamp_(max=0.5),
        lambda v: v.floor_(),
        lambda v: v.round_(),
        lambda v: v.square_(),
    ):
        z, wide = x.clone(), x.float()
        assert in_place(z) is z
        same(z, in_place(wide), dtype)
        spaced, wide = st.stack([x, x], 1)[:, 0], x.float()
        in_place(spaced)
        same(spaced, in_place(wide), dtype)


@each("dtype", ["bfloat16", "float16"])
@each("other", ["float64", "int64", "int32", "int16", "int8", "uint8"])
def test_integers_round_trip(other: str, dtype: str) -> None:
    x = np.random.default_rng(3).integers(-120, 120, (70, 301))
    x = abs(x) if other == "uint8" else x
    kind, half = getattr(st, other), getattr(st, dtype)
    integral, wide = st.tensor(x.astype(other)), st.tensor(x.astype("f4"))
    for a, b in (
        (integral, wide),
        (integral.T, wide.T),
        (integral[:, ::2], wide[:, ::2]),
        (integral[:0], wide[:0]),
    ):
        assert a.to(half).dtype == half
        np.testing.assert_array_equal(a.to(half).float().numpy(), b.numpy(), strict=True)
        np.testing.assert_array_equal(b.to(half).to(kind).numpy(), a.numpy(), strict=True)
    if other != "uint8":  # the result for a fraction below 0 is unspecified
        wide = (wide - 0.5).to(half)
        want = wide.float().numpy().astype(other)
        np.testing.assert_array_equal(wide.to(kind).numpy(), want, strict=True)


@each("dtype", ["bfloat16", "float16"])
def test_sums_at_places_are_rounded_once(dtype: str) -> None:
    rng, half = np.random.default_rng(8), getattr(st, dtype)
    x, v = (st.tensor(rng.normal(size=n)).to(half) for n in (50, 3000))
    at = rng.integers(-50, 50, 3000)
    want = x.float().numpy().copy()
    np.add.at(want, at, v.float().numpy())
    got = x.index_put((st.tensor(at),), v, accumulate=True)
    assert got.dtype == half
    want = native.recast(native.recast(want, half), st.float32)
    np.testing.assert_array_equal(got.float().numpy(), want)
