"""Who takes an op over: operands of classes with a `__torch_function__` of their own.

Note [Plain classes]: ops take tensors of `Tensor`, and of the classes that are registered here, by
their memory. A tensor of any other subclass leaves the fast path for `slow.odd`, which asks its
class. Inside `off`, that is in a `__torch_function__` that runs its op, every tensor is plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ... import native

__all__ = ["add_plain_class", "ask", "is_off", "off", "overriders"]

plain_classes: set[type] = set()


def add_plain_class(cls: type) -> None:
    """Tensors of the class have no behaviour of their own: Note [Plain classes]."""
    plain_classes.add(cls)
    native.add_plain_class(cls)


class off:
    """In this block, of this thread, tensors of subclasses are plain tensors."""

    __slots__ = ()

    def __enter__(self) -> None:
        native.turn_overrides_off(1)

    def __exit__(self, *error: object) -> None:
        native.turn_overrides_off(-1)


def is_off() -> bool:
    """Whether this thread is in such a block."""
    return native.turn_overrides_off(0) > 0


def flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from flat(value)
        else:
            yield value


def overriders(operands: Iterable[Any]) -> list[Any]:
    """The operands that take ops over, one of each class, subclasses before their bases."""
    if is_off():
        return []
    found: list[Any] = []
    for x in flat(operands):
        cls = x.__class__
        if cls is native.plain_class() or cls in plain_classes:
            continue
        if not hasattr(cls, "__torch_function__") or any(type(y) is cls for y in found):
            continue
        at = next((i for i, y in enumerate(found) if issubclass(cls, type(y))), len(found))
        found.insert(at, x)
    return found


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
