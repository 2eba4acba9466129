"""Operands of other tensor libraries, PyTorch and JAX: ops refuse them.

Note [Operands of one library]: no graph reaches from one library into another, so an op that took
a tensor of PyTorch would drop its history without a word. The user converts explicitly, which
copies nothing. Neither library calls the other in turn: `torch.Tensor.__torch_function__` calls
the function that it gets, so it must not get an op of ours, which would call it again without end.

The fast path of an op takes only tensors and numbers, so the checks here are on the general path,
or after an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ... import native
from ...other_names import foreign_module

OURS = (native.TensorBase, np.ndarray, np.generic, bool, int, float, complex, str, type(None))

# Exact type -> its library, for types that `library_of` has seen. A value of any other type costs
# two look-ups of modules and, if one of them is imported, an isinstance.
_library_of_type: dict[type, str] = {}

# The functions of each library that make its array from a tensor of ours.
FROM_DLPACK = {"torch": "torch.from_dlpack", "jax": "jax.dlpack.from_dlpack"}


def library_of(x: Any) -> str | None:
    """ "torch" or "jax" if `x` is an array of that library, else None. Neither library is imported
    here: who has an array of it has imported it.
    """
    kind = type(x)
    library = _library_of_type.get(kind)
    if library is not None:
        return library
    for library, name in (("torch", "Tensor"), ("jax", "Array")):
        # A module that is being imported by another thread may not have the class yet.
        array_type = getattr(foreign_module(library), name, None)
        if array_type is not None and isinstance(x, array_type):
            _library_of_type[kind] = library
            return library
    return None


def refuse_foreign(where: str, values: Iterable[Any]) -> None:
    """Checks that no value, and no element of a list, is an array of another library.

    Raises:
        TypeError: one is: Note [Operands of one library].
    """
    for value in values:
        if isinstance(value, OURS):
            continue
        if isinstance(value, (list, tuple)):
            refuse_foreign(where, value)
        elif (library := library_of(value)) is not None:
            raise foreign_error(where, value, library)


def foreign_error(where: str, x: Any, library: str) -> TypeError:
    """The error for an array of another library where a tensor is needed."""
    cls = "torch.Tensor" if library == "torch" else "jax.Array"
    history = "" if library == "jax" or not x.requires_grad else ", requires_grad=True"
    detach = ".detach()" if history else ""
    return TypeError(
        f"{where}: expected tensors of shmtensor only, got a {cls} x of shape {tuple(x.shape)}, "
        f"dtype {x.dtype}{history}, hint: st.from_dlpack(x{detach}) is a shmtensor.Tensor over the "
        f"same memory, {FROM_DLPACK[library]}(y) is a {cls} over that of a shmtensor.Tensor y"
    )
