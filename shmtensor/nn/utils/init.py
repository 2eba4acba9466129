"""Modules whose parameters are not initialised."""

from __future__ import annotations

import inspect
from typing import Any

from .. import init
from ..modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters have memory but no initial values; no random number is drawn.

    Parameters
    ----------
    module_cls : type
        A subclass of Module that takes an argument `device`.
    *args, **kwargs
        For it.

    Returns
    -------
    Module

    Raises
    ------
    RuntimeError
        Another class, or one without `device`.

    Examples
    --------
    >>> nn.utils.skip_init(nn.Linear, 3, 2).weight.shape
    Size([2, 3])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with init.skip_initialization():
        return module_cls(*args, **kwargs)
