"""Managers of the standard library whose server process is one of ours, so that tensors are sent to
it and back as handles.

A tensor in `manager.dict()` is not copied; the server holds its block.

All proxies of a manager in a thread share one connection. If a signal handler raises between a
request and its answer, the standard library takes that answer for the next call's. So importing
this module replaces `BaseProxy._callmethod`: a connection is used again only after a whole answer.
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


def _callmethod(
    self: Any, methodname: str, args: tuple[Any, ...] = (), kwds: dict[str, Any] | None = None
) -> Any:
    """Calls a method of the object in the server; returns a copy of its result, or a proxy."""
    connections = self._tls.__dict__  # of this thread; Finalize looks for the name there
    if "connection" not in connections:
        self._connect()
    connection = connections.pop("connection")
    connection.send((self._id, methodname, args, kwds or {}))
    kind, result = connection.recv()
    connections["connection"] = connection
    if kind == "#RETURN":
        return result
    if kind != "#PROXY":
        raise _untyped.convert_to_error(kind, result)
    exposed, token = result
    proxytype = self._manager._registry[token.typeid][-1]
    token.address = self._token.address
    proxy = proxytype(
        token, self._serializer, manager=self._manager, authkey=self._authkey, exposed=exposed
    )
    link = self._Client(token.address, authkey=self._authkey)
    _untyped.dispatch(link, None, "decref", (token.id,))
    return proxy


_untyped: Any = _managers  # the stubs of the standard library lack these names
_untyped.BaseProxy._callmethod = _callmethod


class _DefaultContextMixin:
    """A manager whose server starts with our context unless `ctx` is passed."""

    def __init__(self, *args: Any, ctx: Any = None, **kwargs: Any) -> None:
        init: Any = super().__init__
        init(*args, ctx=current_context() if ctx is None else ctx, **kwargs)


class BaseManager(_DefaultContextMixin, _managers.BaseManager):
    """The standard library's: `register` your own classes; their objects are in the server."""


class SyncManager(_DefaultContextMixin, _managers.SyncManager):
    """The class of `Manager()`: dict, list, Namespace, Queue, Lock, ... in a server process."""
