"""The choice of a backend for `scaled_dot_product_attention`, by the names of torch.nn.attention.

There is one implementation, so the choice changes neither results nor time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from . import bias as bias

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

# PyTorch warns where a CausalBias has no fused kernel; here nothing reads it.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(Enum):
    """PyTorch's implementations of scaled_dot_product_attention.

    See Also
    --------
    sdpa_kernel

    Notes
    -----
    Here there is one implementation for each device; the names let scripts choose.

    Examples
    --------
    >>> st.nn.attention.SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        number: int = self.value
        return number


@contextmanager
def sdpa_kernel(
    backends: list[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[dict[Any, Any]]:
    """A `with` in which PyTorch uses only the named implementations; here it checks its arguments.

    Parameters
    ----------
    backends : SDPBackend or list of SDPBackend
        One, or several.
    set_priority : bool, optional
        Whether the list is in order of preference. Accepted; has no effect.

    Returns
    -------
    context manager
        Gives an empty dictionary.

    Raises
    ------
    AssertionError
        backends is neither an SDPBackend nor a list.

    Examples
    --------
    >>> from shmtensor.nn.attention import SDPBackend, sdpa_kernel
    >>> x = st.ones(1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     F.scaled_dot_product_attention(x, x, x).shape
    Size([1, 2, 4])
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "sdpa_kernel: backends must be an SDPBackend or a list of them: "
            f"{type(backends).__name__}"
        )
    yield {}
