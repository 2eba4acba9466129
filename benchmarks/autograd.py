"""Forward and backward of small graphs, where graph traversal dominates."""

from __future__ import annotations

from typing import Any

from .harness.case import Case, compare


def five_ops(st: Any) -> Any:
    """((a * b + a) * (a * b)).sum(): five ops on four elements, forward and backward."""
    a = st.ones(4, requires_grad=True)
    b = st.ones(4, requires_grad=True)

    def run() -> None:
        a.grad = b.grad = None
        ((a * b + a) * (a * b)).sum().backward()

    return run


def chain(st: Any) -> Any:
    """A chain of 100 additions."""
    x = st.ones(4, requires_grad=True)

    def run() -> None:
        x.grad = None
        y = x
        for _ in range(100):
            y = y + x
        y.sum().backward()

    return run


def second_order(st: Any) -> Any:
    """The gradient of the gradient of (x * x * x).sum()."""
    x = st.ones(4, requires_grad=True)

    def run() -> None:
        (g,) = st.autograd.grad((x * x * x).sum(), x, create_graph=True)
        st.autograd.grad(g.sum(), x)

    return run


def least_squares(st: Any) -> Any:
    """The gradient of |A x - b|^2, d = 1000."""
    a, b = st.ones(1000, 1000) * 0.01, st.ones(1000)
    x = st.ones(1000, requires_grad=True)

    def run() -> None:
        x.grad = None
        d = a @ x - b
        (d * d).sum().backward()

    return run


def least_squares_numpy(np: Any) -> Any:
    a, b = np.full((1000, 1000), 0.01, np.float32), np.ones(1000, np.float32)
    x = np.ones(1000, np.float32)
    return lambda: 2 * (a.T @ (a @ x - b))


CASES = [
    Case("autograd/5 tiny ops", compare(five_ops), 0.6),
    Case("autograd/chain of 100", compare(chain)),
    Case("autograd/second order", compare(second_order)),
    Case(
        "autograd/least squares, d = 1000",
        compare(least_squares, numpy=least_squares_numpy),
        1.1,
        against="numpy",
    ),
]
