"""Objects in one block that may be sent to other processes: the base of locks and queues.

All processes that have such an object share its state, whether they inherited it by fork, got it as
an argument of a Process, or received it through a Queue or Pipe.
"""

from __future__ import annotations

from typing import Any

from shmtensor import native


class Shared:
    """An object whose state is a block; `_block` and `_details` are all that is sent."""

    _block: Any

    def _details(self) -> tuple[Any, ...]:
        """What is sent beside the block: the arguments of `_restore`."""
        return ()

    def _restore(self, *details: Any) -> None:
        """Makes the object from its block and the details."""

    @classmethod
    def _attach(cls, block: Any, *details: Any) -> Any:
        """The object over a block of another process."""
        self = cls.__new__(cls)
        self._block = block
        self._restore(*details)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # For the standard library's pickler; reduction.Pickler does not call this.
        return _from_handle, (type(self), native.export(self._block), self._details())


def _from_handle(cls: type[Shared], handle: bytes, details: tuple[Any, ...]) -> Any:
    return cls._attach(native.receive(handle, True), *details)
