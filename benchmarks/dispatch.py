"""What an op on tiny tensors costs: hardly anything but the way to the kernel and back."""

from __future__ import annotations

from typing import Any

from .case import Build, Case, beside

__all__ = ["CASES"]


def binary(op: str, with_graph: bool) -> Build:
    """x op y, four elements each."""
    source = f"lambda x, y: x {op} y"

    def build(st: Any) -> Any:
        function = eval(source)
        x, y = st.ones(4), st.ones(4)
        if with_graph:
            x.requires_grad_(True)
            y.requires_grad_(True)
        return lambda: function(x, y)

    return build


def unary(make: Any, with_graph: bool, shape: tuple[int, ...] = (4, 4)) -> Build:
    """A function of one tensor."""

    def build(st: Any) -> Any:
        x = st.ones(*shape)
        if with_graph:
            x.requires_grad_(True)
        call = make(st)
        return lambda: call(x)

    return build


def matmul(with_graph: bool) -> Build:
    """4 x 4 by 4 x 4."""

    def build(st: Any) -> Any:
        x, y = st.ones(4, 4), st.ones(4, 4)
        if with_graph:
            x.requires_grad_(True)
            y.requires_grad_(True)
        return lambda: x @ y

    return build


def cat(st: Any) -> Any:
    x, y = st.ones(4), st.ones(4)
    return lambda: st.cat([x, y])


def add_numpy(np: Any) -> Any:
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    return lambda: x + y


UNARY = [
    ("times a number", lambda st: lambda x: x * 2.0),
    ("exp", lambda st: lambda x: x.exp()),
    ("reshape", lambda st: lambda x: x.reshape(16)),
    ("x[1:3]", lambda st: lambda x: x[1:3]),
    ("sum", lambda st: lambda x: x.sum()),
    ("sum(1)", lambda st: lambda x: x.sum(1)),
]

CASES = [
    Case("dispatch/add", beside(binary("+", False), numpy=add_numpy), 0.8),
    Case("dispatch/add, graph", beside(binary("+", True)), 0.9),
    Case("dispatch/mul", beside(binary("*", False)), 0.8),
    Case("dispatch/mul, graph", beside(binary("*", True)), 0.9),
    *[Case(f"dispatch/{name}", beside(unary(make, False)), 0.8) for name, make in UNARY],
    *[Case(f"dispatch/{name}, graph", beside(unary(make, True)), 0.9) for name, make in UNARY],
    Case("dispatch/matmul", beside(matmul(False)), 0.8),
    Case("dispatch/matmul, graph", beside(matmul(True)), 0.9),
    Case("dispatch/cat", beside(cat), 0.8),
]
