"""Elementwise ops on large tensors, limited by memory."""

from __future__ import annotations

from typing import Any

from .harness.case import Case, compare


def add(st: Any, n: int) -> Any:
    x, y = st.ones(n), st.ones(n)
    return lambda: x + y


def add_numpy(np: Any, n: int) -> Any:
    x, y = np.ones(n, np.float32), np.ones(n, np.float32)
    return lambda: x + y


def exp(st: Any, n: int) -> Any:
    x = st.ones(n)
    return lambda: st.exp(x)


def relu(st: Any, n: int) -> Any:
    x = st.ones(n) - 2
    return lambda: st.relu(x)


def expression(st: Any, n: int) -> Any:
    """Four ops, with temporaries."""
    x, y = st.ones(n), st.ones(n)
    return lambda: (x * y + x) * y - x


def total(st: Any, n: int) -> Any:
    x = st.ones(n)
    return lambda: x.sum()


def softmax(st: Any, n: int) -> Any:
    """Rows of 1000."""
    x = st.ones(n // 1000, 1000)
    return lambda: st.softmax(x, 1)


M = 1_000_000
CASES = [
    Case("pointwise/add, 1 M", compare(add, M, numpy=add_numpy), 0.9),
    Case("pointwise/add, 10 M", compare(add, 10 * M, numpy=add_numpy), 0.4, slow=True),
    Case("pointwise/4-op expression, 1 M", compare(expression, M), 0.9),
    Case("pointwise/4-op expression, 10 M", compare(expression, 10 * M), 0.4, slow=True),
    Case("pointwise/exp, 1 M", compare(exp, M), 0.9),
    Case("pointwise/relu, 1 M", compare(relu, M), 0.9),
    Case("pointwise/sum, 1 M", compare(total, M)),
    Case("pointwise/softmax, 1000 x 1000", compare(softmax, M), 0.8),
]
