"""Kernels from C++ text, `torch.cuda.jiterator`: refused, CuPy has them."""

from __future__ import annotations

from typing import Any

from .absent import refuse

__all__ = ["create_jit_fn", "create_multi_output_jit_fn"]

REASON = "kernels from C++ text are made by CuPy, hint: cupy.ElementwiseKernel"


def create_jit_fn(code_string: str, **kwargs: Any) -> Any:
    """An elementwise op from C++ text.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: it is not supported.
    """
    refuse("jiterator.create_jit_fn", REASON)


def create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs: Any) -> Any:
    """An elementwise op with several results from C++ text.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: it is not supported.
    """
    refuse("jiterator.create_multi_output_jit_fn", REASON)
