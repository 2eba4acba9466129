"""Distributed optimizers, by the names of torch.distributed.optim."""

from ..ddp.zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
from .post_localSGD_optimizer import PostLocalSGDOptimizer as PostLocalSGDOptimizer
