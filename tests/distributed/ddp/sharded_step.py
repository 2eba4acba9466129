"""A step of training on shards, against one on their union."""

from __future__ import annotations

import numpy as np

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn
from shmtensor.distributed import DistributedDataParallel


def training(atol: float = 1e-14) -> bytes:
    """In a rank: DistributedDataParallel on shards has the gradients of one process on the union.

    Returns:
        The weight's gradient, bit by bit.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    x = np.random.default_rng(0).standard_normal((4 * n, 300))
    st.manual_seed(1)
    model = nn.Linear(300, 70, dtype=st.float64)
    single = nn.Linear(300, 70, dtype=st.float64)
    single.load_state_dict(model.state_dict())
    single(st.tensor(x)).square().mean().backward()
    wrapped = DistributedDataParallel(model)
    wrapped(st.tensor(x[4 * rank : 4 * rank + 4])).square().mean().backward()
    gradient = model.weight.grad.cpu().numpy()
    np.testing.assert_allclose(gradient, single.weight.grad.cpu().numpy(), atol=atol)
    return gradient.tobytes()
