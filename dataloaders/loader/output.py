"""Whose arrays a batch holds: shmtensor's, NumPy's, PyTorch's or JAX's.

A worker's batch arrives as what it was: messages send tensors of PyTorch and arrays of JAX as
handles of their memory (shmtensor/multiprocessing/reduce_foreign.py). Only what `default_collate`
would make an array of JAX is made one here, in the consumer, because a worker never calls JAX.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shmtensor.autograd import wrap
from shmtensor.tensor import Tensor
from shmtensor.tensor.foreign_arrays import as_library, as_numpy, library_of

from ..collate import JaxTensor, map_leaves
from .batch_block import Array


def convert(batch: Any, output: str | None, has_jax: bool = False) -> Any:
    """A batch with arrays of the library `output`; None: as it is.

    Tensors, and arrays of numbers, become arrays of that library, without history. Arrays that are
    of that library stay, with their history, and so do all other objects.

    Args:
        has_jax: the batch may hold a `JaxTensor`, which becomes an array of JAX if `output` is
            None.

    Copies: none; what `as_library` copies.
    """
    if output is None and not has_jax:
        return batch

    def change(x: Any) -> Any:
        is_jax = type(x) is JaxTensor
        library = output or ("jax" if is_jax else None)
        own = "shmtensor" if isinstance(x, Tensor) and not is_jax else library_of(x)
        if library is None or library == own:
            return x
        if isinstance(x, Tensor):
            array: Array = x.array
        elif own is not None:
            array = as_numpy(x.detach() if own == "torch" else x)
        elif isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
            array = x
        else:
            return x
        if library == "numpy":
            return array
        return wrap(array) if library == "shmtensor" else as_library(array, library)

    return map_leaves(batch, change, is_exact=True)
