"""Lets the queues and pipes of the standard library and of loky carry tensors as handles, whoever
imports them.

Each has a table of reductions by class; our classes are entered once the module with the table is
there, which `import shmtensor` itself does not import. joblib brings a loky of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, TypeAlias

__all__ = ["enter", "reduce_tensor", "set_multiprocessing"]

Reduction: TypeAlias = Callable[[Any], Any]
load_multiprocessing: Callable[[], Any]  # gives the package, which stands above this file


def _of_the_standard_library(module: Any) -> Any:
    return module.ForkingPickler.register


def _of_loky(module: Any) -> Any:
    return module.register


# What enters a reduction, by the module that has the table.
_TABLES: dict[str, Callable[[Any], Any]] = {
    "multiprocessing.reduction": _of_the_standard_library,
    "loky.backend.reduction": _of_loky,
    "joblib.externals.loky.backend.reduction": _of_loky,
}


# Our classes so far, and the tables so far.
_classes: dict[type, Reduction] = {}
_tables: dict[str, ModuleType] = {}


def enter(cls: type, reduce: Reduction) -> None:
    """Enters a class in each table now, or when its module is imported."""
    if not _classes:
        _watch()
    _classes[cls] = reduce
    for name, module in _tables.items():
        _TABLES[name](module)(cls, reduce)


def set_multiprocessing(load: Callable[[], Any]) -> None:
    """Says how `shmtensor.multiprocessing` is imported, when a tensor first travels."""
    global load_multiprocessing
    load_multiprocessing = load


def reduce_tensor(tensor: Any) -> Any:
    """How a tensor travels through a queue that is not ours."""
    return load_multiprocessing().reduction.reduce_for_stdlib(tensor)


def _watch() -> None:
    missing = set(_TABLES)
    for name in _TABLES:
        module = sys.modules.get(name)
        if module is not None:
            missing.remove(name)
            _register(name, module)
    if missing:
        sys.meta_path.insert(0, _Finder(missing))


def _register(name: str, module: ModuleType) -> None:
    _tables[name] = module
    register = _TABLES[name](module)
    for cls, reduce in _classes.items():
        register(cls, reduce)


class _Finder:
    """Finds those modules as Python would, and registers when one has run."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        self._names.remove(name)
        if not self._names:
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            return spec
        run = loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            run(module)
            _register(name, module)

        loader.exec_module = run_and_register
        return spec
