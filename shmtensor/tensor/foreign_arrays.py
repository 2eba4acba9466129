"""Arrays of other libraries (PyTorch's tensors, JAX's arrays), as NumPy arrays over their memory, and
the way back. Neither library is imported here: who has an array of it has imported it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import dtypes, native
from .dlpack import from_dlpack

__all__ = ["LIBRARIES", "as_library", "as_numpy", "library_of"]

Array = np.ndarray[Any, Any]
LIBRARIES = ("torch", "jax")


def library_of(x: Any) -> str | None:
    """ "torch" or "jax" if `x` is an array of that library, else None."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, getattr(torch, "Tensor", ())):
        return "torch"
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, getattr(jax, "Array", ())):
        return "jax"
    return None


def as_numpy(x: Any) -> Array:
    """A NumPy array over the memory of a tensor of PyTorch or an array of JAX. Copies: none."""
    if library_of(x) == "torch" and str(x.dtype) != "torch.bfloat16":
        view: Array = x.numpy()
        return view
    array: Array = from_dlpack(x).array
    return array


def as_library(array: Array, library: str) -> Any:
    """A tensor of PyTorch ("torch") or an array of JAX ("jax") over the memory of an array."""
    if library == "torch":
        import torch

        if array.dtype is dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    import jax

    return jax.dlpack.from_dlpack(native.wrap(array))
