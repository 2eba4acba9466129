"""The names of dtypes and storages in PyTorch's files, for reading and writing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..dtypes import as_dtype


class StorageType(NamedTuple):
    """A storage class of PyTorch, as `torch.FloatStorage`; offsets count elements of `dtype`."""

    name: str
    dtype: np.dtype[Any]


STORAGE_NAMES: dict[str, StorageType] = {
    f"{name}Storage": StorageType(f"{name}Storage", as_dtype(dtype))
    for name, dtype in (
        ("Double", "f8"),
        ("Float", "f4"),
        ("Half", "f2"),
        ("Long", "i8"),
        ("Int", "i4"),
        ("Short", "i2"),
        ("Char", "i1"),
        ("Byte", "u1"),
        ("Bool", "?"),
        ("ComplexFloat", "c8"),
        ("ComplexDouble", "c16"),
        ("BFloat16", "bfloat16"),
        ("Untyped", "u1"),
    )
}

# torch.<name> -> dtype, for tensors whose storage is untyped; three have no storage class
DTYPE_NAMES: dict[str, np.dtype[Any]] = {
    dtype.name: dtype
    for dtype in (
        *(kind.dtype for kind in STORAGE_NAMES.values()),
        *map(as_dtype, ("uint16", "uint32", "uint64")),
    )
}
