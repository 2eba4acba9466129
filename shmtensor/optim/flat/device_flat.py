"""DeviceFlat: a flat on a GPU.

Backward leaves each gradient in memory of its own there. `gather` copies them into one block, which
lives until the end of the step only: then the step needs no more memory than the backward did.
"""

from __future__ import annotations

from typing import Any

from .flat_parameters import Array, Flat, zeros_beside

__all__ = ["DeviceFlat"]


class DeviceFlat(Flat):
    """Neighbouring parameters of one group, dtype and GPU.

    Attributes:
        keeps_gradients: the block of gradients was made by `make_gradients` or given by
            `take_gradients`, and stays after a step.
    """

    __slots__ = ("keeps_gradients",)

    def prepare_gradients(self) -> None:
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
