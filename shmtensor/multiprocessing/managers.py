"""Managers of the standard library, whose server process is one of ours, so that tensors travel to
it and back as handles.

A tensor in `manager.dict()` lies where it always lay; the server holds its block.
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


class _Started:
    """A manager whose server starts with our context, unless `ctx` is another."""

    def __init__(self, *args: Any, ctx: Any = None, **named: Any) -> None:
        chosen = current_context() if ctx is None else ctx
        start: Any = super().__init__
        start(*args, ctx=chosen, **named)


class BaseManager(_Started, _managers.BaseManager):
    """The standard library's: `register` classes of your own, whose objects live in the server."""


class SyncManager(_Started, _managers.SyncManager):
    """What `Manager()` returns: dict, list, Namespace, Queue, Lock, ... in a server process."""
