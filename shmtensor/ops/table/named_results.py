"""Results with names: what functions of several results return (`.values`, `.indices`)."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any

__all__ = ["named", "shape_of"]


@lru_cache(None)
def shape_of(name: str, fields: tuple[str, ...]) -> Any:
    """The tuple class of one function, shown and pickled as PyTorch's `return_types` are."""
    return dressed(namedtuple(name, fields))


def dressed(made: Any) -> Any:
    made.__module__ = "shmtensor.return_types"
    made.__repr__ = shown
    made.__reduce__ = reduced
    return made


def shown(result: Any) -> str:
    parts = ",\n".join(f"{name}={value!r}" for name, value in zip(result._fields, result))
    return f"shmtensor.return_types.{type(result).__name__}(\n{parts})"


def reduced(result: Any) -> Any:
    # By name and fields: the class has no place of its own that pickle could look it up in.
    return filled, (type(result).__name__, result._fields, tuple(result))


def filled(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A result from its pickle."""
    return shape_of(name, fields)(*values)


def named(name: str, **fields: Any) -> Any:
    """A tuple whose fields have names."""
    return shape_of(name, tuple(fields))(*fields.values())
