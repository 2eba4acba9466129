"""What was built, `torch.__config__` by name."""

from __future__ import annotations

import sys

import numpy as np

from . import native
from .version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Versions, instruction set and BLAS, in lines."""
    python = sys.version.split()[0]
    return (
        f"shmtensor {__version__} built with:\n  - Python {python}\n  - NumPy {np.__version__}\n"
        f"  - kernels: {native.isa()}\n  - BLAS: {native.blas()}\n"
    )


def parallel_info() -> str:
    """How many threads large ops use."""
    return f"native thread pool: {native.get_num_threads()} threads\n"
