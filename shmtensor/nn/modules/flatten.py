"""Layers that only change the shape: Flatten, Unflatten. Copies: none for contiguous input."""

from __future__ import annotations

from collections.abc import Sequence

from ...tensor import Tensor
from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Joins a range of dimensions into one.

    Parameters
    ----------
    start_dim : int, optional
        The first of them; 1, the default, leaves the batch alone.
    end_dim : int, optional
        The last of them.

    See Also
    --------
    Unflatten

    Examples
    --------
    >>> nn.Flatten()(st.ones(32, 1, 5, 5)).shape
    Size([32, 25])
    >>> nn.Flatten(0, 2)(st.ones(32, 1, 5, 5)).shape
    Size([160, 5])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """(N, *) to (N, product of *), by default."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits a dimension into several.

    Parameters
    ----------
    dim : int
        The dimension.
    unflattened_size : tuple of int
        The sizes that it is split into; one may be -1.

    Raises
    ------
    TypeError
        dim is not an int (names are not kept), or a size is not one.

    See Also
    --------
    Flatten

    Examples
    --------
    >>> nn.Unflatten(1, (2, -1))(st.ones(32, 50)).shape
    Size([32, 2, 25])
    """

    def __init__(self, dim: int | str, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim must be an int (names are not kept): got {dim!r}")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                "Unflatten: unflattened_size must be a tuple of ints: got "
                f"{type(unflattened_size).__name__}"
            )
        for i, n in enumerate(unflattened_size):
            if not isinstance(n, int):
                raise TypeError(
                    "Unflatten: unflattened_size must be a tuple of ints: found "
                    f"{type(n).__name__} at position {i}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """(..., n, ...) to (..., *unflattened_size, ...)."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
