"""The names of PyTorch that a program asked for and this library lacks, reported at its end.

SHMTENSOR_AS_TORCH_MISSING=1 asks for it, or `python -m shmtensor.as_torch --missing`. The first
process makes a file, to which it and its children append; the variable then holds its pid and the
file's path.
"""

from __future__ import annotations

import atexit
import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from ..other_names import is_ours
from ..tensor import Tensor

VARIABLE = "SHMTENSOR_AS_TORCH_MISSING"
PYTORCH_NAMES = {"shmtensor.as_torch.torchvision": "torchvision", "shmtensor": "torch"}

LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})

_file: Path | None = None
_noted: set[str] = set()
_paused = 0


def start() -> None:
    """Begins to watch, if the environment variable asks for it."""
    global _file
    value = os.environ.get(VARIABLE, "")
    if value in ("", "0") or _file is not None:
        return
    if ":" not in value:
        descriptor, path = tempfile.mkstemp(prefix="shmtensor-missing-names-")
        os.close(descriptor)
        value = os.environ[VARIABLE] = f"{os.getpid()}:{path}"
    owner, _, path = value.partition(":")
    _file = Path(path)
    watch(sys.modules["shmtensor"])
    tensor: Any = Tensor
    tensor.__getattr__ = tensor_attribute
    if owner == str(os.getpid()):
        atexit.register(report)


def note(name: str) -> None:
    """Appends a name, and the line that asked for it, unless this process has done so."""
    if _file is None or name in _noted or not _file.exists():
        return
    _noted.add(name)
    frame: Any = sys._getframe(1)
    while frame is not None and is_machinery(frame):
        frame = frame.f_back
    where = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
    with _file.open("a") as file:
        file.write(f"{name}\t{where}\n")


def is_machinery(frame: Any) -> bool:
    """Whether a frame is of this library, or of Python's import system."""
    name = frame.f_globals.get("__name__", "")
    return is_ours_by_name(name) or "importlib" in frame.f_code.co_filename


def report() -> None:
    """Prints what was noted, and removes the file; in the process that made it."""
    if _file is None or not _file.exists() or os.environ[VARIABLE] != f"{os.getpid()}:{_file}":
        return
    places: dict[str, str] = {}
    for line in _file.read_text().splitlines():
        name, _, where = line.partition("\t")
        places.setdefault(name, where)
    _file.unlink()
    if not places:
        print("shmtensor.as_torch: no name of PyTorch was missing", file=sys.stderr)
        return
    print("shmtensor.as_torch: these names of PyTorch were missing:", file=sys.stderr)
    for name, where in sorted(places.items()):
        print(f"  {name}  ({where})", file=sys.stderr)


@contextmanager
def paused() -> Iterator[None]:
    """Inside, attributes that are missing are not noted: an import looks for one first."""
    global _paused
    _paused += 1
    try:
        yield
    finally:
        _paused -= 1


class WatchedModule(ModuleType):
    """A module of ours that notes the public names which it lacks."""

    def __getattribute__(self, name: str) -> Any:
        try:
            value = super().__getattribute__(name)
        except AttributeError:
            if not (_paused or name.startswith("__")) and is_asked_from_outside():
                note_attribute(vars(self)["__name__"], name)
            raise
        if type(value) is ModuleType and is_ours(value):
            watch(value)
        return value


def watch(module: ModuleType) -> None:
    module.__class__ = WatchedModule


def note_attribute(module: str, name: str) -> None:
    """Notes an attribute, unless it is a module that an import is looking for."""
    from importlib.util import find_spec

    for own, of_pytorch in PYTORCH_NAMES.items():
        if module == own or module.startswith(f"{own}."):
            full_name = f"{of_pytorch}{module[len(own) :]}.{name}"
            is_module = False
            with paused(), suppress(ModuleNotFoundError, ValueError):
                is_module = find_spec(full_name) is not None
            if not is_module:
                note(full_name)
            return


def is_asked_from_outside() -> bool:
    """Whether the code that reads an attribute of a watched object is neither the library's nor an
    installed package's: those look for attributes of many libraries."""
    frame = sys._getframe(2)
    if is_ours_by_name(frame.f_globals.get("__name__", "")):
        return False
    return not frame.f_code.co_filename.startswith(LIBRARIES)


def is_ours_by_name(name: str) -> bool:
    return name.partition(".")[0] == "shmtensor"


def tensor_attribute(tensor: Any, name: str) -> Any:
    """`Tensor.__getattr__` while it is watched: called for what a tensor lacks."""
    if not name.startswith("__") and is_asked_from_outside():
        note(f"torch.Tensor.{name}")
    raise AttributeError(
        f"{type(tensor).__name__!r} object has no attribute {name!r}", name=name, obj=tensor
    )
