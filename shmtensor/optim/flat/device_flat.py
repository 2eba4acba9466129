"""DeviceFlat: a flat on a GPU.

Backward leaves each gradient in memory of its own there. `gather` copies them into one block, which
lives until the end of the step only: then the step needs no more memory than the backward did.

Note [Steps that may be skipped]
A GradScaler's `found_inf` is in the GPU's memory, and the host does not wait for it: so it does not
know whether a step was skipped. From the first such step on the counts are in the GPU's memory,
where a skipped step does not advance them, and the host only knows which parameters have equal
counts: those that have taken part in the same steps.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ...cuda_arrays import device_of, full_on, move_array
from ...device import CPU
from ...dtypes import float32
from ...tensor import Tensor
from .flat_parameters import Array, Flat, zeros_beside


class DeviceFlat(Flat):
    """Neighbouring parameters of one group, dtype and GPU.

    Attributes:
        keeps_gradients: the block of gradients was made by `make_gradients` or given by
            `take_gradients`, and stays after a step.
        copies: what copies the gradients into the block, made at the first step.
        counts: the step counts in the GPU's memory, float32, while `counts_on_device`.
        histories: numbers, then: parameters of the same number have equal counts.
    """

    __slots__ = ("copies", "counts", "counts_on_device", "histories", "keeps_gradients")

    def prepare_gradients(self) -> None:
        self.counts_on_device = False
        self.counts: Any = None
        self.copies: Any = None
        self.keeps_gradients = False

    def take_gradients(self, gradient: Array) -> None:
        """Makes `gradient`, an array like `parameter`, the block that gradients are copied to."""
        self.gradient, self.keeps_gradients = gradient, True

    def make_gradients(self) -> None:
        """Allocates a block for the gradients."""
        self.take_gradients(zeros_beside(self.parameter, self.parameter.shape))

    def forget_gradients(self) -> None:
        """Does nothing: a forked child has no GPU."""

    def gather(self) -> list[int] | None:
        arrays: list[Any] = []
        self.sparse = []
        n = 0
        for i, (p, array, _) in enumerate(self.slots):
            if p.array is not array:
                raise LookupError
            g = p.grad
            if g is None:
                arrays.append(None)
            elif g.__class__ is not Tensor and g.is_sparse:
                self.sparse.append(i)
                arrays.append(None)
            else:
                arrays.append(g.array)
                n += 1
        if not n:
            return []
        with self.device:
            self._copy_all(arrays, n)
        for (p, _, _), x in zip(self.slots, arrays, strict=True):
            if x is not None and (version := p.version) is not None:
                version.count += 1
        return None if n == len(arrays) else [i for i, x in enumerate(arrays) if x is not None]

    def _copy_all(self, arrays: list[Any], n: int) -> None:
        """Copies the n arrays that are not None into the block."""
        parameter: Any = self.parameter
        if not self.keeps_gradients and len(arrays) == 1:
            g = arrays[0].reshape(parameter.shape)
            is_flat = g.ndim == 1 and g.flags.c_contiguous
            self.gradient = g if is_flat or g.ndim > 1 else g.copy()
            return
        dtype, device, is_flat = parameter.dtype, parameter.data.device_id, parameter.ndim == 1
        addresses, others = [], []
        for i, x in enumerate(arrays):
            address = 0
            if x is not None:
                memory = x.data
                is_plain = is_flat and x.dtype is dtype and x.flags.c_contiguous
                if is_plain and memory.device_id == device:
                    address = memory.ptr
                else:
                    others.append(i)
            addresses.append(address)
        if not self.keeps_gradients:
            if n == len(arrays) and not others:  # the copies fill the gaps with zeros
                self.gradient = parameter.__class__(parameter.shape, dtype)
            else:
                self.gradient = zeros_beside(parameter, parameter.shape)
        if len(others) < n:
            if self.copies is None:
                self.copies = self._prepare_copies()
            self.copies(self.gradient, addresses)
        for i in others:
            self.part(self.gradient, i).reshape(arrays[i].shape)[...] = arrays[i]

    def _prepare_copies(self) -> Any:
        kernels = importlib.import_module("shmtensor.ops.cuda.copies")
        itemsize = self.parameter.itemsize
        starts = [itemsize * start for start in self.starts]
        sizes = [itemsize * stop - start for stop, start in zip(self.stops, starts, strict=True)]
        return kernels.Gather(starts, sizes, [*starts[1:], self.parameter.nbytes])

    def end_step(self) -> None:
        if not self.keeps_gradients:
            self.gradient = None

    # ------------------------------------------------- Note [Steps that may be skipped]
    def count_on_device(self) -> None:
        """Moves the counts to the GPU. Does not wait for it."""
        first = float(self.steps[0])
        if (self.steps == first).all():
            self.counts = full_on(self.steps.shape, first, float32, device_of(self.parameter))
        else:
            self.counts = move_array(self.steps.astype(float32), device_of(self.parameter))
        self.histories = self.steps.astype(np.int64)
        self.counts_on_device = True

    def count_on_host(self) -> None:
        if self.counts_on_device:  # waits for the GPU
            self.steps[:] = move_array(self.counts, CPU)
            self.counts_on_device, self.counts = False, None

    def step_of(self, i: int) -> Array:
        if not self.counts_on_device:
            return super().step_of(i)
        step: Array = self.counts[i : i + 1].reshape(())
        return step

    def runs_on_device(self, indices: list[int] | None, found: Any) -> list[tuple[int, int, Any]]:
        """Counts the update unless `found`, an array of one number, is not 0.

        Returns: (first element, end, number of this step in the GPU's memory) of each run of
            neighbours with equal counts.
        """
        kernels = importlib.import_module("shmtensor.ops.cuda.unscale")
        histories = self.histories
        end = self.parameter.shape[0] if self.parameter.ndim else 1
        if indices is None and bool((histories == histories[0]).all()):
            kernels.count_step(self.counts, found)
            return [(0, end, self.counts[:1])]
        places = range(len(self.tensors)) if indices is None else indices
        runs: list[list[int]] = []  # of the first index and the last
        for i in places:
            if runs and runs[-1][1] == i - 1 and histories[i] == histories[i - 1]:
                runs[-1][1] = i
            else:
                runs.append([i, i])
        if indices is not None:
            self._part_histories(indices)
        for first, last in runs:
            kernels.count_step(self.counts[first : last + 1], found)
        return [
            (self.starts[first], self.stops[last], self.counts[first : first + 1])
            for first, last in runs
        ]

    def _part_histories(self, indices: list[int]) -> None:
        """These parameters take part in a step, and others do not."""
        new: dict[int, int] = {}
        following = int(self.histories.max()) + 1
        for i in indices:
            number = new.setdefault(int(self.histories[i]), following + len(new))
            self.histories[i] = number
