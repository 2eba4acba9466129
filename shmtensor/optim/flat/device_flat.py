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
from .flat_parameters import Array, Flat, zeros_beside

__all__ = ["DeviceFlat"]


class DeviceFlat(Flat):
    """Neighbouring parameters of one group, dtype and GPU.

    Attributes:
        keeps_gradients: the block of gradients was made by `make_gradients` or given by
            `take_gradients`, and stays after a step.
        counts: the step counts in the GPU's memory, float32, while `counts_on_device`.
        histories: numbers, then: parameters of the same number have equal counts.
    """

    __slots__ = ("counts", "counts_on_device", "histories", "keeps_gradients")

    def prepare_gradients(self) -> None:
        self.counts_on_device = False
        self.counts: Any = None
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
        gradients = []
        for p, array, _ in self.slots:
            if p.array is not array:
                raise LookupError
            gradients.append(p.grad)
        self.sparse = [i for i, g in enumerate(gradients) if g is not None and g.is_sparse]
        dense = [i for i, g in enumerate(gradients) if g is not None and not g.is_sparse]
        if dense:
            with self.device:
                self._copy_all(dense, gradients)
        for i in dense:
            version = self.tensors[i].version
            if version is not None:
                version.count += 1
        return None if len(dense) == len(gradients) else dense

    def _copy_all(self, dense: list[int], gradients: list[Any]) -> None:
        if not self.keeps_gradients:
            if len(gradients) == 1:
                g = gradients[0].array.reshape(self.parameter.shape)
                is_flat = g.ndim == 1 and g.flags.c_contiguous
                self.gradient = g if is_flat or g.ndim > 1 else g.copy()
                return
            self.gradient = zeros_beside(self.parameter, self.parameter.shape)
        for i in dense:
            g = gradients[i].array
            self.part(self.gradient, i).reshape(g.shape)[...] = g

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
