"""The device "meta" in the op table: kernels that give shapes and dtypes, from its first use on.

The kernel of a row is its form for "meta" (ops/meta.py); of a view the CPU's own, which reads no
element; of any other row the CPU's, on stand-ins: Note [Stand-ins] in meta_arrays.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import meta_arrays, native
from ...device import META
from ...meta_arrays import MetaArray, run_on_stand_ins
from ...ops import meta
from ...ops.table.op_table import Row
from . import devices, plan


def kernel_of(row: Row) -> Callable[..., Any]:
    """The kernel of a row for MetaArrays: `(xp, inputs..., attributes...)`."""
    meta.load()
    form = row.forward_on("meta")
    if form is not None:
        return plan.by_position(row, form)
    on_cpu = cpu_kernel(row)
    if row.view:
        return lambda xp, x, *attributes: views_of(x, on_cpu(x.claim, *attributes))
    kernel = on_cpu if row.halves else native.InFloat32(on_cpu, len(row.outputs))
    is_pointwise = row.broadcast or hasattr(row.numpy, "nin")

    def run(xp: Any, *operands: Any) -> Any:
        return run_on_stand_ins(kernel, *operands, name=row.label, integers=int(is_pointwise))

    return run


def cpu_kernel(row: Row) -> Callable[..., Any]:
    """The CPU's kernel: `(inputs..., attributes...)`."""
    kernel = plan.kernel_of(row)
    items, constants = plan.kernel_items(row, None)

    def run(*operands: Any) -> Any:
        arguments = [constants[i] if what == "constant" else operands[i] for what, i, _ in items]
        return kernel(*arguments)

    return run


def views_of(x: MetaArray, result: Any) -> Any:
    """The views of x that a kernel made of its claim."""
    if isinstance(result, (list, tuple)):
        return [x.view_of(r) for r in result]
    return x.view_of(result)


devices.register(
    devices.DeviceType(
        "meta", MetaArray, meta_arrays.xp, lambda array: META, kernel_of=kernel_of,
        add_arrays=lambda a, b, out=None: out if out is not None else a,
    )
)  # fmt: skip
