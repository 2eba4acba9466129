"""What autocast does with each op, by device type: the columns `autocast` and `autocast_cuda`.

CUDA's list is that of PyTorch 2.13's CUDA backend (aten/src/ATen/autocast_mode.h). An op that is
made of others and is not in the list (`gelu` is not, `layer_norm` is) leaves the choice to them.
"""

from __future__ import annotations

from ...native import AUTOCAST, AUTOCAST_CUDA, OBSERVED, PROFILED
from ...ops.table.op_table import Composite, Row

Precisions = dict[str, str]  # device type -> "", "lower", "full", "widest", "alone" or "refused"

BITS = {"cpu": AUTOCAST, "cuda": AUTOCAST_CUDA}
ALL = AUTOCAST | AUTOCAST_CUDA

NONE: Precisions = {"cpu": "", "cuda": ""}


def precisions_of(declared: Row | Composite, form: str = "function") -> Precisions:
    """The precisions of a form of a row, or of a composite."""
    on_cpu, on_cuda = declared.autocast, declared.autocast_cuda
    precision, _, only = on_cuda.partition(" ")
    if only and only != form:
        precision = ""
    return {"cpu": on_cpu, "cuda": precision} if on_cpu or precision else NONE


def modes_of(precisions: Precisions) -> int:
    """The modes that concern an op."""
    return OBSERVED | PROFILED | sum(bit for device, bit in BITS.items() if precisions[device])
