"""NumPy's functions that are no ufuncs, on tensors: an op runs as that op, with its gradient.

Imported by the first such call. `arraytable.TABLE` has the functions that people differentiate
through. Any other function, and any argument that an entry does not take, runs on the arrays,
which a tensor that requires grad refuses as `numpy()` does. Results are tensors either way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.ma  # NumPy imports it when needed: what it makes then must not lie in shared memory

from .. import native
from .numpy_function_table import TABLE
from .numpy_ufunc import wrapped

__all__ = ["array_function"]

# Functions whose first argument is written.
WRITERS = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}


def array_function(func: Any, types: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The result of a NumPy function on operands of which at least one is a tensor."""
    if not all(issubclass(t, (native.TensorBase, np.ndarray, np.generic)) for t in types):
        return NotImplemented
    entry = TABLE.get(f"{func.__module__}.{func.__name__}")
    if entry is not None and takes(entry, args, named):
        made = entry(*map(as_int, args), **{name: as_int(value) for name, value in named.items()})
        if made is not NotImplemented:
            return made
    return on_arrays(func, args, named)


def takes(entry: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether a table entry has these arguments."""
    code = entry.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    several = bool(code.co_flags & 4)  # *args
    return (several or len(args) <= code.co_argcount) and all(n in names for n in named)


def as_int(value: Any) -> Any:
    """NumPy's whole numbers, which it takes for axes, sizes and counts, as Python's."""
    return int(value) if isinstance(value, np.integer) else value


def on_arrays(func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The function on the tensors' arrays; arrays in its result become tensors. Copies: none."""
    outs = named.get("out")
    outs = outs if isinstance(outs, tuple) else (outs,)
    given = {id(out): out for out in outs}  # by array: `out=` comes back as it was given
    plain_args, plain_named = plain(args, given), plain(named, given)
    token = native.gate_open()
    try:
        made = func(*plain_args, **plain_named)
    finally:
        native.gate_close(token)
    for tensor in (*outs, *(args[:1] if func.__name__ in WRITERS else ())):
        if isinstance(tensor, native.TensorBase):
            native.wrote(tensor)
    return shown(made, given)


def plain(value: Any, given: dict[int, Any]) -> Any:
    """Tensors inside as their arrays."""
    if isinstance(value, native.TensorBase):
        array = value.numpy()  # type: ignore[attr-defined]
        given[id(array)] = value
        return array
    if isinstance(value, dict):
        return {k: plain(v, given) for k, v in value.items()}
    if value.__class__ in (list, tuple):
        return value.__class__(plain(v, given) for v in value)
    return value


def shown(made: Any, given: dict[int, Any]) -> Any:
    """Arrays inside as tensors, those that were given as the tensors that they are."""
    if isinstance(made, (np.ndarray, np.generic)):
        return given[id(made)] if id(made) in given else wrapped(made)
    if isinstance(made, (list, tuple)):
        parts = [shown(v, given) for v in made]
        kind: Any = type(made)
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    return made
