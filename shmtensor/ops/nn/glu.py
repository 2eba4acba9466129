"""glu, and its gradients of two orders."""

from __future__ import annotations

from typing import Any

from ... import native
from ..table.check_dtypes import check_floating
from ..table.dims import axis
from ..table.op_table import IN_NAMESPACE, composite, op
from .activation import NumPyFunctions


def split_halves(x: Any, dim: int) -> tuple[Any, Any]:
    """Views of an array's two halves along dim."""
    n = x.shape[dim] // 2
    leading = (slice(None),) * dim
    return x[(*leading, slice(n))], x[(*leading, slice(n, None))]


@op(native=native.glu, samples=[((3, 4), 1), ((4, 3), 0), ((2, 6, 3), 1)], vmap="along")
def _glu(xp, x, /, dim):
    """The first half along dim times sigmoid(the second)."""
    value, gate = split_halves(x, dim)
    return value * NumPyFunctions.sigmoid(gate)


@op(
    native=native.glu_backward,
    samples=[((3, 2), (3, 4), 1), ((2, 3, 3), (2, 6, 3), 1)],
    vmap="along",
)
def _glu_backward(xp, x, y, /, dim):
    """The gradient of `_glu`'s input y, from the incoming gradient x."""
    value, gate = split_halves(y, dim)
    s = NumPyFunctions.sigmoid(gate)
    return xp.concatenate([x * s, x * value * s * (1 - s)], dim).astype(x.dtype)


def glu_double_backward(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, y: Any, dim: int
) -> tuple[Any, Any]:
    """The gradients of `_glu_backward` by x and by y."""
    needs_x, needs_y = needed
    n = y.shape[dim] // 2
    (a, b), (value, gate) = ((ops.narrow(v, dim, 0, n), ops.narrow(v, dim, n, n)) for v in (g, y))
    s = ops.sigmoid(gate)
    derivative = s * (1 - s)
    g_x = a * s + b * value * derivative if needs_x else None
    if not needs_y:
        return g_x, None
    g_gate = x * derivative * (a + b * value * (1 - 2 * s))
    return g_x, ops.cat([b * x * derivative, g_gate], dim)


_glu.pullback(x=lambda ops, g, x, dim: ops._glu_backward(g, x, dim))
_glu_backward.joint_pullback(glu_double_backward, x="y", y="x y")


@composite(**IN_NAMESPACE)
def glu(ops, input, dim=-1):
    """The first half along a dimension times the sigmoid of the second."""
    check_floating("glu", input)
    if not input.ndim or input.shape[dim] % 2:
        raise RuntimeError(f"glu: dim must have an even size: {tuple(input.shape)}, dim={dim}")
    if input.dtype.kind == "f":
        return ops._glu(input, axis(input, dim))
    n = input.shape[dim] // 2
    return ops.mul(ops.narrow(input, dim, 0, n), ops.sigmoid(ops.narrow(input, dim, n, n)))
