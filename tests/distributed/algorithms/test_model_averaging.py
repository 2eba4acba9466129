"""Model averagers and the optimizer of post-local SGD against the same steps in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn, optim
from shmtensor.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from shmtensor.distributed.algorithms.model_averaging.averagers import (
    ModelAverager,
    PeriodicModelAverager,
    average_parameters,
    get_params_to_average,
)
from shmtensor.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager,
)
from shmtensor.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer

from ..run_ranks import run, values


def drift(averager: Any, steps: int) -> list[float]:
    """Each step adds 1 + rank to a parameter after the averager has run."""
    p = nn.Parameter(st.zeros(3, dtype=st.float64))
    idle = nn.Parameter(st.full((2,), float(dist.get_rank()), dtype=st.float64))  # has no gradient
    p.grad = st.ones(3, dtype=st.float64)
    losses = []
    for _ in range(steps):
        with st.no_grad():
            p += 1.0 + dist.get_rank()
        averager.average_parameters([p, idle])
        assert p[0] == p[2]
        losses.append(p[0].item())
    assert idle.tolist() == [float(dist.get_rank())] * 2
    return losses


def periodic() -> Any:
    return drift(PeriodicModelAverager(3, warmup_steps=2), 7)


def test_periodic_averager() -> None:
    w, want = np.zeros(2), []
    for step in range(7):
        w += [1, 2]
        if step in (2, 5):
            w[:] = w.mean()
        want.append(w.copy())
    assert np.array_equal(np.array(values(run(periodic, 2, start_method="fork"))).T, want)


def hierarchical() -> Any:
    return drift(HierarchicalModelAverager({2: 2, 4: 4}, warmup_steps=1), 6)


def test_hierarchical_averager() -> None:
    w, want = np.zeros(4), []
    for step in range(6):
        w += [1, 2, 3, 4]
        if step == 4:
            w[:] = w.mean()
        elif step == 2:
            w[:] = np.repeat(w.reshape(2, 2).mean(1), 2)
        want.append(w.copy())
    assert np.array_equal(np.array(values(run(hierarchical, 4, start_method="fork"))).T, want)


def post_local(resumes: bool) -> list[list[float]]:
    """Post-local SGD: gradients averaged in step 0, models every 2nd step from step 1 on."""
    rank = dist.get_rank()
    subgroup, _ = dist.new_subgroups(1)
    model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1, bias=False).double())
    with st.no_grad():
        model.module.weight.fill_(0)
    model.register_comm_hook(PostLocalSGDState(None, subgroup, 1), post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(
        optim.SGD(model.parameters(), lr=1.0, momentum=0.5), PeriodicModelAverager(2, 1)
    )
    parameters = []
    for step in range(5):
        if resumes and step == 3:  # as from a checkpoint
            saved = optimizer.state_dict()
            assert saved["step"] == 3
            optimizer = PostLocalSGDOptimizer(
                optim.SGD(model.parameters(), lr=7.0, momentum=0.1), PeriodicModelAverager(2, 1)
            )
            optimizer.load_state_dict(saved)
            assert optimizer.param_groups[0]["lr"] == 1.0
        optimizer.zero_grad()
        model(st.full((1, 1), rank + 1.0, dtype=st.float64)).sum().backward()
        optimizer.step()
        parameters.append(model.module.weight.item())
    return parameters


def test_post_local_sgd() -> None:
    x, w, m, want = np.array([1.0, 2.0]), np.zeros(2), np.zeros(2), []
    for step in range(5):
        m = 0.5 * m + (x.mean() if step == 0 else x)
        w = w - m
        if step in (1, 3):
            w[:] = w.mean()
        want.append(w)
    for resumes in (False, True):
        results = values(run(post_local, 2, resumes, start_method="fork"))
        np.testing.assert_allclose(np.array(results).T, want, rtol=1e-12)


def test_wrong_use_and_names() -> None:
    dist.init_process_group(rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match="positive"):
            PeriodicModelAverager(0)
        with pytest.raises(ValueError, match="not negative"):
            PeriodicModelAverager(2, -1)
        with pytest.warns(UserWarning, match="in every step"):
            PeriodicModelAverager(1)
        for sizes in (None, {0: 1}, {4: 1, 2: 1}):
            with pytest.raises(ValueError, match="positive and rise"):
                HierarchicalModelAverager(sizes)
        with pytest.raises(ValueError, match="up to the group's"):
            HierarchicalModelAverager({2: 3})
        with pytest.raises(NotImplementedError):
            ModelAverager().average_parameters([])
        p, q = (nn.Parameter(st.ones(2)) for _ in range(2))
        p.grad = st.ones(2)
        assert get_params_to_average([{"params": [p, q]}, {"params": [q]}]) == [p]
        average_parameters([p], dist.GroupMember.NON_GROUP_MEMBER)
        optimizer = PostLocalSGDOptimizer(optim.SGD([p], lr=0.5), PeriodicModelAverager(2))
        optimizer.add_param_group({"params": [q]})
        assert len(optimizer.param_groups) == len(optimizer.optim.param_groups) == 2
        assert optimizer.state is optimizer.optim.state
        assert repr(optimizer) == repr(optimizer.optim)
        scheduler = optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
        optimizer.step()
        scheduler.step()
        assert optimizer.optim.param_groups[0]["lr"] == pytest.approx(0.05)
        assert p.tolist() == [0.5, 0.5]
        optimizer.zero_grad()
        assert p.grad is None
        with pytest.warns(UserWarning, match="no step"):
            optimizer.load_state_dict(optimizer.optim.state_dict())
        assert optimizer.averager.step == 0
    finally:
        dist.destroy_process_group()
    assert dist.optim.ZeroRedundancyOptimizer is ZeroRedundancyOptimizer
    assert dist.algorithms.join.Join is dist.Join
