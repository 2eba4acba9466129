"""Gamma random numbers of rate 1, and their derivative.

The native kernels have the algorithms. Element e has a stream of its own, as in `poisson_binomial`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ... import native
from ..table.op_table import composite, op
from .poisson_binomial import in_kernel_dtype
from .rand_multinomial import claim, numel


@op()
def _gamma(xp, x, /, seed, offset, log=False):
    """Gamma numbers of the shape x and rate 1, at least the smallest normal number of the dtype;
    log: their logarithms. NaN for shapes that are negative, NaN or infinite.
    """
    return native.recast(native.standard_gamma(in_kernel_dtype(x), seed, offset, log), x.dtype)


@op()
def _standard_gamma_grad(xp, x, y, /, log=False):
    """The derivative of gamma numbers y, or of their logarithms, by their shapes x: the one that
    leaves the probability of smaller numbers unchanged.
    """
    out = native.standard_gamma_grad(in_kernel_dtype(x), in_kernel_dtype(y), log)
    return native.recast(out, x.dtype)


def refuse_double_backward(g: Any) -> NoReturn:
    """Raises the error of a gradient of the gradient."""
    raise NotImplementedError(
        "_standard_gamma_grad: the derivative is not implemented, as in PyTorch: shape "
        f"{tuple(g.shape)}, hint: leave create_graph=True away, or detach the gradient"
    )


_gamma.pullback(x=lambda ops, g, x, out, log: g * ops._standard_gamma_grad(x, out, log))
_standard_gamma_grad.pullback(x=refuse_double_backward, y=refuse_double_backward)


@composite(method=False)
def _standard_gamma(ops, input, log=False):
    """Gamma random numbers of rate 1, with gradients to their shapes; log: their logarithms, which
    do not underflow.
    """
    return ops._gamma(input, *claim(None, 4 * numel(input), False, input), log)
