"""Sorting and sets, by the array API standard."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from .. import functions, native
from ..tensor import Tensor

__all__ = [
    "argsort",
    "nonzero",
    "searchsorted",
    "sort",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

f: Any = functions


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the nonzero elements, a tensor per axis."""
    return tuple(f.nonzero(x).unbind(1))


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """The indices at which to insert elements into sorted ones."""
    sorted_x1 = x1 if sorter is None else f.index_select(x1, 0, sorter)
    return f.searchsorted(sorted_x1, x2, right=side == "right")  # type: ignore[no-any-return]


def argsort(x: Tensor, /, *, axis: int = -1, descending: Any = False, stable: Any = True) -> Tensor:
    """The indices that sort the elements along an axis."""
    return f.argsort(x, axis, descending, stable=stable)  # type: ignore[no-any-return]


def sort(x: Tensor, /, *, axis: int = -1, descending: Any = False, stable: Any = True) -> Tensor:
    """The elements sorted along an axis."""
    return f.sort(x, axis, descending, stable=stable)[0]  # type: ignore[no-any-return]


All = namedtuple("All", "values indices inverse_indices counts")
Counts = namedtuple("Counts", "values counts")
Inverse = namedtuple("Inverse", "values inverse_indices")


def unique_all(x: Tensor, /) -> Any:
    """The unique values, their first indices, the inverse indices and the counts."""
    arrays = np.unique_all(x.detach().numpy())
    return All(*(native.wrap(np.asarray(p)) for p in arrays))


def unique_counts(x: Tensor, /) -> Any:
    """The unique values and their counts."""
    unique = unique_all(x)
    return Counts(unique.values, unique.counts)


def unique_inverse(x: Tensor, /) -> Any:
    """The unique values and the inverse indices."""
    unique = unique_all(x)
    return Inverse(unique.values, unique.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The unique values."""
    return unique_all(x).values  # type: ignore[no-any-return]
