"""The older name of `func.functional_call`."""

from __future__ import annotations

import warnings
from typing import Any

from ... import func
from ...tensor import Tensor
from ..modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The result of a module with other parameters and buffers than its own.

    Deprecated: `func.functional_call` is the same.

    Args:
        parameters_and_buffers: tensors by dotted name; others stay the module's own.
        args, kwargs: for the module; one argument need not be in a tuple.
        tie_weights: a tensor with several names is replaced under all of them.
        strict: the names must be exactly those of the module.

    Raises: RuntimeError: under strict, other names.
    """
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated in favor of `func.functional_call`.",
        FutureWarning,
        stacklevel=2,
    )
    return func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
