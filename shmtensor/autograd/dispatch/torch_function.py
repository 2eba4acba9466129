"""`__torch_function__`: operands of subclasses that override ops.

Note [Plain classes]: ops use the memory of tensors of `Tensor`, and of the classes that are
registered here. A tensor of any other subclass leaves the fast path for
`general_call.call_general`, which calls its class's `__torch_function__`. In a `disabled` block,
such as a `__torch_function__` that runs its op, every tensor is plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ... import native
from .foreign_operands import library_of

plain_classes: set[type] = set()


def add_plain_class(cls: type) -> None:
    """Registers a class without behaviour of its own: Note [Plain classes]."""
    plain_classes.add(cls)
    native.add_plain_class(cls)


class disabled:
    """In this block, in this thread, tensors of subclasses are plain."""

    __slots__ = ()

    def __enter__(self) -> None:
        native.turn_overrides_off(1)

    def __exit__(self, *error: object) -> None:
        native.turn_overrides_off(-1)


def is_disabled() -> bool:
    """Whether this thread is in such a block."""
    return native.turn_overrides_off(0) > 0


def flatten(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from flatten(value)
        else:
            yield value


def overloaded_args(operands: Iterable[Any]) -> list[Any]:
    """The operands that override ops, one of each class, subclasses before their bases. A tensor
    of PyTorch overrides none: Note [Operands of one library] in foreign_operands.py.
    """
    if is_disabled():
        return []
    overloaded: list[Any] = []
    for x in flatten(operands):
        cls = x.__class__
        if cls is native.plain_class() or cls in plain_classes:
            continue
        if not hasattr(cls, "__torch_function__") or any(type(y) is cls for y in overloaded):
            continue
        if library_of(x) is not None:
            continue
        position = next(
            (i for i, y in enumerate(overloaded) if issubclass(cls, type(y))), len(overloaded)
        )
        overloaded.insert(position, x)
    return overloaded


def call_torch_function(
    overloaded: list[Any], function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The first result of the operands' `__torch_function__` that is not NotImplemented."""
    types = tuple(type(x) for x in overloaded)
    for x in overloaded:
        result = type(x).__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"{function.__name__}: no implementation found for types that implement "
        f"__torch_function__: {[t.__name__ for t in types]}"
    )
