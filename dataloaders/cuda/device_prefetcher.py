"""DevicePrefetcher: batches on a GPU, each copied while the one before it is used.

    copy stream      | copy 0 | copy 1 |      | copy 2 |      | copy 3 |
    caller's stream           | use 0  .......| use 1 ........| use 2 ....
                              ^ waits for copy 0 alone

An event marks the end of each copy: the caller's stream waits for it (on the device, the program
does not block). A copy may reuse the memory of an earlier batch, so it first waits for an event
that marks what the caller's stream was doing when the copy was issued.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from shmtensor.autograd import wrap
from shmtensor.cuda_arrays import check_bfloat16
from shmtensor.device import Device
from shmtensor.dtypes import bfloat16
from shmtensor.tensor import Tensor
from shmtensor.tensor.foreign_arrays import as_numpy, library_of

from ..collate import map_leaves


class DevicePrefetcher:
    """Iterates over batches on a GPU: the next one is copied while this one is used.

    Tensors and arrays (of shmtensor, NumPy, PyTorch, JAX) anywhere in a batch (dicts, tuples,
    lists, dataclasses) become CUDA tensors of the same shape and dtype; tensors that are on the
    GPU, and anything else, stay as they are. Copies run on a stream of their own; the stream that
    is current when a batch is returned waits for that batch's copy only. Copies are asynchronous
    with `DataLoader(pin_memory=True)`; from ordinary memory the driver blocks the program.
    `state_dict()` is that of the loader without the prefetched batch.

    Parameters
    ----------
    batches : DataLoader or iterable
        The batches. Each is kept until its copy is done.
    device : int, str or device, optional
        The GPU: its number, "cuda:1", or "cuda" for the current one.

    Raises
    ------
    RuntimeError
        CuPy or a GPU is missing. (The driver's own errors while iterating.)
    ValueError
        The device is not a GPU.
    TypeError
        While iterating: a bfloat16 tensor, if CuPy does not take it.

    Notes
    -----
    Copies: one (host to device; one more of an array that does not fill its memory).

    Examples
    --------
    >>> from shmtensor.dataloaders import DevicePrefetcher
    >>> def train(model, loader):  # a DataLoader(..., num_workers=2, pin_memory=True)
    ...     for images, labels in DevicePrefetcher(loader, "cuda"):
    ...         model(images.float() / 255)
    """

    def __init__(self, batches: Iterable[Any], device: int | str | Device = 0) -> None:
        self.batches = batches
        where = Device(device)
        if where.type != "cuda":
            raise ValueError(f"DevicePrefetcher: device has to be a GPU: {where}, use 'cuda'")
        self.cupy = where.xp
        index = self.cupy.cuda.runtime.getDevice() if where.index is None else where.index
        self.device = Device("cuda", index)
        self.state: Any = None  # of the loader, before it gave the prefetched batch

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        cuda = self.cupy.cuda
        with cuda.Device(self.device.index):
            stream = cuda.Stream(non_blocking=True)
        in_flight: deque[tuple[Any, Any]] = deque()  # the copy's event, and the batch that it reads
        ahead: deque[tuple[Any, Any]] = deque()  # the batch on the device, and the same event
        source = iter(self.batches)
        failure: Exception | None = None
        try:
            while True:
                self.state = self.consumed_state() if ahead else None
                try:
                    batch = next(source)
                except StopIteration:
                    break
                except Exception as error:  # raised after the prefetched batch
                    failure = error
                    break
                ahead.append(self.copy_to_device(batch, stream))
                in_flight.append((ahead[-1][1], batch))
                del batch
                while in_flight and (in_flight[0][0].done or len(in_flight) > 2):
                    in_flight.popleft()[0].synchronize()
                if len(ahead) > 1:
                    yield self.wait_for_copy(*ahead.popleft())
            while ahead:
                yield self.wait_for_copy(*ahead.popleft())
            self.state = None
            if failure is not None:
                raise failure
        finally:
            stream.synchronize()  # memory may be unpinned only after its copy

    def state_dict(self) -> Any:
        """The loader's `state_dict` as of the last batch that this has returned."""
        return self.consumed_state() if self.state is None else self.state

    def consumed_state(self) -> Any:
        return self.batches.state_dict() if hasattr(self.batches, "state_dict") else None

    def copy_to_device(self, batch: Any, stream: Any) -> tuple[Any, Any]:
        """The batch on the device, and the event after its copy."""
        cupy = self.cupy

        def copy_leaf(x: Any) -> Any:
            if isinstance(x, Tensor):
                if x.is_cuda:
                    return x.detach().to(self.device)
                x = x.array
            elif library_of(x) is not None:
                x = as_numpy(x)
            if isinstance(x, np.ndarray) and x.dtype is bfloat16:
                check_bfloat16("DevicePrefetcher", self.device)
            if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
                order = np.argsort([-step for step in x.strides], kind="stable")
                dense = np.asarray(x.transpose(order), order="C")  # channels last stay so
                out = cupy.empty(dense.shape, dense.dtype)
                out.set(dense, stream=stream)
                return wrap(out.transpose(*np.argsort(order).tolist()))
            return x

        with cupy.cuda.Device(self.device.index):
            stream.wait_event(cupy.cuda.get_current_stream().record())
            with stream:  # CuPy's memory pool allocates per stream
                result = map_leaves(batch, copy_leaf)
                return result, stream.record()

    def wait_for_copy(self, batch: Any, event: Any) -> Any:
        """Makes the current stream wait for the batch's copy; returns the batch."""
        with self.cupy.cuda.Device(self.device.index):
            self.cupy.cuda.get_current_stream().wait_event(event)
        return batch
