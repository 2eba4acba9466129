"""ZeroRedundancyOptimizer: the same steps as one optimizer, with a part of the state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn, optim

from ..run_ranks import run, values


def make() -> nn.Module:
    st.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.Linear(4, 2)).double()


def steps(model: nn.Module, optimizer: Any, n: int) -> list[Any]:
    x = st.tensor(np.random.default_rng(1).standard_normal((5, 6)))
    for _ in range(n):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
    return [np.array(p.detach().numpy()) for p in model.parameters()]


def split() -> tuple[list[Any], int, dict[str, Any] | None]:
    model = make()
    optimizer = dist.ZeroRedundancyOptimizer(model.parameters(), optim.Adam, lr=0.1)
    with pytest.raises(RuntimeError, match="consolidate_state_dict"):
        optimizer.state_dict()
    steps(model, optimizer, 2)
    optimizer.consolidate_state_dict(to=0)
    box = [optimizer.state_dict() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box)
    # another optimizer continues from there
    restored = dist.ZeroRedundancyOptimizer(model.parameters(), optim.Adam, lr=0.1)
    restored.load_state_dict(box[0])
    size = sum(p.numel() for part in restored.optim.param_groups for p in part["params"])
    parameters = steps(model, restored, 3)
    return parameters, size, box[0] if dist.get_rank() == 0 else None


@pytest.mark.parametrize("ranks", [2, 3])
def test_steps_are_those_of_one_optimizer(ranks: int) -> None:
    model = make()
    single = optim.Adam(model.parameters(), lr=0.1)
    steps(model, single, 2)
    state = single.state_dict()
    want = steps(model, single, 3)
    results = values(run(split, ranks))
    for parameters, _, _ in results:
        for result, each in zip(parameters, want, strict=True):
            np.testing.assert_allclose(result, each, rtol=1e-12)
    sizes = [size for _, size, _ in results]
    assert sum(sizes) == sum(p.numel() for p in model.parameters())
    assert max(sizes) < sum(sizes)
    full_state = results[0][2]
    assert full_state is not None
    assert set(full_state["state"]) == set(state["state"])
    assert len(full_state["param_groups"][0]["params"]) == 6
