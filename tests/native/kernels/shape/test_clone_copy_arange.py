"""clone, copy, tril_triu, roll, steps and linspace: NumPy's results, in any layout and size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native

from ...cases import each

TYPES = ("?", "i1", "f2", "f4", "f8", "c8", "c16")


def draw(shape: tuple[int, ...], dtype: str) -> Any:
    return np.asarray(np.random.default_rng(1).integers(0, 100, shape)).astype(dtype)


def layouts(x: Any) -> list[Any]:
    if not x.ndim:
        return [x]
    return [x, np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2], x[::-1], x[..., ::-1]]


def same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(got, want, strict=True)


def test_16_bit_floats_are_copied_like_other_dtypes() -> None:
    """NumPy has no bfloat16: its copies of such arrays take ten times as long."""
    bits = np.random.default_rng(2).integers(0, 2**16, (70, 90)).astype(np.uint16)
    x = bits.view(st.bfloat16)
    out = np.zeros_like(x)
    assert native.copy_into(out, x)
    same(out.view(np.uint16), bits)
    assert native.copy_into(out, x[3:4, 4].reshape(()))
    same(out.view(np.uint16), np.full_like(bits, bits[3, 4]))
    for view in layouts(bits):
        same(native.contiguous(view.view(st.bfloat16)).view(np.uint16), np.ascontiguousarray(view))
    for dim in (0, 1, 2):
        result = native.stack([x, x[::-1].copy()], dim)
        assert result is not None
        same(result.view(np.uint16), np.stack([bits, bits[::-1]], dim))
    same(native.cat([x, x[:5]], 0).view(np.uint16), np.concatenate([bits, bits[:5]]))


@each("n", [1023, 1024, 1025, 1151, 5000])
def test_copies_just_after_their_source_are_complete(n: int) -> None:
    """Where the target is a few bytes after the source, modulo 4096, vectors copy (memcpy.h)."""
    memory = np.zeros(4 * 4096 + 2 * n, np.uint8)
    start = -memory.ctypes.data % 4096
    x = memory[start : start + n + 64]
    x[:] = draw(x.shape, "u1")
    far = start + -(-(n + 64) // 4096) * 4096  # the same offset in a page
    for begin in (0, 1, 7, 32):
        for ahead in (0, 1, 2, 8, 15, 16, 31, 33, 63, 64, 100):
            memory[far - 1 :] = 1
            out = memory[far + begin + ahead :][:n]
            assert native.copy_into(out, x[begin : begin + n])
            same(out, x[begin : begin + n])
            assert memory[far - 1 : far + begin + ahead].all()
            assert memory[far + begin + ahead + n :].all()


@each("dtype", ("?", "i1", "f2", "i4", "f8", "i8", "c8"))
def test_runs_are_filled_and_turned_to_their_ends(dtype: str) -> None:
    for n in (1, 7, 8, 9, 15, 16, 31, 33, 63, 65, 127, 200, 255, 256, 257, 1031, 300_007):
        for begin in (0, 1, 2, 3, 5, 8):
            out = np.zeros(n + 20, dtype)
            assert native.copy_into(out[begin : begin + n], np.asarray(113).astype(dtype))
            want = np.zeros(n + 20, dtype)
            want[begin : begin + n] = 113
            same(out, want)
            x = draw((n + begin,), dtype)
            same(native.flip(x[begin:], (0,)), x[begin:][::-1].copy())


@each("dtype", TYPES)
@each("shape", [(), (0,), (5,), (3, 4), (2, 0, 3), (3, 4, 5), (300, 400)])
def test_clone(shape: tuple[int, ...], dtype: str) -> None:
    for x in [*layouts(draw(shape, dtype)), np.broadcast_to(draw((), dtype), shape)]:
        result = native.clone(x)
        same(result, x)
        assert result.strides == x.copy("K").strides
        assert not np.shares_memory(result, x)


@each("dtype", TYPES)
def test_store(dtype: str) -> None:
    for shape in ((0,), (5,), (3, 4), (300, 400)):
        for y in [*layouts(draw(shape, dtype)), np.asarray(3).astype(dtype)]:
            out = np.zeros(shape, dtype)
            if native.copy_into(out, y):
                same(out, np.broadcast_to(y, shape))
            else:
                assert dtype == "c16"
    x = np.arange(6.0)
    assert not native.copy_into(x[:3], x[1:4])
    assert not native.copy_into(x[::2], np.zeros(3))
    assert not native.copy_into(x, np.zeros(6, "f4"))
    assert not native.copy_into(x, np.zeros(1))


@each("dtype", TYPES)
@each("shape", [(3, 4), (4, 3), (2, 3, 3), (0, 3), (3, 0), (90, 200)])
def test_triangle(shape: tuple[int, ...], dtype: str) -> None:
    for x in layouts(draw(shape, dtype)):
        if not x.size:
            continue
        for diagonal in (0, 1, -1, 500, -500):
            for upper, plain in ((False, np.tril), (True, np.triu)):
                want = plain(x, diagonal)
                same(native.tril_triu(x, diagonal, upper), want)
                y = x.copy("C")
                assert native.tril_triu(y, diagonal, upper, y) is y
                same(y, want)
    x = draw((2, 3, 5), dtype)
    transposed = x.swapaxes(-1, -2)
    assert native.tril_triu(np.ones(3), 0, True) is None
    assert native.tril_triu(x, 0, True, x.copy()) is None
    assert native.tril_triu(transposed, 0, True, transposed) is None


@each("dtype", TYPES)
@each("shape", [(), (0,), (5,), (3, 4), (2, 3, 4), (3, 50_000), (200_000,)])
def test_roll(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    for y in (layouts(x) if x.size < 1000 else [x]) if x.size else []:
        for shift in (0, 1, 40_001, -3):
            same(native.roll(y, shift, None), np.roll(y, shift))
            for dim in range(-x.ndim, x.ndim):
                same(native.roll(y, shift, dim), np.roll(y, shift, dim))
    assert native.roll(np.ones(3), 1, 2) is None


@each("dtype", ["i1", "u1", "i4", "i8", "u8", "f4", "f8"])
@each("n", [0, 1, 9, 40_003])
def test_steps(n: int, dtype: str) -> None:
    number = np.dtype(dtype).num
    for start, step in ((0, 1), (-3, 2), (5, -7)):
        same(native.steps(start, step, n, number), (start + np.arange(n) * step).astype(dtype))
    result = native.steps(0.5, 0.25, n, number)
    if dtype[0] == "f":
        same(result, (0.5 + np.arange(n) * 0.25).astype(dtype))
    else:
        assert result is None


def test_steps_leaves_other_cases_to_the_caller() -> None:
    assert native.steps(2**70, 1, 3, np.dtype("i8").num) is None
    assert native.steps(0, 1, 3, np.dtype("c8").num) is None
    assert native.steps(0, 1, 3, np.dtype("?").num) is None
    with pytest.raises(TypeError):
        native.steps(0, 1, "3", 7)  # type: ignore[arg-type]


@each("dtype", ["f4", "f8", "i1", "u1", "i4", "i8"])
@each("n", [2, 3, 10, 1001, 100_001])
def test_line(n: int, dtype: str) -> None:
    for start, end in [(0.0, 100.0), (100.0, -3.0), (-7.25, 7.25), (5.0, 5.0)]:
        if dtype == "u1" and min(start, end) < 0:
            assert native.linspace(start, end, 0.0, n, np.dtype(dtype).num) is None
            continue
        step, i = (end - start) / (n - 1), np.arange(n)
        want = np.where(i < n // 2, start + step * i, end - step * (n - 1 - i)).astype(dtype)
        same(native.linspace(start, end, step, n, np.dtype(dtype).num), want)


def test_linspace_declines_values_beyond_the_dtype() -> None:
    assert native.linspace(0, 2.0**63, 1.0, 5, np.dtype("i8").num) is None
    assert native.linspace(0, 128, 1.0, 5, np.dtype("i1").num) is None
    assert native.linspace(0, 127, 1.0, 5, np.dtype("i1").num) is not None
    assert native.linspace(0, 1, 1.0, 1, np.dtype("f4").num) is None
    assert native.linspace(1j, 1, 1.0, 3, np.dtype("f4").num) is None
