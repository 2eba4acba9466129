"""GPU memory in messages: handles of the ledger's slabs, which travel among the bytes of a message.

A handle keeps its block until it is received or discarded, or until the memory that carries the
message (`via`) is gone. docs/design/cuda-memory.md has its states.

```
pickled: exported --> sent --> unpickled: received          memory is held by the receiver
             |          '----> never read, `via` is gone    the handle is void
             '---------------> not sent                     discarded
```
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from shmtensor import cupy_runtime, native
from shmtensor.cuda_arrays import device_of
from shmtensor.device import META
from shmtensor.tensor import Tensor, make_tensor


def is_on_gpu(obj: Any) -> bool:
    """Whether an object is a tensor on a GPU, or an array of CuPy."""
    array = obj.array if isinstance(obj, native.TensorBase) else obj
    return native.is_array(array) and not isinstance(array, np.ndarray)


@cache
def memory() -> Any:
    """`shmtensor.memory.cuda`, which imports CuPy; CUDA is in use from then on."""
    cupy_runtime.initialize()
    return import_module("shmtensor.memory.cuda")


class Handles:
    """The handles of GPU memory in one message.

    Args:
        via: the block that carries the message; its end voids the handles. None: until they are
            received or discarded.
    """

    def __init__(self, via: Any = None) -> None:
        self.via = via
        self.messages: list[Any] = []
        self.starts: list[int] = []  # the first handle of each message, if there are several

    def add(self, array: Any) -> Any:
        """Exports an array of CuPy; None for one without data. Copies: none; one if the memory is
        of another allocator.
        """
        if device_of(array) is META:
            return None
        cuda = memory()
        try:
            message = cuda.export(array, self.via)
        except ValueError:
            with array.device:
                message = cuda.export(array.copy(), self.via)
        self.messages.append(message)
        return message

    def discard(self, start: int = 0) -> None:
        """The message, or the part of it from handle `start` on, will not be read. Idempotent."""
        for message in self.messages[start:]:
            memory().discard(message)
        del self.messages[start:]

    def discard_last(self, n: int) -> None:
        """The last `n` handles will not be read."""
        self.discard(len(self.messages) - n)

    def begin_message(self) -> None:
        """The next handles are those of another message."""
        self.starts.append(len(self.messages))

    def discard_messages(self, n_sent: int) -> None:
        """Only the first messages were sent."""
        if not n_sent:
            self.discard()
        elif n_sent < len(self.starts):
            self.discard(self.starts[n_sent])


def rebuild_cupy(message: Any) -> Any:
    """An array of CuPy over received GPU memory. Copies: none."""
    return memory().receive(message)


def rebuild_cuda(
    cls: type[Tensor], message: Any, requires_grad: bool, grad: Any, state: Any
) -> Any:
    """A tensor over received GPU memory. Copies: none."""
    return restore_tensor(cls, rebuild_cupy(message), requires_grad, grad, state)


def restore_tensor(
    cls: type[Tensor], array: Any, requires_grad: bool, grad: Tensor | None, state: Any
) -> Tensor:
    """A leaf tensor of the class, with its gradient and attributes."""
    tensor = make_tensor(cls, array, requires_grad, grad)
    if state is not None:
        tensor.__dict__.update(state)
    return tensor
