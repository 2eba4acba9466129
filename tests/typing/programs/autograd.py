"""Functions with a backward of their own, gradients, hooks, transforms of functions."""

from __future__ import annotations

from typing import Any

from typing_extensions import reveal_type

import shmtensor as st
from shmtensor.autograd import Function, grad, gradcheck
from shmtensor.func import jacrev, vmap
from shmtensor.utils.checkpoint import checkpoint


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: st.Tensor, scale: float) -> st.Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * x * scale

    @staticmethod
    def backward(ctx: Any, g: st.Tensor) -> tuple[st.Tensor, None]:
        (x,) = ctx.saved_tensors
        return 3 * g * x * x * ctx.scale, None


def cube(x: st.Tensor) -> st.Tensor:
    out: st.Tensor = Cube.apply(x, 2.0)
    return out


x = st.ones(3, requires_grad=True)
y = cube(x).sum()
y.backward(retain_graph=True)
if x.grad is not None:
    reveal_type(x.grad + 1)  # -> Tensor
reveal_type(grad(y, x))  # -> tuple[Tensor, ...]
reveal_type(grad(y, [x], create_graph=True)[0])  # -> Tensor
reveal_type(gradcheck(cube, (x,)))  # -> bool
handle = x.register_hook(lambda g: g * 2)
handle.remove()


def tripled(g: st.Tensor) -> st.Tensor:
    return g * 3


with x.register_hook(tripled), st.enable_grad(), st.autograd.detect_anomaly():
    reveal_type(x.is_leaf)  # -> bool
reveal_type(st.is_grad_enabled())  # -> bool
out: st.Tensor = checkpoint(cube, x, use_reentrant=False)
rows: st.Tensor = vmap(cube)(st.ones(2, 3))
jacobian: st.Tensor = jacrev(cube)(x)
x.grad = None
