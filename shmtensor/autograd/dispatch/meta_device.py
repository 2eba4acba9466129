"""The device "meta" in the op table: kernels that give shapes and dtypes, from its first use on.

The kernel of a row is its form for "meta" (ops/meta.py); of a view the CPU's own, which reads no
element; of any other row the CPU's, on stand-ins: Note [Stand-ins] in meta_arrays.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import meta_arrays
from ...device import META
from ...dtypes import bfloat16
from ...meta_arrays import MetaArray, run_on_stand_ins
from ...ops import meta
from ...ops.table.op_definition import Row
from . import devices, plan


def kernel_of(row: Row) -> Callable[..., Any]:
    """The kernel of a row for MetaArrays: `(xp, inputs..., attributes...)`."""
    meta.load()
    form = row.device_forwards.get("meta")
    if form is not None:
        return plan.by_position(row, form)
    on_cpu = cpu_kernel(row)
    if row.view:
        return lambda xp, x, *attributes: views_of(x, on_cpu(x.claim, *attributes))
    widens = row.halves == ""
    is_pointwise = row.broadcast or hasattr(row.numpy, "nin")
    n_outputs = len(row.outputs)

    def run(xp: Any, *operands: Any) -> Any:
        kernel = in_float32(on_cpu, n_outputs) if widens else on_cpu
        return run_on_stand_ins(kernel, *operands, name=row.label, integers=int(is_pointwise))

    return run


def cpu_kernel(row: Row) -> Callable[..., Any]:
    """The CPU's kernel: `(inputs..., attributes...)`."""
    kernel = plan.kernel_of(row)
    items, constants = plan.kernel_items(row, None)

    def run(*operands: Any) -> Any:
        arguments = [constants[i] if what == plan.CONSTANT else operands[i] for what, i, _ in items]
        return kernel(*arguments)

    return run


def views_of(x: MetaArray, result: Any) -> Any:
    """The views of x that a kernel made of its claim."""
    if isinstance(result, (list, tuple)):
        return [x.view_of(r) for r in result]
    return x.view_of(result)


def in_float32(kernel: Callable[..., Any], n_outputs: int) -> Callable[..., Any]:
    """A kernel that computes 16-bit floats in float32, as the CPU's rows."""

    def run(*operands: Any) -> Any:
        halves = [x.dtype for x in arrays_in(operands) if is_half(x.dtype)]
        if not halves:
            return kernel(*operands)
        result = kernel(*widened(operands))
        if not isinstance(result, (list, tuple)):
            return narrowed(result, halves[0])
        return tuple(narrowed(r, halves[0]) if i < n_outputs else r for i, r in enumerate(result))

    return run


def is_half(dtype: Any) -> bool:
    return bool(dtype == np.float16 or dtype == bfloat16)


def arrays_in(values: Any) -> Any:
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from arrays_in(value)


def widened(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.astype(np.float32) if is_half(value.dtype) else value
    return type(value)(map(widened, value)) if type(value) in (list, tuple) else value


def narrowed(x: Any, dtype: Any) -> Any:
    return x.astype(dtype) if getattr(x, "dtype", None) == np.float32 else x


devices.register(
    devices.DeviceType(
        "meta", MetaArray, meta_arrays.xp, lambda array: META, kernel_of=kernel_of,
        add_arrays=lambda a, b, out=None: out if out is not None else a,
    )
)  # fmt: skip
