"""Lets the standard library's queues and pipes carry tensors as handles, whoever imports them.

Its ForkingPickler has a table of reductions by class; Tensor and Parameter are entered once
`multiprocessing.reduction` is there, which `import shmtensor` itself does not import.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from .nn import Parameter
from .tensor import Tensor

__all__ = ["enter"]

_WHERE = "multiprocessing.reduction"


def enter() -> None:
    """Enters the classes now, or when the module is imported."""
    module = sys.modules.get(_WHERE)
    if module is not None:
        _register(module)
    else:
        sys.meta_path.insert(0, _Finder())


def _register(module: Any) -> None:
    for cls in (Tensor, Parameter):
        module.ForkingPickler.register(cls, _reduce)


def _reduce(tensor: Tensor) -> Any:
    from importlib import import_module  # above this file, and not needed before

    return import_module("shmtensor.multiprocessing.reduction").reduce_for_stdlib(tensor)


class _Finder:
    """Finds that one module as Python would, and registers when it has run; then it is gone."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _WHERE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            return spec
        run = loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            run(module)
            _register(module)

        loader.exec_module = run_and_register
        return spec
