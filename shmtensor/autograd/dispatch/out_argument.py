"""`out=`: copies the result of an op into existing tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes, native
from ...cuda_arrays import device_of, guard
from ...ops.table.op_table import COMPOSITES, ROWS
from ..engine.resize import resize_output
from ..engine.views_and_inplace import check_unrecorded_write, node_of
from ..grad_mode import recording
from .devices import assign
from .explain_error import is_writable
from .foreign_operands import refuse_foreign


def copy_to_out(out: Any, where: str, result: Any) -> Any:
    """Copies the result of an op into `out`, which is resized to its shape. Copies: one.

    Args:
        out: a tensor, or a tuple for an op of several results.
        where: the op, for messages.
    """
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(
                f"{where}: argument 'out' must be a tuple of {len(result)} Tensors: "
                f"{type(out).__name__}"
            )
        results = [copy_to_out(o, where, r) for o, r in zip(out, result)]
        cls: Any = type(result)
        return cls(*results) if hasattr(cls, "_fields") else tuple(results)
    if not isinstance(out, native.TensorBase):
        refuse_foreign(f"{where}: argument 'out'", (out,))
        raise TypeError(f"{where}: argument 'out' must be Tensor, not {type(out).__name__}")
    if recording.get() and (result.node is not None or node_of(out) is not None):
        raise RuntimeError(
            f"{where}: functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad: use no_grad(), or omit out="
        )
    declared: Any = ROWS.get(where) or COMPOSITES[where]
    if declared.exact_out and result.array.dtype is not out.array.dtype:
        raise RuntimeError(
            f"{where}: Expected out tensor to have dtype {result.array.dtype}, but got "
            f"{out.array.dtype} instead"
        )
    if not dtypes.can_cast(result.array.dtype, out.array.dtype):
        raise RuntimeError(
            f"{where}: result type {result.array.dtype} can't be cast to the desired output type "
            f"{out.array.dtype}"
        )
    check_unrecorded_write(out)
    resize_output(out, where, result.array.shape)
    if not is_writable(out.array):
        raise RuntimeError(
            f"{where}: the memory cannot be written: shape {out.array.shape}, it is expanded or "
            "read-only; write to a clone()"
        )
    if not isinstance(out.array, np.ndarray) or not isinstance(result.array, np.ndarray):
        check_device(where, out.array, result.array)
        return native.write(out, guard(assign), out.array, result.array)
    return native.write(out, np.copyto, out.array, result.array, "unsafe")


def check_device(where: str, out: Any, result: Any) -> None:
    """Raises RuntimeError if the result is not on the device of `out`."""
    if device_of(out) != device_of(result):
        raise RuntimeError(
            f"{where}: Expected all tensors to be on the same device: out is on {device_of(out)}, "
            f"the result of shape {result.shape} is on {device_of(result)}"
        )
