"""BatchNorm layers that normalize by the samples of all ranks, while a rank makes its step.

The model's layers stay what they are. For the time of a step each has an attribute `forward`, which
hides that of its class, as SyncBatchNorm computes. So callbacks, hooks, copies, checkpoints and
evaluations see the layers of the program.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..distributed.ddp.sync_batch_norm import SyncBatchNorm, normalize_together
from ..distributed.group.process_group import ProcessGroup
from ..nn import Module
from ..nn.modules.batchnorm import _BatchNorm
from ..tensor.from_data import as_tensor
from .rank_step import RankStep


def batch_norms(model: Module) -> list[_BatchNorm]:
    """The model's layers whose statistics are those of a batch.

    Raises:
        TypeError: a layer has a forward of its own.
    """
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    for layer in layers:
        known = type(layer).forward in (_BatchNorm.forward, SyncBatchNorm.forward)
        if not known or "forward" in layer.__dict__:
            raise TypeError(
                "Trainer: sync_batchnorm replaces the forward of BatchNorm: "
                f"{type(layer).__name__} has one of its own, use sync_batchnorm=False"
            )
    return layers


def synchronize(step: RankStep, group: ProcessGroup) -> None:
    """Makes `step.train` normalize by the samples of all ranks of the group.

    A rank without samples has to take part in the layers' collectives: it trains with the sample
    that it is given as its part, which counts neither in the statistics nor in the gradients.
    """
    layers, train = batch_norms(step.model), step.train

    def set_forward(counts: bool) -> None:
        for layer in layers:
            layer.__dict__["forward"] = partial(normalize_together, layer, group, counts)

    def train_together(*arguments: Any) -> None:
        set_forward(True)
        try:
            train(*arguments)
        finally:
            for layer in layers:
                layer.__dict__.pop("forward", None)

    def without_samples(part: Any, index: int) -> None:
        set_forward(False)
        result = step.loss_of(part, 1, index)
        if result is not None:
            zero = as_tensor(0.0, dtype=result.loss.dtype, device=step.device)
            result.loss.backward(zero)
        set_forward(True)

    step.train = train_together  # type: ignore[assignment, method-assign]
    step.without_samples = without_samples  # type: ignore[method-assign]
    for weights in step.weights:  # samples that no loss counts have gradients by the statistics
        weights.complete = partial(complete_all, weights.complete)


def complete_all(complete: Any, is_zero: bool = False) -> Any:
    """`weights.complete`, with the gradients of a loss that counts nothing."""
    return complete()
