"""Custom Functions inside autocast: backward computes as forward did."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .. import dtypes
from ..tensor import Tensor
from .autocast_mode import autocast
from .autocast_state import get_autocast_dtype, is_autocast_enabled

__all__ = ["custom_bwd", "custom_fwd"]


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: dtypes.Dtype | None = None,
) -> Any:
    """Decorates the `forward` of a custom Function, for use inside `autocast`.

    Parameters
    ----------
    fwd : callable, optional
        The static method.
    device_type : str
        "cpu" or "cuda".
    cast_inputs : dtype, optional
        What floating tensors, except float64, are cast to inside autocast; forward then runs
        without autocast. It has no effect outside autocast.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        device_type is not a string.

    See Also
    --------
    custom_bwd

    Examples
    --------
    >>> class Square(st.autograd.Function):
    ...     @staticmethod
    ...     @st.amp.custom_fwd(device_type="cpu", cast_inputs=st.float32)
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     @st.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return 2 * g * ctx.saved_tensors[0]
    >>> with st.autocast("cpu"):
    ...     Square.apply(st.ones(2, dtype=st.bfloat16)).dtype
    shmtensor.float32
    """
    check_device_type("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        is_on = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = is_on and cast_inputs is None
        if not is_on or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(
                ctx, *cast(args, device_type, cast_inputs), **cast(kwargs, device_type, cast_inputs)
            )

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorates the `backward` of a custom Function whose forward has `custom_fwd`, so that it
    runs with the same autocast setting as forward.

    Parameters
    ----------
    bwd : callable, optional
        The static method.
    device_type : str
        "cpu" or "cuda".

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        device_type is not a string.

    See Also
    --------
    custom_fwd

    Examples
    --------
    >>> class Square(st.autograd.Function):
    ...     @staticmethod
    ...     @st.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     @st.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return 2 * g * ctx.saved_tensors[0]
    >>> x = st.tensor([3.0], requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor([6.])
    """
    check_device_type("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, ctx._dtype, ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return backward


def check_device_type(where: str, device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(
            f"{where}: device_type must be a str: {device_type!r} is a {type(device_type).__name__}"
        )


def cast(value: Any, device_type: str, dtype: dtypes.Dtype) -> Any:
    """Nested containers with their tensors cast to a dtype, except float64 and integers."""
    if isinstance(value, Tensor):
        needs_cast = value.is_floating_point() and value.dtype != dtypes.float64
        return value.to(dtype) if needs_cast and value.device.type == device_type else value
    if isinstance(value, (str, bytes, np.ndarray)):
        return value
    if isinstance(value, Mapping):
        return {cast(k, device_type, dtype): cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, Iterable):
        values = (cast(v, device_type, dtype) for v in value)
        return type(value)(values) if isinstance(value, (list, tuple)) else values
    return value
