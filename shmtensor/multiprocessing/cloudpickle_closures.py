"""Lambdas, closures and functions of a notebook: cloudpickle, with handles for shared memory."""

from __future__ import annotations

import io
import pickle
import sys
from collections import ChainMap
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from cloudpickle import CloudPickler, cloudpickle

from .picklable import extra_reductions, is_main_importable

if TYPE_CHECKING:
    from .reduction import _Blocks


class ClosurePickler(CloudPickler):  # type: ignore[misc]
    """cloudpickle's pickler: what can be imported by name goes by name, other functions and classes
    by value."""

    dispatch_table: ClassVar[Any] = ChainMap(extra_reductions, CloudPickler.dispatch_table)

    def __init__(self, buffer: io.BytesIO, blocks: _Blocks) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self.blocks = blocks

    def reducer_override(self, obj: Any) -> Any:
        cls = type(obj)
        if (cls is FunctionType or issubclass(cls, type)) and obj.__module__ == "__main__":
            if is_main_importable() and find(obj.__qualname__) is obj:
                return (
                    NotImplemented  # by name, so that instances keep their class in both processes
                )
            return super().reducer_override(obj)
        reduced = self.blocks.reduce(obj, cls)
        return super().reducer_override(obj) if reduced is NotImplemented else reduced


def name_session_classes() -> None:
    """Gives the classes of a session that nobody can import an identity, which a fork inherits.

    Instances go by value, with their class; by this identity the other side finds the class that it
    has.
    """
    for found in list(vars(sys.modules["__main__"]).values()):
        if isinstance(found, type) and found.__module__ == "__main__":
            cloudpickle._get_or_create_tracker_id(found)


def find(qualname: str) -> Any:
    """What `__main__` has under this name, or None."""
    found: Any = sys.modules["__main__"]
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
