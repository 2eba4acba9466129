"""Tensors from arrays, and writes without history, for the layers above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import native
from ..dispatch.promote_operands import as_canonical
from .views_and_inplace import check_unrecorded_write


def wrap(array: Any) -> Any:
    """A Tensor over an array's memory, without history. Copies: none."""
    return native.wrap(as_canonical(array))


def fill(tensor: Any, kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Runs a kernel that writes the tensor's memory without a gradient, such as a random fill, and
    counts the write.

    Raises:
        RuntimeError: `check_unrecorded_write` does not allow the write: in grad mode, the tensor is
            for example a leaf that requires grad.
    """
    check_unrecorded_write(tensor)
    return native.write(tensor, kernel, *arguments)
