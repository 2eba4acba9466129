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

    Parameters
    ----------
    module : Module
        What is called; it stays as it is.
    parameters_and_buffers : dict
        Tensors by dotted name; others stay the module's own.
    args : tuple or any, optional
        For the module; one argument need not be in a tuple.
    kwargs : dict, optional
        For the module.
    tie_weights : bool, optional
        Whether a tensor with several names is replaced under all of them.
    strict : bool, optional
        Whether the names must be exactly those of the module.

    Returns
    -------
    any
        What the module returns.

    Raises
    ------
    RuntimeError
        Under strict, other names.

    See Also
    --------
    func.functional_call

    Examples
    --------
    >>> import warnings
    >>> from shmtensor.nn.utils.stateless import functional_call
    >>> model = nn.Linear(2, 1, bias=False)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     functional_call(model, {"weight": st.tensor([[1., 10.]])}, st.tensor([2., 3.]))
    tensor([32.])
    """
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated in favor of `func.functional_call`.",
        FutureWarning,
        stacklevel=2,
    )
    return func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
