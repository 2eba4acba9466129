"""SyncBatchNorm: batch normalisation over the batches of all ranks together.

```
forward    per channel: (n, sum x, sum x^2) of this rank  -> summed over ranks -> mean, variance
backward   per channel: (sum g, sum g xhat) of this rank  -> summed over ranks -> gradient of x
```
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd import Function, wrap
from ..functions import empty, zeros
from ..nn import Module, Parameter, init
from ..nn import functional as F
from ..tensor import Tensor
from .contract import ReduceOp
from .group import Array, ProcessGroup, empty_shared
from .membership import group_of, is_initialized

__all__ = ["SyncBatchNorm"]


def total(group: ProcessGroup, *rows: Array) -> Array:
    """The rows side by side in float64, summed over the ranks in rank order."""
    box = empty_shared((len(rows), rows[0].size), np.dtype(np.float64))
    for into, row in zip(box, rows, strict=True):
        into[...] = row
    group.native.all_reduce(box, ReduceOp.SUM, group.timeout)
    return box


class Standardise(Function):
    """(x - mean) / sqrt(variance + eps) over everybody's batch."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any, eps: float, told: list[Any]) -> Any:
        a = x.array
        axes = (0, *range(2, a.ndim))
        shape = (1, -1, *(1 for _ in a.shape[2:]))
        wide = a.astype(np.float64) if a.dtype.itemsize > 4 else a.astype(np.float32)
        here = a.size // max(a.shape[1], 1)
        n, s, q = total(
            group,
            np.full(a.shape[1], here, np.float64),
            wide.sum(axes, dtype=np.float64),
            np.square(wide, dtype=np.float64).sum(axes),
        )
        mean = s / n
        var = np.maximum(q / n - mean * mean, 0)
        scale = 1 / np.sqrt(var + eps)
        normal = ((wide - mean.reshape(shape)) * scale.reshape(shape)).astype(a.dtype)
        told[:] = [mean.astype(a.dtype), var.astype(a.dtype), float(n[0])]
        ctx.group, ctx.n, ctx.axes, ctx.shape = group, float(n[0]), axes, shape
        ctx.normal, ctx.scale = normal, scale.reshape(shape)
        return wrap(normal)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        g, normal = gs[0].array, ctx.normal
        sums, dots = total(
            ctx.group,
            g.sum(ctx.axes, dtype=np.float64),
            np.multiply(g, normal, dtype=np.float64).sum(ctx.axes),
        )
        mean_g, mean_dot = (each.reshape(ctx.shape) / ctx.n for each in (sums, dots))
        gx = ctx.scale * (g - mean_g - normal * mean_dot)
        return wrap(gx.astype(g.dtype)), None, None, None


class SyncBatchNorm(Module):
    """Batch normalisation (Ioffe and Szegedy 2015) over the batches of all ranks together.

    In training every rank has to call it; batches may differ in size. In evaluation it is
    `batch_norm` by the running statistics.

    Args:
        num_features: C of inputs (N, C, ...).
        eps: added to the variance.
        momentum: how far the running statistics move; None: they are the average of all batches.
        affine: whether there are weight and bias.
        track_running_stats: whether there are running statistics.
        process_group: the default one if None.
    """

    running_mean: Tensor | None
    running_var: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: ProcessGroup | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.process_group = process_group
        for name in ("weight", "bias"):
            p = Parameter(empty(num_features, dtype=dtype)) if affine else None
            self.register_parameter(name, p)
        for name in ("running_mean", "running_var"):
            held = zeros(num_features, dtype=dtype) if track_running_stats else None
            self.register_buffer(name, held)
        count = zeros((), dtype=np.dtype(np.int64)) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, running mean 0, running variance 1."""
        if self.affine:
            init.ones_(self.weight)
            init.zeros_(self.bias)
        if self.running_var is not None and self.running_mean is not None:
            self.running_mean.array[...] = 0
            self.running_var.array[...] = 1

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...), same shape out."""
        if input.dim() < 2:
            raise ValueError(
                f"SyncBatchNorm: expected at least 2D input (got {input.dim()}D input): "
                f"{tuple(input.shape)}"
            )
        uses_batch = self.training or self.running_mean is None
        world = group_of("SyncBatchNorm", self.process_group) if is_initialized() else None
        if not uses_batch or world is None or world.size() == 1:
            return F.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, uses_batch,
                self._rate(), self.eps,
            )  # fmt: skip
        told: list[Any] = []
        out = Standardise.apply(input, world, self.eps, told)
        mean, var, n = told
        if n <= 1:
            raise ValueError(
                f"SyncBatchNorm: expected more than 1 value per channel: {tuple(input.shape)}"
            )
        if self.training and self.running_mean is not None and self.running_var is not None:
            rate = self._rate()
            for running, new in ((self.running_mean, mean), (self.running_var, var * n / (n - 1))):
                running.array[...] = running.array * (1 - rate) + new * rate
        if self.affine:
            shape = (1, -1, *(1 for _ in input.shape[2:]))
            out = out * self.weight.reshape(*shape) + self.bias.reshape(*shape)
        return out  # type: ignore[no-any-return]

    def _rate(self) -> float:
        count = self.num_batches_tracked
        if self.training and count is not None:
            count.array[...] += 1
            if self.momentum is None:
                return 1.0 / float(count.array)
        return self.momentum or 0.0

    @classmethod
    def convert_sync_batchnorm(
        cls, module: Module, process_group: ProcessGroup | None = None
    ) -> Module:
        """The module with every BatchNorm layer in it replaced by a SyncBatchNorm that has its
        parameters and statistics.
        """
        if type(module).__name__.startswith("BatchNorm"):
            old: Any = module
            made = cls(
                old.num_features, old.eps, old.momentum, old.affine, old.track_running_stats,
                process_group,
            )  # fmt: skip
            if old.affine:
                made.weight, made.bias = old.weight, old.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(old, name))
            made.training = old.training
            return made
        for name, child in list(module.named_children()):
            module.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return module

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )
