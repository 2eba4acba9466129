"""SyncBatchNorm: batch normalisation over the batches of all ranks together.

```
forward    per channel: (n, sum x, sum x^2) of this rank  -> summed over ranks -> mean, variance
backward   per channel: (sum g, sum g xhat) of this rank  -> summed over ranks -> gradient of x
```
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Function, wrap
from ...memory.layout import empty_shared
from ...nn import Module
from ...nn.modules.batchnorm import _BatchNorm
from ...tensor import Tensor
from ..collectives.reference import ReduceOp
from ..group.operands import Array
from ..group.process_group import ProcessGroup
from ..group.world import group_of, is_initialized

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


class SyncBatchNorm(_BatchNorm):
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
        bias: whether there is a bias.
    """

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
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(
                f"SyncBatchNorm: expected at least 2D input (got {input.dim()}D input): "
                f"shape {tuple(input.shape)}"
            )

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...), same shape out."""
        world = group_of("SyncBatchNorm", self.process_group) if is_initialized() else None
        if not self._uses_batch() or world is None or world.size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        told: list[Any] = []
        out = Standardise.apply(input, world, self.eps, told)
        mean, var, n = told
        if n <= 1:
            raise ValueError(
                f"SyncBatchNorm: expected more than 1 value per channel: {tuple(input.shape)}"
            )
        rate = self._count_batch()
        if self.training and self.track_running_stats:
            unbiased = var * n / (n - 1)
            for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
                if running is not None:
                    running.array[...] = running.array * (1 - rate) + new * rate
        shape = (1, -1, *(1 for _ in input.shape[2:]))
        if self.weight is not None:
            out = out * self.weight.reshape(*shape)
        if self.bias is not None:
            out = out + self.bias.reshape(*shape)
        return out  # type: ignore[no-any-return]

    @classmethod
    def convert_sync_batchnorm(
        cls, module: Module, process_group: ProcessGroup | None = None
    ) -> Module:
        """The module with every BatchNorm layer in it replaced by a SyncBatchNorm that has its
        parameters and statistics.
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in (*module._parameters, *module._buffers):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in list(module.named_children()):
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
