"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...functions import cat
from ...tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, one after the other, shape (n,). Copies: one."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Sets the parameters to the parts of a vector. Copies: none (they share its memory)."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected a Tensor: got {type(vec).__name__}")
    start = 0
    for p in parameters:
        stop = start + p.numel()
        p.data = vec[start:stop].reshape(p.shape).data
        start = stop
