"""BatchNorm layers that normalize by the samples of all ranks, in a rank's forward and backward.

The model's layers stay what they are. For that time each has an attribute `forward`, which hides
that of its class, and computes as SyncBatchNorm's. So callbacks, copies, checkpoints and
evaluations see the layers of the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ..distributed.ddp.sync_batch_norm import SyncBatchNorm, normalize_together
from ..distributed.group.process_group import ProcessGroup
from ..nn import Module
from ..nn.modules.batchnorm import _BatchNorm


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


class SyncedBatchNorms:
    """The BatchNorm layers of a model, and the group whose ranks normalize together."""

    def __init__(self, model: Module, group: ProcessGroup) -> None:
        self.layers = batch_norms(model)
        self.group = group

    @contextmanager
    def together(self, counts: bool) -> Iterator[None]:
        """Within it, forward and backward of the layers are SyncBatchNorm's. All ranks of the group
        enter it.

        Args:
            counts: this rank's samples count in the statistics.
        """
        for layer in self.layers:
            layer.__dict__["forward"] = partial(normalize_together, layer, self.group, counts)
        try:
            yield
        finally:
            for layer in self.layers:
                layer.__dict__.pop("forward", None)
