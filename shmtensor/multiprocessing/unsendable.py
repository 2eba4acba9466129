"""Which attribute of an object cannot be sent to another process: looked for after the pickling
has failed.

The pickler has noted the objects that it reached, the last one being the one that failed. The way
to it is looked for from the top, through attributes, items, variables of closures. That calls no
code of the user's: no `__getattr__`, property, `__iter__` or `__repr__`, and nothing is pickled
again.
"""

from __future__ import annotations

import gc
import mmap
import pickle
import re
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from multiprocessing.process import BaseProcess
from types import (
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any, NamedTuple

import numpy as np

from shmtensor import native
from shmtensor.errors import OutOfSharedMemory
from shmtensor.tensor import Tensor

from .picklable import is_main_importable

START = "multiprocessing: cannot be sent to another process: "
MAX_OBJECTS = 200_000  # looked at before a search without `reached` is given up
MAX_PATH = 400  # characters
ATOMS = (int, float, complex, str, bytes, bytearray, bool, type(None), ModuleType)
OURS = "shmtensor."
# Errors that are raised again as what they are, with another message.
KINDS: tuple[type[Exception], ...] = (
    OutOfSharedMemory,
    MemoryError,
    pickle.PicklingError,
    TypeError,
    AttributeError,
    RuntimeError,
    ValueError,
)


class Node(NamedTuple):
    """An object below what is sent, and the one that holds it."""

    obj: Any
    label: str  # what its path has in addition to the holder's
    holder: Node | None

    def path(self) -> str:
        """How the user reaches it: `dataset.items[3]`."""
        labels, node = [], self
        while node.holder is not None:
            labels.append(node.label)
            node = node.holder
        path = "".join([node.label, *reversed(labels)])
        path = re.sub(r"\._modules\['(\d+)'\]", r"[\1]", path)
        path = re.sub(r"\._(?:modules|parameters|buffers)\['(\w+)'\]", r".\1", path)
        return (
            path if len(path) <= MAX_PATH else f"{path[: MAX_PATH // 2]}...{path[-MAX_PATH // 2 :]}"
        )


def explain(error: Exception, top: Any, reached: Sequence[Any] = ()) -> None:
    """Raises an error of the same kind that names what in `top` cannot be sent. Returns if that
    cannot be said.

    Args:
        reached: the objects that the pickler has reached, in this order; without them a failure in
            Python code is told from its traceback.
    """
    text = None
    with suppress(Exception):  # an object may refuse anything: then the error itself must do
        if not str(error).startswith(START):  # else it is explained
            text = describe_failure(error, top, reached)
    if text is None:
        return
    kind = next((each for each in KINDS if type(error) is each), None)
    if kind is None and isinstance(error, MemoryError):  # NumPy's takes other arguments
        kind = MemoryError
    if kind is not None:
        raise kind(text) from error
    if sys.version_info >= (3, 11):
        error.add_note(text)


def describe_failure(error: Exception, top: Any, reached: Sequence[Any]) -> str | None:
    reason = str(error).removeprefix("multiprocessing: ") or "out of memory"
    failed = reached[-1] if reached else argument_of_reduction(error.__traceback__)
    if isinstance(error, MemoryError):
        return describe_memory(top, failed, reason)
    if failed is None or isinstance(error, RecursionError):
        return None
    hint = ""
    if isinstance(error, (TypeError, pickle.PicklingError, AttributeError)):
        hint = ", hint: leave it out in __getstate__, or make it in the child"
    nodes: dict[int, Node] = {}
    found = None
    for node in walk(top, {id(each) for each in reached} or None, failed):
        nodes[id(node.obj)] = node
        if node.obj is failed:
            found = found or node
            if not has_own_reduction(node.holder):  # else the attribute may be left out
                found = node
                break
    if found is not None:
        return f"{START}{found.path()}: {describe(failed)}: {reason}{hint}"
    # It exists only in what an object is pickled as: name the first such object on the way to the
    # last one that was reached and has a path.
    last = next((nodes[id(each)] for each in reversed(reached) if id(each) in nodes), None)
    while last is not None:
        found = last if has_own_reduction(last) else found
        last = last.holder
    return found and f"{START}{found.path()}: it is pickled as {describe(failed)}: {reason}{hint}"


def argument_of_reduction(traceback: TracebackType | None) -> Any:
    """The object whose reduction raised, by Python code: the argument of the function that the
    pickler called."""
    while traceback is not None and traceback.tb_frame.f_code.co_name != "_dump":
        traceback = traceback.tb_next
    if traceback is None or traceback.tb_next is None:
        return None
    frame = traceback.tb_next.tb_frame
    values = [frame.f_locals.get(name) for name in frame.f_code.co_varnames[:2]]
    return next((each for each in values if not isinstance(each, pickle.Pickler)), None)


def describe_memory(top: Any, failed: Any, reason: str) -> str | None:
    """The array whose copy needs most memory, or the one that failed."""
    found = None
    for node in walk(top, None):
        array = array_of(node.obj)
        if array is None or native.array_layout(array) is not None:
            continue
        if found is None or array.nbytes > array_of(found.obj).nbytes or node.obj is failed:
            found = node
        if node.obj is failed:
            break
    if found is None:
        return None
    array = array_of(found.obj)
    text = f"array of shape {array.shape}, {array.dtype}, {array.nbytes:,} bytes, would be copied"
    if is_mapped(array):
        text = f"a memory-mapped {text}: {reason}, hint: use fork, or open the file in the child"
    else:
        text = f"an {text}: {reason}, hint: use fork, or share_memory_()"
    return f"{START}{found.path()}: {text}"


def array_of(obj: Any) -> Any:
    """The array that is copied with an object, or None."""
    array = obj.array if issubclass(type(obj), Tensor) else obj
    return array if issubclass(type(array), np.ndarray) else None


def is_mapped(array: Any) -> bool:
    """Whether the memory of an array is a mapped file."""
    while array is not None:
        if issubclass(type(array), (np.memmap, mmap.mmap)):
            return True
        array = array.obj if type(array) is memoryview else getattr(array, "base", None)
    return False


def has_own_reduction(node: Node | None) -> bool:
    """Whether Python code of its class says what an object is pickled as."""
    names = ("__getstate__", "__reduce__", "__reduce_ex__")
    classes = () if node is None else type(node.obj).__mro__
    return any(type(vars(each).get(name)) is FunctionType for each in classes for name in names)


def describe(obj: Any) -> str:
    """`a lock`, `a generator`, `a sqlite3.Connection`."""
    cls = type(obj)
    name = cls.__qualname__
    if cls.__module__ not in ("builtins", "_thread", "_io", "threading"):
        name = f"{cls.__module__}.{name}"
    return f"{'an' if name[0] in 'aeioAEIO' or name == 'RLock' else 'a'} {name}"


# ---------------------------------------------------------------- the search
def walk(top: Any, reached: set[int] | None, failed: Any = None) -> Iterator[Node]:
    """All objects below `top`, the nearest first; the one that failed each time it is held.

    Args:
        reached: only these objects, and the containers that the pickler does not report, are
            looked into. None: all are, to a limit.
    """
    queue = deque(Node(part, name, None) for name, part in parts(top))
    seen = {id(node.obj): node.obj for node in queue}  # keeps them, and with them their ids
    while queue:
        node = queue.popleft()
        yield node
        if node.obj is failed:
            continue
        is_container = type(node.obj) in (tuple, list, dict, set, frozenset)
        if reached is not None and not is_container and id(node.obj) not in reached:
            continue
        for label, child in children(node.obj):
            if reached is None and len(seen) > MAX_OBJECTS:
                return
            if type(child) not in ATOMS and (id(child) not in seen or child is failed):
                seen[id(child)] = child
                queue.append(Node(child, label, node))


def parts(top: Any, name: str = "object") -> Iterator[tuple[str, Any]]:
    """What is sent, under the names that the user knows: the arguments of a process, the fields of
    a loader's recipe."""
    cls = type(top)
    if issubclass(cls, BaseProcess):
        yield from parts_of_process(top)
    elif is_dataclass(cls) and cls.__module__.startswith(OURS):
        for field in fields(cls):
            yield from parts(getattr(top, field.name), field.metadata.get("name", field.name))
    elif cls is tuple and name == "object":
        for i, item in enumerate(top):
            yield from parts(item, f"object[{i}]")
    else:
        yield name, top


def parts_of_process(process: Any) -> Iterator[tuple[str, Any]]:
    attributes = dict(vars(process))
    target, args, kwargs = (attributes.pop(f"_{key}", None) for key in ("target", "args", "kwargs"))
    function = target.__func__ if type(target) is MethodType else target
    names: Sequence[str] = ()
    is_ours = False
    if type(function) is FunctionType:
        code = function.__code__
        names = code.co_varnames[type(target) is MethodType : code.co_argcount]
        is_ours = function.__module__.startswith(OURS)
    for i, value in enumerate(args or ()):
        name = names[i] if i < len(names) else f"args[{i}]"
        if is_ours and hasattr(value, "_asdict"):  # a named tuple of what the user gave us
            yield from value._asdict().items()
        else:
            yield from parts(value, name)
    yield from (kwargs or {}).items()
    yield "target", target
    for name, value in attributes.items():
        yield f"{type(process).__name__}.{name}", value


def children(obj: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, each with what its path has in addition."""
    cls = type(obj)
    if cls is FunctionType or issubclass(cls, type):
        if not is_sent_by_name(obj):
            yield from (children_of_function if cls is FunctionType else children_of_class)(obj)
        return
    if issubclass(cls, dict):
        for key, value in list(dict.items(obj)):
            shown = repr(key)[:40] if type(key) in ATOMS else f"<{type(key).__name__}>"
            yield f"[{shown}]", value
            yield "'s key", key
    for base in (list, tuple, deque, set, frozenset):
        if issubclass(cls, base):
            names = getattr(cls, "_fields", ()) if base is tuple else ()
            for i, item in enumerate(list(base.__iter__(obj))):
                if type(item) not in ATOMS:  # there may be millions
                    yield (f".{names[i]}" if i < len(names) else f"[{i}]"), item
    if cls is np.ndarray and obj.dtype.hasobject:
        for i, item in enumerate(obj.flat):
            yield f".flat[{i}]", item
    attributes: Any = None
    with suppress(AttributeError):  # it has none
        attributes = object.__getattribute__(obj, "__dict__")
        for name, value in list(attributes.items()):
            yield f".{name}", value
    for each in cls.__mro__:
        for name, member in list(vars(each).items()):
            if type(member) is MemberDescriptorType:
                with suppress(AttributeError):  # it is not set
                    yield f".{name}", member.__get__(obj)
    yield ".__class__", cls
    for item in gc.get_referents(obj):  # of a class in C
        if item is not attributes:
            yield "'s content", item


def children_of_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is empty
            yield f"'s variable {name}", cell.cell_contents
    for name in global_names(code):
        if name in function.__globals__:
            yield f"'s global {name}", function.__globals__[name]
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield "'s default", value
    for name, value in vars(function).items():
        yield f".{name}", value


def global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from global_names(constant)


def children_of_class(cls: type) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(cls).items()):
        if type(value) is not MemberDescriptorType:
            yield f".{name}", value
    for base in cls.__bases__:
        yield f".{base.__name__}", base


def is_sent_by_name(obj: Any) -> bool:
    """Whether the receiver imports a function or class."""
    if obj.__module__ == "__main__" and not is_main_importable():
        return False
    found: Any = sys.modules.get(obj.__module__)
    for part in obj.__qualname__.split("."):
        is_space = issubclass(type(found), (ModuleType, type))
        found = vars(found).get(part) if is_space else None
    return found is obj
