"""`x.new_tensor`: a tensor from data, with the dtype of x."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.promote_operands import as_canonical

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["as_plain", "new_tensor"]


def new_tensor(data: Any, dtype: Any) -> Tensor:
    """A tensor of a dtype from data. Copies: one."""
    array = native.call(np.array, as_plain(data), dtypes.as_dtype(dtype))
    return native.wrap(as_canonical(array))  # type: ignore[no-any-return]


def as_plain(data: Any) -> Any:
    """Data with arrays in place of tensors."""
    if isinstance(data, native.TensorBase):
        return data.array
    if isinstance(data, (list, tuple)):
        return [as_plain(d) for d in data]
    return data
