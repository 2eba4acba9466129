"""Distributed optimizers, by the names of torch.distributed.optim."""

from typing import TYPE_CHECKING, Any

from ...absent_names import missing as _missing
from ..ddp.zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise _missing(__name__, name)
