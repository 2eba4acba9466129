"""`out=`: the result of an op, put into tensors that are there."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from .. import dtypes, native
from ..ops import LATER
from .mode import recording
from .resize import resize_output
from .view import may_forget, node_of

__all__ = ["composite_receives", "put", "receiving", "spoken", "straight"]


# Ops whose `out=` must have the result's dtype, as in PyTorch; others convert.
EXACT = {
    "addbmm", "addmm", "addmv", "aminmax", "baddbmm", "bmm", "complex", "dot", "float_power",
    "gather", "matmul", "mm", "multinomial", "mv", "polar", "vdot",
}  # fmt: skip


NAMESPACED = {"i1"}  # rows of the core that a namespace names (`special.i1`)


def spoken(made: Any) -> bool:
    """Whether users call an op by name, of `shmtensor` or of a namespace."""
    return bool(made.function or made.name.partition("_")[0] in LATER or made.name in NAMESPACED)


def receiving(row: Any) -> bool:
    """Whether the public function of a row takes `out=`."""
    taken = {a.name for a in row.attributes}
    return bool(spoken(row) and not row.view and not row.listed and "out" not in taken)


def composite_receives(made: Any) -> bool:
    """Whether `out=` is added to its function: not if it has one, or any keywords (but a copied
    view's are the view's).
    """
    found = inspect.signature(made.compute).parameters.values()
    passing = any(p.kind is p.VAR_KEYWORD for p in found) and not made.name.endswith("_copy")
    return spoken(made) and not passing and not any(p.name == "out" for p in found)


def straight(out: Any, kernel: Any, *given: Any) -> bool:
    """Has a kernel write its result into `out`; False, with nothing written, where that takes more:
    a cast, another shape, broadcasting, a history. Copies: none.
    """
    try:
        array = out._operand
        dtype, shape = array.dtype, array.shape
        if dtype.char not in "fd" or (recording.get() and may_have_history(out)):
            return False
        operands: list[Any] = []
        for x in given:
            if x.__class__ is not float or not operands:  # the first is a tensor
                if recording.get() and may_have_history(x):
                    return False
                x = x._operand
                if x.dtype is not dtype or x.shape != shape:
                    return False
            operands.append(x)
    except (AttributeError, TypeError):
        return False
    native.write(out, kernel, *operands, array)
    return True


def may_have_history(tensor: Any) -> bool:
    return tensor.node is not None or tensor.base is not None


def put(out: Any, where: str, result: Any) -> Any:
    """Copies the result of an op into `out`, which takes its shape. Copies: one.

    Args:
        out: a tensor, or a tuple for an op of several results.
        where: the op, for messages.

    Raises:
        RuntimeError: the result's dtype does not fit; something requires grad.
        TypeError: `out` is no tensor.
    """
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(
                f"{where}: argument 'out' must be a tuple of {len(result)} Tensors: "
                f"{type(out).__name__}"
            )
        made = [put(o, where, r) for o, r in zip(out, result)]
        cls: Any = type(result)
        return cls(*made) if hasattr(cls, "_fields") else tuple(made)
    if not isinstance(out, native.TensorBase):
        raise TypeError(f"{where}: argument 'out' must be Tensor, not {type(out).__name__}")
    if recording.get() and (result.node is not None or node_of(out) is not None):
        raise RuntimeError(
            f"{where}: functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad: use no_grad(), or leave out= away"
        )
    if where in EXACT and result.array.dtype is not out.array.dtype:
        raise RuntimeError(
            f"{where}: Expected out tensor to have dtype {result.array.dtype}, but got "
            f"{out.array.dtype} instead"
        )
    if not dtypes.can_cast(result.array.dtype, out.array.dtype):
        raise RuntimeError(
            f"{where}: result type {result.array.dtype} can't be cast to the desired output type "
            f"{out.array.dtype}"
        )
    may_forget(out)
    resize_output(out, where, result.array.shape)
    return native.write(out, np.copyto, out.array, result.array, "unsafe")
