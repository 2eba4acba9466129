"""Managers of the standard library whose server process is one of ours, so that tensors are sent to
it and back as handles.

A tensor in `manager.dict()` is not copied; the server holds its block.
"""

from __future__ import annotations

from multiprocessing import managers as _managers
from multiprocessing.managers import BaseProxy, DictProxy, ListProxy, Namespace, Token
from types import SimpleNamespace
from typing import Any

from .children import Children
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

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        """Starts the server. Raises: ProcessException: why it has ended before it could serve."""
        children, context = Children(), self._ctx

        def make_process(**arguments: Any) -> Any:
            process = context.Process(**arguments)

            def start() -> None:
                del process.start  # the method, from now on
                children.start(process)

            process.start = start
            return process

        self._ctx = SimpleNamespace(Process=make_process)
        try:
            super().start(*args, **kwargs)  # type: ignore[misc]
        except EOFError:
            if (first := children.join()) is None:
                raise
            raise children.error("Manager", first) from None
        finally:
            self._ctx = context


class BaseManager(_DefaultContextMixin, _managers.BaseManager):
    """The standard library's: `register` your own classes; their objects are in the server."""


class SyncManager(_DefaultContextMixin, _managers.SyncManager):
    """The class of `Manager()`: dict, list, Namespace, Queue, Lock, ... in a server process."""
