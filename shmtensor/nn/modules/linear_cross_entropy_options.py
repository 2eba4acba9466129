"""LinearCrossEntropyOptions: how PyTorch's `linear_cross_entropy` would save memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...dtypes import as_dtype

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """The options of `LinearCrossEntropyLoss`, checked as PyTorch checks them.

    In PyTorch they choose how the logits are computed in chunks. Here the logits are computed at
    once, whatever the options are: the loss and its gradients are the same.

    Parameters
    ----------
    allow_retain_graph : bool, optional
        Whether backward may run twice (here it always may).
    batch_chunk_size : int, optional
        Rows of the input in one chunk.
    chunking_method : str, optional
        "auto", "aspect_ratio", "aspect_ratio:N" or None.
    acc_policy : str, optional
        "auto", "accurate", "balanced" or "compact".
    acc_dtype : dtype, optional
        The floating-point dtype of sums over chunks.

    Raises
    ------
    ValueError
        Any other value.

    Examples
    --------
    >>> nn.LinearCrossEntropyOptions(acc_policy="compact").acc_policy
    'compact'
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            self._refuse("acc_policy", f"one of {_POLICIES}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = self.chunking_method.partition(":")
            is_valid = factor.isdigit() and int(factor) > 0
            if name != "aspect_ratio" or (colon and not is_valid):
                self._refuse("chunking_method", "'auto', 'aspect_ratio', 'aspect_ratio:N' or None")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            self._refuse("batch_chunk_size", "a positive int or None")
        if self.acc_dtype is not None and self.acc_dtype not in map(as_dtype, _DTYPES):
            self._refuse("acc_dtype", f"one of {_DTYPES} or None")

    def _refuse(self, name: str, expected: str) -> None:
        raise ValueError(
            f"LinearCrossEntropyOptions: invalid {name}: {getattr(self, name)!r}, "
            f"{expected} is expected"
        )
