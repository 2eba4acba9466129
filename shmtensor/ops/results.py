"""Results with names: what functions of several results return (`.values`, `.indices`)."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any

__all__ = ["named"]


@lru_cache(None)
def shape_of(name: str, fields: tuple[str, ...]) -> Any:
    """The tuple class of one function."""
    return namedtuple(name, fields)


def named(name: str, **fields: Any) -> Any:
    """A tuple whose fields have names."""
    return shape_of(name, tuple(fields))(*fields.values())
