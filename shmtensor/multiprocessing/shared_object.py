"""What lies in one block and may be sent to other processes: the base of locks and queues.

Such an object is the same one in every process that has it: inherited by fork, as an argument of a
Process, or as a message through a Queue or Pipe.
"""

from __future__ import annotations

from typing import Any

from shmtensor import native


class Shared:
    """An object whose state is a block; `_block` is its only part that travels, beside
    `_details`."""

    _block: Any

    def _details(self) -> tuple[Any, ...]:
        """What `_attach` needs beside the block."""
        return ()

    @classmethod
    def _attach(cls, block: Any, *details: Any) -> Any:
        """The object over a block that another process made."""
        self = cls.__new__(cls)
        self._block = block
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Our own pickler does not come here (reduction.Pickler); this is for the standard
        # library's.
        return _from_handle, (type(self), native.export(self._block), self._details())


def _from_handle(cls: type[Shared], handle: bytes, details: tuple[Any, ...]) -> Any:
    return cls._attach(native.receive(handle, True), *details)
