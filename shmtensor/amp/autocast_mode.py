"""The context in which ops choose their precision."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from .. import accelerator, dtypes
from ..autograd.dispatch.autocast import nest
from . import autocast_state

__all__ = ["autocast", "is_autocast_available"]

F = TypeVar("F", bound=Callable[..., Any])

SUPPORTED = (dtypes.bfloat16, dtypes.float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for a kind of device: "cpu" and "cuda"."""
    return autocast_state.is_known(device_type)


class autocast:
    """In a `with`, or in each call of a decorated function, ops choose their precision.

    Products (`linear`, `matmul`, convolutions, attention) compute in the lower precision, what is
    delicate (losses, `linalg`, `fft`, `prod`, ...) in float32, `cat` and `stack` in the widest type
    of their operands, all others in what they are given: the lists of PyTorch's CPU backend, in
    `docs/design/amp.md`. float64, integers, in-place forms and calls with `out=` stay as they are.
    Each thread has its own. Backward belongs outside: it computes in each op's own precision.

    Args:
        device_type: "cpu" or "cuda"; with "cuda" and no such device it warns and does nothing.
        dtype: the lower precision, bfloat16 or float16; by default `get_autocast_dtype`'s: bfloat16
            for "cpu", float16 for "cuda".
        enabled: False: in this block everything computes in what it is given.
        cache_enabled: weights (leaves that require grad) are cast once in the outermost block.

    Raises:
        ValueError: device_type is no string.
        RuntimeError: no such kind of device.

    Example:
        >>> import shmtensor as st
        >>> x = st.ones(2, 3)
        >>> with st.autocast("cpu"):
        ...     y = x @ x.T
        >>> y.dtype
        shmtensor.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtypes.Dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(
                f"autocast: device_type must be a str: {device_type!r} is a "
                f"{type(device_type).__name__}"
            )
        if not is_autocast_available(device_type):
            raise RuntimeError(f"autocast: unsupported device_type: {device_type!r}, hint: 'cpu'")
        self.device = device_type
        self.fast_dtype = (
            autocast_state.get_autocast_dtype(device_type)
            if dtype is None
            else dtypes.as_dtype(dtype)
        )
        self._cache_enabled = (
            autocast_state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        self._enabled = enabled and self._is_possible()
        self._former: list[tuple[bool, dtypes.Dtype, bool]] = []

    def _is_possible(self) -> bool:
        """Whether this machine and the dtype allow it; warns."""
        if self.device == "cuda" and not accelerator.is_available():
            why = "CUDA is not available"
        elif self.fast_dtype not in SUPPORTED:
            names = ", ".join(map(str, SUPPORTED))
            why = f"dtype {self.fast_dtype} is not supported, hint: {names}"
        else:
            return True
        warnings.warn(f"autocast: {why}: disabling autocast", UserWarning, stacklevel=3)
        return False

    def __enter__(self) -> autocast:
        former = (
            autocast_state.is_autocast_enabled(self.device),
            autocast_state.get_autocast_dtype(self.device),
            autocast_state.is_autocast_cache_enabled(),
        )
        self._former.append(former)
        self._set(self._enabled, self.fast_dtype, self._cache_enabled)
        nest(1)
        return self

    def __exit__(self, *error: Any) -> None:
        nest(-1)
        self._set(*self._former.pop())

    def _set(self, enabled: bool, dtype: dtypes.Dtype, caching: bool) -> None:
        autocast_state.set_autocast_enabled(self.device, enabled)
        autocast_state.set_autocast_dtype(self.device, dtype)
        autocast_state.set_autocast_cache_enabled(caching)

    def __call__(self, function: F) -> F:
        if not callable(function):
            raise TypeError(
                f"autocast: a decorator takes a function, not a {type(function).__name__}, hint: "
                "`with autocast(device_type):`"
            )

        @functools.wraps(function)
        def run(*args: Any, **named: Any) -> Any:
            with type(self)(self.device, self.fast_dtype, self._enabled, self._cache_enabled):
                return function(*args, **named)

        return run  # type: ignore[return-value]
