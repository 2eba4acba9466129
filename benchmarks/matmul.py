"""Matrix products, square and batched; of float32, if the name says nothing else."""

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


def square_bfloat16(st: Any, n: int) -> Any:
    x, y = st.ones(n, n).bfloat16(), st.ones(n, n).bfloat16()
    return lambda: x @ y


def layer(st: Any, batch: int, inputs: int, outputs: int, dtype: str) -> Any:
    """The products of a layer's step: forward, the gradients of weight and input."""
    x, weight, g = (
        st.randn(*shape).to(getattr(st, dtype))
        for shape in ((batch, inputs), (outputs, inputs), (batch, outputs))
    )

    def run() -> None:
        st.nn.functional.linear(x, weight)
        g.T @ x
        g @ weight

    return run


LAYERS = [(128, 784, 512), (256, 1024, 4096), (1024, 256, 1024)]
SIZES = [(64, 0.75), (256, 1.05), (512, 1.05), (1024, 1.05), (2048, 1.05)]
CASES = [
    *[
        Case(f"matmul/{n}", compare(square, n, numpy=square_numpy), target, slow=n > 512)
        for n, target in SIZES
    ],
    Case("matmul/64 x (64 x 64)", compare(batched, 64, 64)),
    *[
        Case(f"matmul/{n}, bfloat16", compare(square_bfloat16, n), slow=n > 512)
        for n in (64, 512, 2048)
    ],
    *[
        Case(
            f"matmul/step of a layer {'-'.join(map(str, sizes[1:]))}, batch {sizes[0]}, {dtype}",
            compare(layer, *sizes, dtype),
            slow=True,
        )
        for sizes in LAYERS
        for dtype in ("float32", "bfloat16")
    ],
]
