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
    """PyTorch's implementations of scaled_dot_product_attention."""

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
    """A `with` in which PyTorch uses only these implementations; checks its arguments.

    Args:
        backends: one, or a list.
        set_priority: whether the list is in order of preference.

    Raises:
        AssertionError: backends is neither an SDPBackend nor a list.
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "sdpa_kernel: backends must be an SDPBackend or a list of them: "
            f"{type(backends).__name__}"
        )
    yield {}
