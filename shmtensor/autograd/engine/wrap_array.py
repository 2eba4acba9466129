"""Tensors from arrays, and writes without history, for the layers above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import native
from ..dispatch.promote_operands import as_canonical
from .views_and_inplace import check_unrecorded_write


def wrap(array: Any) -> Any:
    """A Tensor over an array's memory, without history.

    Parameters
    ----------
    array : ndarray
        NumPy's or, on a GPU, CuPy's.

    Returns
    -------
    Tensor
        Of the same memory. Copies: none.

    See Also
    --------
    from_numpy

    Examples
    --------
    >>> array = np.zeros(2, np.float32)
    >>> x = st.autograd.wrap(array)
    >>> array[0] = 5
    >>> x
    tensor([5., 0.])
    """
    return native.wrap(as_canonical(array))


def fill(tensor: Any, kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Runs a kernel that writes the tensor's memory without a gradient, such as a random fill, and
    counts the write.

    Parameters
    ----------
    tensor : Tensor
        What is written.
    kernel : callable
        Called as `kernel(*arguments)`; writes the tensor's memory.
    *arguments
        For the kernel.

    Returns
    -------
    Tensor
        The tensor.

    Raises
    ------
    RuntimeError
        The write is not allowed: in grad mode, the tensor is for example a leaf that requires grad.

    Examples
    --------
    >>> x = st.zeros(2)
    >>> st.autograd.fill(x, x.numpy().fill, 3.0)
    tensor([3., 3.])
    """
    check_unrecorded_write(tensor)
    return native.write(tensor, kernel, *arguments)
