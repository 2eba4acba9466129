"""Composites as callables: `native.Composite` calls `compute(ops, ...)`; the functions here handle
other arguments and errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ... import native
from ...ops.table.op_table import COMPOSITES, ROWS, Composite
from .autocast_lists import NONE, modes_of, precisions_of
from .explain_error import PUBLIC_NAMES, as_int, explain_missing_attribute, has_numpy_integers
from .foreign_operands import refuse_foreign
from .general_call import multiple_values, wrong_call
from .numpy_messages import translate
from .out_argument import copy_to_out
from .plan import NUMPY_NAMES, is_public
from .torch_function import call_torch_function, overloaded_args

FIRST = {"input", "tensor", "tensors", "condition"}  # names of a first argument that is a tensor
OURS = {numpy: ours for ours, numpy in NUMPY_NAMES.items()}
HAS_KEYWORDS = inspect.CO_VARKEYWORDS


def callable_of(composite: Composite, ops: Any, on_tensors: bool) -> Any:
    """The function of a composite, on Tensors or on plain arrays."""
    code = composite.compute.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    has_keywords = code.co_flags & HAS_KEYWORDS and not composite.name.endswith("_copy")
    takes_out = is_public(composite) and not has_keywords and "out" not in names
    takes_first = on_tensors and len(names) > 1 and names[1] in FIRST
    precisions = precisions_of(composite) if on_tensors else NONE
    return native.Composite(
        composite.name, composite.doc, composite.compute, ops,
        modes_of(precisions), precisions,
        {"on_tensors": on_tensors, "takes_first": takes_first, "takes_out": takes_out},
    )  # fmt: skip


def signature(composite: Any) -> inspect.Signature:
    """The signature of a composite's function: that of `compute`, without the table."""
    parameters = list(inspect.signature(composite.compute).parameters.values())[1:]
    if composite.takes_out:
        var_keyword = [p for p in parameters if p.kind is p.VAR_KEYWORD]
        parameters = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
        parameters.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
        parameters += var_keyword
    return inspect.Signature(parameters)


def call_overloaded(composite: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the `__torch_function__` of the operands, if one of them is not a tensor; else returns
    NotImplemented. (Tensor subclasses see the rows that a composite calls.)
    """
    overloaded = overloaded_args((*args, *kwargs.values()))
    if not overloaded:
        refuse_foreign(composite.__name__, (*args, *kwargs.values()))
    if all(isinstance(x, native.TensorBase) for x in overloaded):
        return NotImplemented
    return call_torch_function(overloaded, composite, args, kwargs)


def out(composite: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls with `out=`, and copies the result there."""
    target = kwargs.pop("out")
    result = composite.unobserved(*args, **kwargs)
    return result if target is None else copy_to_out(target, composite.__name__, result)


def explain(composite: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> Any:
    """Raises the error that the caller sees: it names this function, not one that it calls. A call
    that names its sizes, as `zeros(size=(2, 3))`, or has NumPy's names, as `x.max(axis=0)`, did not
    fit either: its result. So is that of a call with NumPy's integers, with ints in their place.

    Raises:
        TypeError: an argument is missing, unknown, of another library, or not a tensor where one is
            needed.
    """
    refuse_foreign(composite.__name__, (*args, *kwargs.values()))
    if isinstance(error, (AttributeError, TypeError)):
        expected = signature(composite)
        try:
            bound = expected.bind(*args, **kwargs)
        except TypeError:
            bound = None
        if bound is None:  # outside of the handler, so that an error in the call has no context
            ours = {OURS.get(name, name): value for name, value in kwargs.items()}
            is_ours = (ours.keys() - kwargs.keys()) & expected.parameters.keys()
            if is_ours and len(ours) == len(kwargs):
                return composite(*args, **ours)
            return call_with_size(composite, expected, args, kwargs)
        if isinstance(error, AttributeError):
            explain_missing_attribute(composite.__name__, error, bound.arguments)
    values = (*args, *kwargs.values())
    if has_numpy_integers(values) and isinstance(error, (TypeError, ValueError)):
        return composite(*map(as_int, args), **{n: as_int(x) for n, x in kwargs.items()})
    rename(error, composite, values)
    raise error


def call_with_size(
    composite: Any, expected: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a call that names its sizes.

    Raises:
        TypeError: it does not fit for another reason.
    """
    sizes = sized_parameter(expected)
    if sizes not in kwargs:
        raise wrong_arguments(composite.__name__, expected, args, kwargs)
    if len(args) > list(expected.parameters).index(sizes):
        raise multiple_values(composite.__name__, sizes)
    return composite(*args, *sizes_by_name(composite, kwargs.pop(sizes)), **kwargs)


def rename(error: Exception, composite: Any, values: Sequence[Any]) -> None:
    """Puts the name of a composite where its error names an op that the composite calls, and before
    an error of Python or NumPy; such a one gets the arguments that are no tensors, too.
    """
    name = composite.__name__
    if name.startswith("_") or not error.args or not isinstance(error.args[0], str):
        return
    where, separator, what = error.args[0].partition(": ")
    if {where, f"_{where}"} & (ROWS.keys() | COMPOSITES.keys()) or where in PUBLIC_NAMES.values():
        error.args = (f"{name}{separator}{what}", *error.args[1:])
    elif (text := translate(error.args[0])) != error.args[0]:
        shown = ", ".join(f"{x!r:.40}" for x in values if not isinstance(x, native.TensorBase))
        error.args = (f"{name}: {text}{': ' * bool(shown)}{shown}", *error.args[1:])


def sized_parameter(expected: inspect.Signature) -> str:
    """The name of the parameter that takes several sizes, as `*size`; "" if there is none."""
    parameters = expected.parameters.values()
    return next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")


def sizes_by_name(composite: Any, sizes: Any) -> tuple[Any, ...]:
    """The value of the keyword of `*size`, which must be a sequence."""
    if not isinstance(sizes, (Sequence, native.TensorBase)) or isinstance(sizes, str):
        raise TypeError(
            f"{composite.__name__}: size must be a tuple of ints, not {type(sizes).__name__}: "
            f"{sizes!r}"
        )
    values: Any = sizes
    return tuple(values)


def wrong_arguments(
    name: str, expected: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError:
    """The error of a call that does not fit a signature."""
    parameters = list(expected.parameters.values())
    by_position = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names = [p.name for p in named]
    required = [p.name for p in named if p.default is p.empty]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        args = ()  # there cannot be too many of them
    return wrong_call(name, by_position, required, names, args, kwargs)
