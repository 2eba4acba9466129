"""Registers reductions, so that the queues and pipes of the standard library and of loky send
tensors as handles.

Each module has a table of reductions by class. Our classes are registered once such a module is
imported; `import shmtensor` itself does not import it. joblib has its own copy of loky.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from operator import attrgetter
from types import ModuleType
from typing import Any, TypeAlias

Reduction: TypeAlias = Callable[[Any], Any]
load_multiprocessing: Callable[[], Any]  # returns the package, which is in a higher layer


# The function that registers a reduction, by the module with the table.
_TABLES: dict[str, Callable[[Any], Any]] = {
    "multiprocessing.reduction": attrgetter("ForkingPickler.register"),
    "loky.backend.reduction": attrgetter("register"),
    "joblib.externals.loky.backend.reduction": attrgetter("register"),
}


# Our classes and the imported modules so far.
_classes: dict[type, Reduction] = {}
_tables: dict[str, ModuleType] = {}


def register_class(cls: type, reduce: Reduction) -> None:
    """Registers a class in each table, now or when its module is imported."""
    if not _classes:
        _watch()
    _classes[cls] = reduce
    for name, module in _tables.items():
        _TABLES[name](module)(cls, reduce)


def set_multiprocessing(load: Callable[[], Any]) -> None:
    """Sets the function that imports `shmtensor.multiprocessing` when a tensor is first sent."""
    global load_multiprocessing
    load_multiprocessing = load


def reduce_tensor(tensor: Any) -> Any:
    """The reduction of a tensor in a queue that is not ours."""
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
    """Finds the modules as Python does, and registers our classes after one is executed."""

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
