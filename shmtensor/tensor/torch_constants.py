"""PyTorch's constants: memory formats, layouts, and those of mathematics."""

from __future__ import annotations

import math

from .. import dtypes

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "e",
    "inf",
    "layout",
    "memory_format",
    "nan",
    "newaxis",
    "pi",
    "preserve_format",
    "strided",
]

e: float = math.e
inf: float = math.inf
nan: float = math.nan
pi: float = math.pi
newaxis = None


class memory_format:
    """The order of a tensor's dimensions in memory.

    Parameters
    ----------
    name : str
        One of the constants' names; use the constants.

    See Also
    --------
    strided

    Notes
    -----
    The constants are `contiguous_format` (row order), `channels_last` and `channels_last_3d`
    (channels innermost), and `preserve_format` (as the tensor has it). New tensors are in row
    order.

    Examples
    --------
    >>> x = st.zeros(1, 3, 4, 4).contiguous(memory_format=st.channels_last)
    >>> x.stride()
    (48, 1, 12, 3)
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{dtypes.library}.{self.name}"

    def __reduce__(self) -> str:
        return self.name  # copies and pickles are the same object, for comparison by `is`


class layout(memory_format):
    """How a tensor's elements are stored: with strides, or only some of them.

    Parameters
    ----------
    name : str
        One of the constants' names; use the constants.

    Notes
    -----
    The constants are `strided`, `sparse_coo`, `sparse_csr` and `sparse_csc`.

    Examples
    --------
    >>> st.zeros(2).layout
    shmtensor.strided
    """


contiguous_format: memory_format = memory_format("contiguous_format")
preserve_format: memory_format = memory_format("preserve_format")
channels_last: memory_format = memory_format("channels_last")
channels_last_3d: memory_format = memory_format("channels_last_3d")
strided: layout = layout("strided")
sparse_coo: layout = layout("sparse_coo")  # public in shmtensor.sparse, like the next two
sparse_csr: layout = layout("sparse_csr")
sparse_csc: layout = layout("sparse_csc")
