"""The package by another name: `sys.modules["torch"] = shmtensor`, then `import torch.nn`.

Python would load shmtensor/nn a second time, as `torch.nn`, with classes of its own and a second
native module. The finder here gives the module that is there: `torch.nn` is `shmtensor.nn`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any


def is_ours(module: object) -> bool:
    """Whether this is a module of the library, by whatever name it was imported."""
    name = getattr(module, "__name__", None)
    return isinstance(name, str) and name.partition(".")[0] == "shmtensor"


def foreign_module(name: str) -> Any:
    """The module that is imported as `name`; None: there is none, or it is one of ours by another
    name, as `torch` is after `import shmtensor.as_torch`."""
    module = sys.modules.get(name)
    return None if module is None or is_ours(module) else module


class SameModule:
    """Loads a module of ours under another name: `sys.modules` gets the module itself.

    Args:
        target: its own name.
    """

    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> None:
        """None: a module that is dropped when the other has its place."""

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module of ours in the place of `module`, and those that are loaded beneath it.

        Without these, a later `import torch.multiprocessing.spawn` would make the module
        `spawn` an attribute of the package, where the function of this name is.
        """
        name, ours = module.__name__, self.load()
        sys.modules[name] = ours
        beneath = self.target + "."
        for other in [other for other in sys.modules if other.startswith(beneath)]:
            sys.modules.setdefault(name + other[len(self.target) :], sys.modules[other])

    def load(self) -> Any:
        """The module of ours, imported if it is not there yet."""
        return importlib.import_module(self.target)

    def get_code(self, name: str) -> Any:
        """The code of the module, for `python -m`."""
        from importlib.util import find_spec  # here, for the import's time

        spec: Any = find_spec(self.target)
        return spec.loader.get_code(self.target)


class Finder:
    """Finds what lies in the library beneath a module that is imported by another name."""

    loader = SameModule
    modules: Mapping[str, str] = {}  # names of modules that differ

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that gives our own module, or None: the name is the module's own, or nothing of
        ours."""
        if path is None:
            return None
        parent, _, child = name.rpartition(".")
        module = sys.modules.get(parent)
        if not is_ours(module):
            return None
        package = module.__name__  # type: ignore[union-attr]
        if package == parent:
            return None
        beside = vars(module).get(child)
        if isinstance(beside, (type, FunctionType)):  # the import would put a module in its place
            raise ModuleNotFoundError(f"No module named {name!r}: it is {beside!r}", name=name)
        return self.same_module(name, f"{package}.{child}")

    def same_module(self, name: str, target: str) -> ModuleSpec | None:
        """The spec that gives the module `target`, or the one that has its names, by another name;
        None: there is no such module."""
        for own in (target, self.modules.get(target)):
            if own is not None and (found := find_module(own)) is not None:
                is_package = found.submodule_search_locations is not None
                return ModuleSpec(name, self.loader(own), is_package=is_package)  # type: ignore[arg-type]
        return None


def find_module(name: str) -> ModuleSpec | None:
    """The spec of a module; None: there is none, or what is above it is no package."""
    from importlib.util import find_spec  # here, for the import's time

    try:
        return find_spec(name)
    except (ModuleNotFoundError, ValueError):
        return None
