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
    """cloudpickle's pickler: importable functions and classes are sent by name, others by value.

    Args:
        reached: takes the objects in the order in which they are pickled, but for basic types.
    """

    dispatch_table: ClassVar[Any] = ChainMap(extra_reductions, CloudPickler.dispatch_table)

    def __init__(self, reached: list[Any], buffer: io.BytesIO, blocks: _Blocks) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self.reached = reached
        self.blocks = blocks

    def reducer_override(self, obj: Any) -> Any:
        self.reached.append(obj)
        cls = type(obj)
        if (cls is FunctionType or issubclass(cls, type)) and obj.__module__ == "__main__":
            if is_main_importable() and find(obj.__qualname__) is obj:
                return NotImplemented  # by name: instances have the same class in both processes
            return super().reducer_override(obj)
        reduced = self.blocks.reduce(obj, cls)
        return super().reducer_override(obj) if reduced is NotImplemented else reduced


def name_session_classes() -> None:
    """Gives each class of an interactive session an identity that a fork inherits.

    Instances are sent by value with their class; by the identity the receiver recognises its own
    class.
    """
    for obj in list(vars(sys.modules["__main__"]).values()):
        if isinstance(obj, type) and obj.__module__ == "__main__":
            cloudpickle._get_or_create_tracker_id(obj)


def find(qualname: str) -> Any:
    """The object of this name in `__main__`, or None."""
    obj: Any = sys.modules["__main__"]
    for name in qualname.split("."):
        obj = getattr(obj, name, None)
    return obj
