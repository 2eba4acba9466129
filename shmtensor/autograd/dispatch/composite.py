"""Composites as callables: `native.Composite` calls `compute(ops, ...)`; what is odd about a call
comes here.
"""

from __future__ import annotations

import inspect
from typing import Any

from ... import native
from ...ops.table.op_definition import Composite
from .explain_error import mistaken
from .out_argument import put
from .plan import AUTOCAST, OBSERVED, is_public
from .slow import wrong_call
from .torch_function import ask, overriders

__all__ = ["callable_of", "failed", "foreign", "out", "signature"]

FIRST = {"input", "tensor", "tensors", "condition"}  # what a composite's tensors are called
HAS_KEYWORDS = inspect.CO_VARKEYWORDS


def callable_of(made: Composite, ops: Any, on_tensors: bool) -> Any:
    """The function of a composite, on Tensors or on plain arrays."""
    code = made.compute.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    passing = code.co_flags & HAS_KEYWORDS and not made.name.endswith("_copy")
    takes_out = is_public(made) and not passing and "out" not in names
    takes_first = on_tensors and len(names) > 1 and names[1] in FIRST
    kind = made.autocast if on_tensors else ""
    return native.Composite(
        made.name, made.doc, made.compute, ops, OBSERVED | AUTOCAST * bool(kind), kind,
        on_tensors | takes_first << 1 | takes_out << 2,
    )  # fmt: skip


def signature(called: Any) -> inspect.Signature:
    """The signature of a composite's function: that of `compute`, without the table."""
    shown = list(inspect.signature(called.compute).parameters.values())[1:]
    if called.takes_out:
        named = [p for p in shown if p.kind is p.VAR_KEYWORD]
        shown = [p for p in shown if p.kind is not p.VAR_KEYWORD]
        shown.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
        shown += named
    return inspect.Signature(shown)


def foreign(called: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What the overriders among the operands make of a call, if one of them is no tensor;
    NotImplemented if there is none. (Subclasses see the rows that a composite is made of.)
    """
    found = overriders((*args, *named.values()))
    if all(isinstance(x, native.TensorBase) for x in found):
        return NotImplemented
    return ask(found, called, args, named)


def out(called: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A call with `out=`: the result is copied there."""
    target = named.pop("out")
    result = called.unobserved(*args, **named)
    return result if target is None else put(target, called.__name__, result)


def failed(called: Any, args: tuple[Any, ...], named: dict[str, Any], error: Exception) -> Any:
    """Raises what the caller should see of an error that may be about the arguments.

    Raises:
        TypeError: an argument is missing, not known, or no tensor where one is needed.
    """
    shown = signature(called)
    try:
        bound = shown.bind(*args, **named)
    except TypeError:
        raise wrong_arguments(called.__name__, shown, args, named) from None
    if isinstance(error, AttributeError):
        mistaken(called.__name__, error, bound.arguments)
    raise error


def wrong_arguments(
    name: str, shown: inspect.Signature, args: tuple[Any, ...], named: dict[str, Any]
) -> TypeError:
    """The error of a call that does not fit a signature."""
    parameters = list(shown.parameters.values())
    by_position = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    named_ones = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    known = [p.name for p in named_ones]
    required = [p.name for p in named_ones if p.default is p.empty]
    return wrong_call(name, by_position, required, known, args, named)
