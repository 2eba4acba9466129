"""Managers of the standard library whose server process is one of ours, so that tensors are sent to
it and back as handles.

A tensor in `manager.dict()` is not copied; the server holds its block.
"""

from __future__ import annotations

from multiprocessing import managers as _managers
from multiprocessing.managers import BaseProxy, DictProxy, ListProxy, Namespace, Token
from typing import Any

from .current_context import current_context

__all__ = [
    "BaseManager",
    "BaseProxy",
    "DictProxy",
    "ListProxy",
    "Namespace",
    "SyncManager",
    "Token",
]


class _DefaultContextMixin:
    """A manager whose server starts with our context unless `ctx` is passed."""

    def __init__(self, *args: Any, ctx: Any = None, **kwargs: Any) -> None:
        init: Any = super().__init__
        init(*args, ctx=current_context() if ctx is None else ctx, **kwargs)


class BaseManager(_DefaultContextMixin, _managers.BaseManager):
    """The standard library's: `register` your own classes; their objects are in the server."""


class SyncManager(_DefaultContextMixin, _managers.SyncManager):
    """The class of `Manager()`: dict, list, Namespace, Queue, Lock, ... in a server process."""
