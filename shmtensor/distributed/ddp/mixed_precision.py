"""Modules that compute in a lower precision than that of their parameters.

The parameters, the optimizer and the averaged gradients keep their dtype: a forward uses copies in
`param_dtype`, and backward casts their gradients back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import native
from ...func import functional_call
from ...func.pytree import tree_map


@dataclass(frozen=True)
class MixedPrecision:
    """Precision of DistributedDataParallel.

    Attributes:
        param_dtype: the dtype in which the module computes: every forward casts its floating-point
            parameters and arguments to it; None: no cast. Outputs have this dtype.
        reduce_dtype: the dtype in which gradients are averaged; None: that of the parameters.
        buffer_dtype: the dtype to which buffers are cast, once; None: no cast.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


def forward_in_dtype(
    module: Any,
    parameters: list[tuple[str, Any]],
    dtype: Any,
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The output of the module, computed in that dtype.

    Args:
        parameters: the parameters that are cast, with their names in the module.

    Copies: the parameters and the inputs that have another floating-point dtype.
    """

    def cast(x: Any) -> Any:
        if not isinstance(x, native.TensorBase):
            return x
        tensor: Any = x
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    cast_parameters = {name: cast(parameter) for name, parameter in parameters}
    return functional_call(module, cast_parameters, tree_map(cast, inputs), tree_map(cast, kwargs))
