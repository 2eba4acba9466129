"""Results with names: what functions of several results return (`.values`, `.indices`)."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any


@lru_cache(None)
def shape_of(name: str, fields: tuple[str, ...]) -> Any:
    """The tuple class of one function, with the repr and pickle of PyTorch's `return_types`."""
    return as_return_type(namedtuple(name, fields))


def as_return_type(tuple_class: Any) -> Any:
    tuple_class.__module__ = "shmtensor.return_types"
    tuple_class.__repr__ = result_repr
    tuple_class.__reduce__ = result_reduce
    return tuple_class


def result_repr(result: Any) -> str:
    parts = ",\n".join(f"{name}={value!r}" for name, value in zip(result._fields, result))
    return f"shmtensor.return_types.{type(result).__name__}(\n{parts})"


def result_reduce(result: Any) -> Any:
    # By name and fields: pickle could not find the class in a module.
    return filled, (type(result).__name__, result._fields, tuple(result))


def filled(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Rebuilds a result from its pickle, which names this function."""
    return shape_of(name, fields)(*values)


def named_result(name: str, **fields: Any) -> Any:
    """A tuple whose fields have names."""
    return shape_of(name, tuple(fields))(*fields.values())
