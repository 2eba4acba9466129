"""The sources of our CUDA kernels, and the dtypes that each is compiled for. Needs no CuPy.

A source is compiled once for each dtype: `scalar_t` is the type of the elements, `acc_t` the one it
computes in (float32 for float16). `kernels/common.cuh` goes ahead of it.
"""

from __future__ import annotations

import functools
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "kernels"
FLOATING = ("float32", "float64", "float16")

KERNELS: dict[str, tuple[str, ...]] = {
    "convolution": FLOATING,
    "copies": ("float32",),  # the same for all dtypes
    "cross_entropy": FLOATING,
    "index": FLOATING,
    "ldl": ("float32", "float64"),
    "norm": FLOATING,
    "pooling": FLOATING,
    "random": FLOATING,
    "reduce": FLOATING,
    "softmax": FLOATING,
    "sparse": FLOATING,
}


@functools.cache
def kernel_source(name: str, dtype: str) -> str:
    """The text of `kernels/<name>.cu` for a dtype.

    Raises:
        ValueError: the kernels are not compiled for this dtype.
    """
    if dtype not in KERNELS[name]:
        raise ValueError(f"kernel_source: {name}.cu has no {dtype}: one of {KERNELS[name]}")
    return with_common((FOLDER / f"{name}.cu").read_text(), dtype)


def with_common(source: str, dtype: str) -> str:
    """A source, with what the kernels share, for a dtype."""
    common = (FOLDER / "common.cuh").read_text()
    return f"#define SCALAR_{dtype.upper()}\n{common}\n{source}"
