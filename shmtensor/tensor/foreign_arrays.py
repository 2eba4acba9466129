"""Arrays of other libraries (PyTorch's tensors, JAX's arrays), as NumPy arrays over their memory,
and the way back. Neither library is imported here: who has an array of it has imported it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.foreign_operands import library_of
from ..autograd.dispatch.promote_operands import as_canonical
from .dlpack import writable_view

__all__ = ["LIBRARIES", "as_library", "as_numpy", "library_of"]

Array = np.ndarray[Any, Any]
LIBRARIES = ("torch", "jax")


def as_numpy(x: Any) -> Array:
    """A NumPy array over the memory of a tensor of PyTorch or an array of JAX, whose memory is
    read-only. Copies: none.

    Raises:
        RuntimeError: a tensor of PyTorch requires grad, or is a lazy conjugate or negative.
        TypeError: no tensor can hold the dtype; a tensor of PyTorch is not strided, or not on the
            CPU.
    """
    if library_of(x) == "jax":
        array: Array = as_canonical(np.asarray(x))
        return array
    if str(x.dtype) == "torch.bfloat16" and not x.requires_grad:
        return x.view(sys.modules["torch"].int16).numpy().view(dtypes.bfloat16)  # type: ignore[no-any-return]
    view: Array = x.numpy()
    return view


def as_library(array: Array, library: str) -> Any:
    """A tensor of PyTorch ("torch") or an array of JAX ("jax") over the memory of an array."""
    if library == "torch":
        import torch

        if array.dtype is dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    import jax

    # JAX takes no memory that is marked as read-only, and never writes to it.
    return jax.dlpack.from_dlpack(
        native.wrap(array if array.flags.writeable else writable_view(array))
    )
