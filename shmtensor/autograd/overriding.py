"""Who takes an op over: operands of classes with a `__torch_function__` of their own.

Such operands hide their memory from generated code (Note [Hidden operands] in tensor/subclass.py),
so that their ops come to `operands.sort_out`, and from there to this file.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import native

__all__ = ["ask", "is_off", "off", "operand", "overriders", "taken_over"]


class State(threading.local):
    """How many `__torch_function__` of this thread run their op just now."""

    depth = 0


state = State()


@contextmanager
def off() -> Iterator[None]:
    """In this block operands of subclasses are plain tensors."""
    state.depth += 1
    try:
        yield
    finally:
        state.depth -= 1


def is_off() -> bool:
    """Whether this thread is in such a block."""
    return state.depth > 0


def operand(tensor: Any) -> Any:
    """What a subclass shows generated code: its array within `off`, else nothing."""
    if state.depth:
        return tensor.array
    raise AttributeError("_operand")


def flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from flat(value)
        else:
            yield value


def overriders(operands: Iterable[Any]) -> list[Any]:
    """The operands that take ops over, one of each class, subclasses before their bases."""
    if state.depth:
        return []
    found: list[Any] = []
    for x in flat(operands):
        cls = type(x)
        if not hasattr(cls, "__torch_function__") or any(type(y) is cls for y in found):
            continue
        if isinstance(x, native.TensorBase) and not hides(cls):
            continue
        at = next((i for i, y in enumerate(found) if issubclass(cls, type(y))), len(found))
        found.insert(at, x)
    return found


def hides(cls: Any) -> bool:
    """Whether tensors of the class leave the fast path."""
    return isinstance(getattr(cls, "_operand", None), property)


def ask(takers: list[Any], function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The first answer of a taker.

    Raises:
        TypeError: none of them knows.
    """
    types = tuple(type(x) for x in takers)
    for x in takers:
        made = type(x).__torch_function__(function, types, args, named)
        if made is not NotImplemented:
            return made
    raise TypeError(
        f"{function.__name__}: no implementation found for types that implement "
        f"__torch_function__: {[t.__name__ for t in types]}"
    )


FIRST = {"input", "tensor", "tensors", "condition"}  # what a composite's tensors are called


def foreign(operands: Iterable[Any]) -> list[Any]:
    """The overriders, if one of them is no tensor. (Subclasses see the rows that a composite is
    made of.)
    """
    found = overriders(operands)
    return found if any(not isinstance(x, native.TensorBase) for x in found) else []


def all_plain(value: Any) -> bool:
    """Is it a list of plain tensors?"""
    return value.__class__ in (list, tuple) and set(map(type, value)) == {native.plain_class()}


def taken_over(parameters: list[inspect.Parameter], shared: dict[str, Any]) -> str:
    """The lines of a composite's function that ask operands which are no tensors."""
    if not parameters or parameters[0].name not in FIRST:
        return ""
    shared.update(_foreign=foreign, _ask=ask, _plain=native.plain_class(), _all_plain=all_plain)
    given = [
        ("*" if p.kind is p.VAR_POSITIONAL else "") + p.name
        for p in parameters
        if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
    ]
    named = [f"{p.name!r}: {p.name}" for p in parameters if p.kind is p.KEYWORD_ONLY]
    named += [f"**{p.name}" for p in parameters if p.kind is p.VAR_KEYWORD]
    operands, first = f"({', '.join(given)},)", parameters[0].name
    return (
        f"    if {first}.__class__ is not _plain and not _all_plain({first}) and (\n"
        f"        _takers := _foreign({operands})\n    ):\n"
        f"        return _ask(_takers, _public, {operands}, {{{', '.join(named)}}})\n"
    )
