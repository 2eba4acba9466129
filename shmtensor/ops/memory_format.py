"""How the results of ops lie in memory, where their operands are not all in rows: as PyTorch's.

Note [Memory formats] in native/compute/memory_format.h says how it is done.
"""

from __future__ import annotations

from typing import Any

from .. import native
from .table import Row

__all__ = ["lay_out"]

POINTWISE, CHANNELS, ALL_CHANNELS, ROWS = range(4)  # as in native.formats

# Broadcasting ops and ufuncs are pointwise by themselves; these are, too.
ELEMENTWISE = frozenset(
    """
    cast clone rsqrt reciprocal square sign sgn nan_to_num clamped floor ceil trunc round frac logit
    sinc deg2rad rad2deg conjugated angle isposinf isneginf isreal signbit frexp polygamma_of relu
    relu_backward sigmoid sigmoid_backward tanh_backward silu gelu_rows gelu_backward softplus
    logsigmoid leaky_relu elu hardtanh hardsigmoid hardswish hardshrink softshrink threshold mish
    curve_backward kept_by dropped special_entr special_airy_ai measure_backward
    """.split()
)


def lay_out(row: Row, kernel: Any, plain: bool) -> None:
    """Registers the format of a row's results.

    Args:
        kernel: what is called.
        plain: it is the row's forward, whose first argument is the array module.
    """
    if isinstance(row.numpy, tuple) or row.view:
        return
    rule = leads = 0
    if not (row.broadcast or hasattr(kernel, "nin") or row.name in ELEMENTWISE):
        return
    arguments = len(row.inputs) + len(row.attributes) + plain
    native.formats(kernel, rule, int(plain), len(row.inputs), arguments, leads, len(row.outputs))
