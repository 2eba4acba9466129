"""A warning for data sets that make every worker's memory grow when they are read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from shmtensor.tensor import Tensor

from ..dataset import Dataset, Subset

MANY = 100_000  # Python objects; fewer of them take a few MB per worker
DEPTH = 3  # of data sets within data sets


def python_columns(dataset: Any, name: str = "dataset", depth: int = DEPTH) -> Iterator[Any]:
    """The large lists and dicts of Python objects that a data set holds: name and value.

    Only the data set's own attributes are checked, not what these contain.
    """
    for attribute, value in getattr(dataset, "__dict__", {}).items():
        where = f"{name}.{attribute}"
        if isinstance(value, Dataset):
            if depth:
                yield from python_columns(value, where, depth - 1)
        elif isinstance(value, (list, tuple, dict)) and value:
            first = next(iter(value.values() if isinstance(value, dict) else value))
            if isinstance(first, Dataset) and depth:
                parts = value.items() if isinstance(value, dict) else enumerate(value)
                for key, part in parts:
                    yield from python_columns(part, f"{where}[{key!r}]", depth - 1)
            elif (
                len(value) >= MANY
                and not isinstance(first, (np.ndarray, Tensor))
                and not (isinstance(dataset, Subset) and attribute == "indices")  # `random_split`'s
            ):
                yield where, value


def warn_of_growth(loader: Any) -> None:
    """Warns once per loader, and names the remedy."""
    if loader.__dict__.get("_has_warned"):
        return
    loader._has_warned = True
    # Data sets made of others may hold the same list several times.
    for where, value in {id(v): (w, v) for w, v in python_columns(loader.dataset)}.values():
        kind = "SharedDict" if isinstance(value, dict) else "SharedList"
        warnings.warn(
            f"DataLoader: {where} is a {type(value).__name__} of {len(value)} Python objects: each "
            f"of the {loader.num_workers} workers that reads it ends up with a copy of its own, "
            f"for reading writes reference counts; keep it once for all as st.{kind}({where})",
            stacklevel=4,
        )
