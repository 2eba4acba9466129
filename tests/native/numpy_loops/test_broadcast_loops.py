"""Arithmetic with a broadcast operand: NumPy's results for rows, columns and scalars."""

from __future__ import annotations

import numpy as np

from shmtensor import native

from ..cases import each

NAMES = ["add", "subtract", "multiply", "divide", "equal", "not_equal", "less", "less_equal",
         "greater", "greater_equal"]  # fmt: skip
SHAPES = [((40, 33), (33,)), ((40, 33), (40, 1)), ((40, 1), (1, 70)), ((300, 130), (130,)),
          ((300, 130), (300, 1)), ((3, 50, 40), (50, 1)), ((3, 50, 40), (3, 1, 40)),
          ((3, 50, 40), (3, 1, 1)), ((3, 1, 40), (50, 1)), ((2, 3, 1, 64), (5, 1)),
          ((2, 70_000), (70_000,)), ((9, 3), (9, 1)), ((40, 8), (40, 1)), ((40, 15), (15,)),
          ((40, 16), (16,)), ((40, 31), (40, 1)), ((3, 50, 12), (50, 1))]  # fmt: skip


def draw(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).integers(-4, 5, shape)
    if dtype[0] == "f":
        return np.where(x == 4, np.nan, x * 0.3).astype(dtype)
    return (x * 700_000_001).astype(dtype)  # products wrap round


@each("dtype", ["f4", "f8", "i4", "i8", "u4", "u8", "i2"])
@each("name", NAMES)
def test_stretched_operands_equal_numpy(name: str, dtype: str) -> None:
    numpy = getattr(np, name)
    ours = native.parallel(numpy)
    for shape, other in SHAPES:
        x, y = draw(shape, dtype, 1), draw(other, dtype, 2)
        with np.errstate(all="ignore"):
            for a, b in ((x, y), (y, x), (x[..., ::-1], y), (x, y[..., ::2][..., :1])):
                np.testing.assert_array_equal(ours(a, b), numpy(a, b), strict=True)
            transposed = x.swapaxes(0, -1).copy().swapaxes(0, -1)
            np.testing.assert_array_equal(ours(transposed, y), numpy(x, y), strict=True)


@each("dtype", ["f4", "i8"])
def test_stretched_operands_write_in_place(dtype: str) -> None:
    add = native.parallel(np.add)
    for shape, other in SHAPES:
        if np.broadcast_shapes(shape, other) != shape:
            continue
        x, y = draw(shape, dtype, 1), draw(other, dtype, 2)
        want = x + y
        wide = np.zeros((*shape[:-1], shape[-1] + 3), dtype)
        add(x, y, wide[..., 1:-2])
        np.testing.assert_array_equal(wide[..., 1:-2], want)
        assert not wide[..., 0].any()
        assert not wide[..., -2:].any()
        add(x, y, x)
        np.testing.assert_array_equal(x, want)
    x = draw((50, 40), dtype, 3)
    want = x + x[0]
    np.testing.assert_array_equal(add(x, x[0], x), want)  # a row of the result itself
