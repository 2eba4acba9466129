"""Modules whose parameters are not initialised."""

from __future__ import annotations

import inspect
from typing import Any

from .. import init
from ..modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters have memory but no initial values; no random number is drawn.

    Args:
        module_cls: a subclass of Module that takes an argument `device`.
        args, kwargs: for it.

    Raises: RuntimeError: another class, or one without `device`.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with init.skip_initialization():
        return module_cls(*args, **kwargs)
