"""autocast: the context in which ops choose their precision."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from .. import cupy_runtime, dtypes, native
from ..autograd.dispatch.autocast import nest
from . import autocast_state

__all__ = ["autocast", "is_autocast_available"]

F = TypeVar("F", bound=Callable[..., Any])

SUPPORTED = (dtypes.bfloat16, dtypes.float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for a device type.

    Parameters
    ----------
    device_type : str
        "cpu" and "cuda" have it.

    Returns
    -------
    bool

    Examples
    --------
    >>> st.amp.is_autocast_available("cpu")
    True
    """
    return autocast_state.is_known(device_type)


class autocast:
    """In a `with`, or in each call of a decorated function, ops choose their precision.

    Matrix products (`linear`, `matmul`, convolutions, attention) compute in the lower precision,
    sensitive ops (losses, `prod`; on the CPU `linalg` and `fft`; on CUDA `exp`, `log`, `pow`,
    `sum`, `softmax`, norms) in float32, `cat` and `stack` in the widest dtype of their operands,
    and all others in their inputs' dtype. These are the lists of PyTorch's backends for both
    devices, see `docs/design/amp.md`; the operands' device chooses the list. float64, integers,
    in-place forms and calls with `out=` are not cast. Each thread has its own setting. Call
    backward outside the block: it computes in each op's own precision.

    Parameters
    ----------
    device_type : str
        "cpu" or "cuda"; with "cuda" and no such device it warns and does nothing.
    dtype : dtype, optional
        The lower precision, bfloat16 or float16; by default `get_autocast_dtype`'s: bfloat16 for
        "cpu", float16 for "cuda".
    enabled : bool, optional
        False: ops in this block compute in their inputs' dtype.
    cache_enabled : bool, optional
        Whether each weight (a leaf that requires grad) is cast once in the outermost block.

    Raises
    ------
    ValueError
        device_type is not a string.
    RuntimeError
        An unknown device type; bfloat16 on CUDA if CuPy does not take it.

    See Also
    --------
    GradScaler

    Examples
    --------
    >>> x = st.ones(2, 3)
    >>> with st.autocast("cpu"):
    ...     y = x @ x.T
    >>> y.dtype
    shmtensor.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
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
            autocast_state.get_autocast_dtype(device_type) if dtype is None else native.dtype(dtype)
        )
        self._cache_enabled = (
            autocast_state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        self._enabled = enabled and self._is_possible()
        on_cuda = device_type == "cuda" and self.fast_dtype == dtypes.bfloat16
        if self._enabled and on_cuda and not cupy_runtime.has_bfloat16():
            raise RuntimeError(
                "Current CUDA Device does not support bfloat16. Please switch dtype to float16. "
                "CuPy must be version 14 or newer, and shmtensor must import it: call "
                "shmtensor.cuda.is_available() before `import cupy`"
            )
        self._former: list[tuple[bool, native.dtype, bool]] = []

    def _is_possible(self) -> bool:
        """Whether the machine and the dtype support autocast; warns if not."""
        if self.device == "cuda" and not cupy_runtime.is_available():
            reason = "CUDA is not available"
        elif self.fast_dtype not in SUPPORTED:
            names = ", ".join(map(str, SUPPORTED))
            reason = f"dtype {self.fast_dtype} is not supported, hint: {names}"
        else:
            return True
        warnings.warn(f"autocast: {reason}: disabling autocast", UserWarning, stacklevel=3)
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

    def _set(self, enabled: bool, dtype: native.dtype, caching: bool) -> None:
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
        def run(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.device, self.fast_dtype, self._enabled, self._cache_enabled):
                return function(*args, **kwargs)

        return run  # type: ignore[return-value]
