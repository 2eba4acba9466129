"""A worker's exception, sent to the consumer with the worker's traceback."""

from __future__ import annotations

import traceback

from shmtensor.errors import PeerLostError


class Failure:
    """A worker's exception as type and message, with its location and traceback.

    Exceptions are sent as type and text: their arguments may hold anything, and many exception
    types cannot be pickled.
    """

    __slots__ = ("is_consequence", "kind", "line", "message")

    def __init__(self, error: BaseException, where: str) -> None:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        self.kind = type(error)
        self.is_consequence = isinstance(error, PeerLostError)
        self.line = f"{where}: {type(error).__name__}: {error}".partition("\n")[0]
        self.message = (
            f"Caught {type(error).__name__} in {where}.\nOriginal {''.join(lines)}".rstrip()
        )

    def reraise(self) -> None:
        """Raises an exception of the worker's type with the worker's traceback as its message."""
        message = Quoted(self.message) if issubclass(self.kind, KeyError) else self.message
        error = None
        if not issubclass(self.kind, (StopIteration, StopAsyncIteration)):  # would end the loop
            try:
                error = self.kind(message)
            except Exception:  # the constructor takes something else than a message
                error = None
        if not isinstance(error, Exception):
            raise RuntimeError(self.message) from None
        raise error


class Quoted(str):
    """A message that shows its line breaks in a KeyError, which shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
