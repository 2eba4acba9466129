"""NumPy's functions on tensors, except ufuncs: an op runs as that op, with its gradient.

Imported at the first such call. `numpy_function_table.TABLE` has the differentiable functions. Any
other function, and any argument that an entry does not take, runs on the arrays; as `numpy()`, that
refuses tensors that require grad. The results are tensors, except for functions that only convert
or copy (`np.atleast_1d`): libraries use them to get arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.ma  # NumPy imports it on first use; its arrays must not be in shared memory

from .. import native
from .numpy_function_table import TABLE
from .numpy_ufunc import as_tensor_or_array, is_unsupported

# Functions that write their first argument.
WRITERS = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}

# Functions that only convert or copy.
CONVERTERS = {
    "asarray_chkfinite", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "copy",
    "require",
}  # fmt: skip


def array_function(func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a NumPy function on operands of which at least one is a tensor."""
    if not all(issubclass(t, (native.TensorBase, np.ndarray, np.generic)) for t in types):
        return NotImplemented
    entry = TABLE.get(f"{func.__module__}.{func.__name__}")
    if entry is not None and takes(entry, args, kwargs):
        try:
            result = entry(
                *map(as_python_int, args),
                **{name: as_python_int(value) for name, value in kwargs.items()},
            )
        except TypeError:
            if not any(map(is_unsupported, (*args, *kwargs.values()))):
                raise
            result = NotImplemented
        if result is not NotImplemented:
            return result
    if func.__name__ in CONVERTERS:
        return func(*as_arrays(args, {}), **as_arrays(kwargs, {}))
    return on_arrays(func, args, kwargs)


def takes(entry: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a table entry takes these arguments."""
    code = entry.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    has_varargs = bool(code.co_flags & 4)  # *args
    return (has_varargs or len(args) <= code.co_argcount) and all(n in names for n in kwargs)


def as_python_int(value: Any) -> Any:
    """NumPy's integers, as axes, sizes and counts, as Python's."""
    return int(value) if isinstance(value, np.integer) else value


def on_arrays(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the function on arrays; arrays in its result become tensors. Copies: none."""
    outs = kwargs.get("out")
    outs = outs if isinstance(outs, tuple) else (outs,)
    tensor_of = {id(out): out for out in outs}  # `out=` is returned itself
    array_args, array_kwargs = as_arrays(args, tensor_of), as_arrays(kwargs, tensor_of)
    token = native.gate_open()
    try:
        result = func(*array_args, **array_kwargs)
    finally:
        native.gate_close(token)
    for tensor in (*outs, *(args[:1] if func.__name__ in WRITERS else ())):
        if isinstance(tensor, native.TensorBase):
            native.wrote(tensor)
    return as_tensors(result, tensor_of)


def as_arrays(value: Any, tensor_of: dict[int, Any]) -> Any:
    """The value with arrays in place of tensors."""
    if isinstance(value, native.TensorBase):
        array = value.numpy()  # type: ignore[attr-defined]
        tensor_of[id(array)] = value
        return array
    if isinstance(value, dict):
        return {k: as_arrays(v, tensor_of) for k, v in value.items()}
    if value.__class__ in (list, tuple):
        return value.__class__(as_arrays(v, tensor_of) for v in value)
    return value


def as_tensors(result: Any, tensor_of: dict[int, Any]) -> Any:
    """The result with tensors in place of arrays; the arrays of operands become those tensors."""
    if isinstance(result, (np.ndarray, np.generic)):
        return tensor_of[id(result)] if id(result) in tensor_of else as_tensor_or_array(result)
    if isinstance(result, (list, tuple)):
        parts = [as_tensors(v, tensor_of) for v in result]
        cls: Any = type(result)
        return cls(*parts) if hasattr(cls, "_fields") else cls(parts)
    return result
