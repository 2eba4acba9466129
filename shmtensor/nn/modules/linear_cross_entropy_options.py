"""LinearCrossEntropyOptions: how `linear_cross_entropy` saves memory."""

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

    With options the logits exist for some rows at a time, and backward computes them again: one
    product more, and no (N, C) array. 16-bit floats are computed and summed in float32.

    Parameters
    ----------
    allow_retain_graph : bool, optional
        Whether backward may run twice with `retain_graph=True`. Here it always may: no gradient is
        kept from forward.
    batch_chunk_size : int, optional
        Rows of the input in one chunk; None: all, or as `chunking_method` says.
    chunking_method : str, optional
        "aspect_ratio": as many rows as make the chunk's logits as large as the input, rounded up to
        a power of two; "aspect_ratio:N": divided by N; None: as `batch_chunk_size` says; "auto":
        `batch_chunk_size`, or else in_features rows, whose logits are as large as the weight
        (PyTorch's choice is smaller, and here 5 times as slow).
    acc_policy : str, optional
        "compact" and "auto" add a chunk's part of the weight's gradient for some classes at a time;
        "accurate" and "balanced" compute it in an array of its size first.
    acc_dtype : dtype, optional
        float64: the gradients of weight and bias are summed over chunks in it; others and None: in
        the input's dtype, float32 for 16-bit floats.

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
