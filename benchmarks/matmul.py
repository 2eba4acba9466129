"""float32 matrix products, square and batched."""

from __future__ import annotations

from typing import Any

from .harness.case import Case, compare


def square(st: Any, n: int) -> Any:
    x, y = st.ones(n, n), st.ones(n, n)
    return lambda: x @ y


def square_numpy(np: Any, n: int) -> Any:
    x, y = np.ones((n, n), np.float32), np.ones((n, n), np.float32)
    return lambda: x @ y


def batched(st: Any, batch: int, n: int) -> Any:
    x, y = st.ones(batch, n, n), st.ones(batch, n, n)
    return lambda: x @ y


SIZES = [(64, 0.75), (256, 1.05), (512, 1.05), (1024, 1.05), (2048, 1.05)]
CASES = [
    *[
        Case(f"matmul/{n}", compare(square, n, numpy=square_numpy), target, slow=n > 512)
        for n, target in SIZES
    ],
    Case("matmul/64 x (64 x 64)", compare(batched, 64, 64)),
]
