"""Layers that compute in a lower precision than their parameters are kept in.

The parameters stay as they are, and so do the optimizer and the averages of gradients: a forward
sees copies in `param_dtype`, and backward brings their gradients through the cast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import native
from ...func import functional_call
from ...func.pytree import tree_map

__all__ = ["MixedPrecision", "lowered"]


@dataclass(frozen=True)
class MixedPrecision:
    """Precision of DistributedDataParallel.

    Attributes:
        param_dtype: in which the module computes: its floating-point parameters, and the floating-
            point tensors that `forward` is given, are cast to it in every forward; None: their own.
            Outputs keep it.
        reduce_dtype: in which gradients are averaged; None: that of the parameters, to which
            backward has brought them.
        buffer_dtype: to which buffers are cast, once; None: their own.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


def lowered(
    module: Any,
    parameters: list[tuple[str, Any]],
    dtype: Any,
    inputs: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:
    """What the module computes in that precision.

    Args:
        parameters: those that are cast, by their names in the module.

    Copies: the parameters and the inputs, where they are of another floating-point dtype.
    """

    def cast(x: Any) -> Any:
        if not isinstance(x, native.TensorBase):
            return x
        tensor: Any = x
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    own = {name: cast(parameter) for name, parameter in parameters}
    return functional_call(module, own, tree_map(cast, inputs), tree_map(cast, named))
