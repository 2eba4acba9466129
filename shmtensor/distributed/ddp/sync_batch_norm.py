"""SyncBatchNorm: batch normalization over the batches of all ranks together.

```
forward    per channel: (n, mean, sum (x - mean)^2) of each rank -> of all ranks: mean, variance
backward   per channel: (sum g, sum g xhat) of each rank -> summed over ranks -> gradient of x
```
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ...autograd import Function, wrap
from ...cuda_arrays import array_module
from ...nn import Module
from ...nn.modules.batchnorm import _BatchNorm
from ...tensor import Tensor
from ..collectives.reference import ReduceOp
from ..group.cuda_operands import is_on_gpu
from ..group.operands import Array
from ..group.process_group import ProcessGroup
from ..group.world import group_of, is_initialized


def sum_rows(group: ProcessGroup, rows: Array) -> Array:
    """The float64 array with the sums over the ranks, in rank order, where it is."""
    staged = group.writable(rows)
    group.native.all_reduce(staged, ReduceOp.SUM, group.timeout)
    group.copy_back(rows, staged)
    return rows


def combine(n: Array, mean: Array, squares: Array) -> tuple[Array, Array, Array]:
    """Number, mean and variance of all samples, from (ranks, C) numbers, means and sums of squared
    deviations from the rank's own mean (Chan, Golub, LeVeque 1979): without the cancellation of
    mean(x^2) - mean(x)^2."""
    total = n.sum(0)
    mean_of_all = (n * mean).sum(0) / total
    deviations = mean - mean_of_all
    return total, mean_of_all, (squares + n * deviations * deviations).sum(0) / total


def on_device_of(array: Any) -> Any:
    """A context in which the array's GPU is the current one; nothing for an array of NumPy."""
    return array.device if is_on_gpu(array) else nullcontext()


class SyncNormalize(Function):
    """(x - mean) / sqrt(variance + eps) over everybody's batch."""

    @staticmethod
    def forward(
        ctx: Any, x: Any, group: Any, eps: float, counts: bool, statistics: list[Any]
    ) -> Any:
        with on_device_of(x.array):
            return SyncNormalize.normalize(ctx, x.array, group, eps, counts, statistics)

    @staticmethod
    def normalize(
        ctx: Any, a: Any, group: Any, eps: float, counts: bool, statistics: list[Any]
    ) -> Any:
        """The output, and in `statistics` the mean, the variance and the number of values."""
        xp = array_module(a)
        axes = (0, *range(2, a.ndim))
        shape = (1, -1, *(1 for _ in a.shape[2:]))
        wide = a.astype(np.float64) if a.dtype.itemsize > 4 else a.astype(np.float32)
        count = a.size // max(a.shape[1], 1) if counts else 0
        mean = wide.sum(axes, dtype=np.float64) / max(count, 1)
        squares = xp.square(wide - mean.reshape(shape), dtype=np.float64).sum(axes)
        rows = xp.zeros((group.size(), 3, a.shape[1]))  # of each rank; the others' are added
        if counts:
            rows[group.rank()] = xp.stack([xp.full_like(mean, count), mean, squares])
        n, mean, var = combine(*sum_rows(group, rows).swapaxes(0, 1))
        scale = 1 / xp.sqrt(var + eps)
        normalized = ((wide - mean.reshape(shape)) * scale.reshape(shape)).astype(a.dtype)
        statistics[:] = [mean, var, float(n[0])]
        ctx.group, ctx.n, ctx.axes, ctx.shape = group, float(n[0]), axes, shape
        ctx.counts = counts
        ctx.normalized, ctx.scale = normalized, scale.reshape(shape)
        return wrap(normalized)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        with on_device_of(gs[0].array):
            return SyncNormalize.gradient(ctx, gs[0].array), None, None, None, None

    @staticmethod
    def gradient(ctx: Any, g: Any) -> Any:
        """The gradient of the input."""
        normalized, xp = ctx.normalized, array_module(g)
        rows = xp.zeros((2, g.shape[1]))
        if ctx.counts:
            rows[0] = g.sum(ctx.axes, dtype=np.float64)
            rows[1] = xp.multiply(g, normalized, dtype=np.float64).sum(ctx.axes)
        sums, dots = sum_rows(ctx.group, rows)
        if not ctx.counts:
            return wrap(xp.zeros_like(g))
        mean_g, mean_dot = (each.reshape(ctx.shape) / ctx.n for each in (sums, dots))
        gx = ctx.scale * (g - mean_g - normalized * mean_dot)
        return wrap(gx.astype(g.dtype))


def normalize_together(
    layer: _BatchNorm, group: ProcessGroup, counts: bool, input: Tensor
) -> Tensor:
    """The forward of a BatchNorm layer over the batches of all ranks together; all ranks call it.

    Args:
        counts: False: this rank's batch is not one of them: it is only normalized.
        input: (N, C, ...), as is the output.
    """
    if not layer._uses_batch():
        return _BatchNorm.forward(layer, input)
    layer._check_input_dim(input)
    statistics: list[Any] = []
    out = SyncNormalize.apply(input, group, layer.eps, counts, statistics)
    mean, var, n = statistics
    if n <= 1:
        raise ValueError(
            f"{type(layer).__name__}: expected more than 1 value per channel: {tuple(input.shape)}"
        )
    rate = layer._count_batch()
    if layer.training and layer.track_running_stats:
        with on_device_of(mean):
            unbiased = var * n / (n - 1)
            for running, new in ((layer.running_mean, mean), (layer.running_var, unbiased)):
                if running is not None:
                    running.array[...] = running.array * (1 - rate) + new * rate
    shape = (1, -1, *(1 for _ in input.shape[2:]))
    if layer.weight is not None:
        out = out * layer.weight.reshape(*shape)
    if layer.bias is not None:
        out = out + layer.bias.reshape(*shape)
    return out.to(input.dtype)  # type: ignore[no-any-return]


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all ranks together (Ioffe and Szegedy 2015).

    In training every rank has to call it; batches may differ in size. In evaluation it is
    `batch_norm` with the running statistics.

    Parameters
    ----------
    num_features : int
        C of inputs `(N, C, ...)`.
    eps : float, optional
        Added to the variance.
    momentum : float or None, optional
        The weight of a batch in the running statistics; None makes them the average of all batches.
    affine : bool, optional
        Whether there are weight and bias.
    track_running_stats : bool, optional
        Whether there are running statistics.
    process_group : ProcessGroup, optional
        The default one if None.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.
    bias : bool, optional
        Whether there is a bias.

    See Also
    --------
    BatchNorm2d, DistributedDataParallel

    Notes
    -----
    `SyncBatchNorm.convert_sync_batchnorm(model)` replaces the batch norm layers of a model.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    >>> model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    >>> type(model[1]).__name__, model(st.ones(2, 3, 8, 8)).shape
    ('SyncBatchNorm', Size([2, 4, 6, 6]))
    >>> dist.destroy_process_group()
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
        """Input and output are (N, C, ...)."""
        group = group_of("SyncBatchNorm", self.process_group) if is_initialized() else None
        if not self._uses_batch() or group is None or group.size() == 1:
            return super().forward(input)
        return normalize_together(self, group, True, input)

    @classmethod
    def convert_sync_batchnorm(
        cls, module: Module, process_group: ProcessGroup | None = None
    ) -> Module:
        """The module with every BatchNorm layer in it replaced by a SyncBatchNorm with the same
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
