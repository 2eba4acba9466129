"""Gradients that come several times in one backward: checkpoints with use_reentrant=True."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn
from shmtensor.distributed import DistributedDataParallel
from shmtensor.utils.checkpoint import checkpoint

from ..run_ranks import run, values


class Twice(nn.Module):
    """The same layers in two segments, and an unused one."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.a, self.b, self.unused = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(2, 2)
        for i, p in enumerate(self.parameters()):
            numbers = np.cos(np.arange(p.numel()) + i).reshape(tuple(p.shape))
            p.data = st.tensor(numbers, dtype=st.float64)

    def forward(self, x: Any) -> Any:
        for _ in range(2):
            x = self.part(x)
        return x

    def part(self, x: Any) -> Any:
        def layers(x: Any) -> Any:
            return self.b(st.tanh(self.a(x)))

        if self.reentrant is None:
            return layers(x)
        return checkpoint(layers, x, use_reentrant=self.reentrant)


def rank_input(rank: int, step: int) -> Any:
    numbers = np.sin(np.arange(8.0) + 3 * rank + step).reshape(2, 4)
    return st.tensor(numbers).requires_grad_()


def gradients(reentrant: bool | None, *options: str) -> list[list[Any]]:
    """Of three steps."""
    model = Twice(reentrant)
    wrapped = DistributedDataParallel(model, bucket_cap_mb=1e-4, **dict.fromkeys(options, True))
    out = []
    for step in range(3):
        model.zero_grad()
        wrapped(rank_input(dist.get_rank(), step)).sum().backward()
        out.append([None if p.grad is None else p.grad.numpy().copy() for p in model.parameters()])
    return out


def of_the_union(step: int) -> list[Any]:
    """The result of one process: the mean over two ranks."""
    model = Twice(None)
    for rank in range(2):
        (model(rank_input(rank, step)).sum() / 2).backward()
    return [None if p.grad is None else p.grad.numpy() for p in model.parameters()]


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_a_static_graph_waits_for_the_last_part_of_a_gradient(reentrant: bool | None) -> None:
    ranks = values(run(gradients, 2, reentrant, "static_graph"))
    for step in range(3):
        for result in (rank[step] for rank in ranks):
            for g, expected in zip(result, of_the_union(step), strict=True):
                if expected is None:
                    assert g is None or not g.any()
                else:
                    np.testing.assert_allclose(g, expected, rtol=1e-12)


def repeated(*options: str) -> str:
    with pytest.raises(RuntimeError) as caught:
        gradients(True, *options)
    return str(caught.value)


def test_elsewhere_a_gradient_in_parts_is_refused() -> None:
    for message in values(run(repeated, 2)):
        assert re.search(r"the gradient of [ab]\.\w+ came 2 times in one backward", message)
    for message in values(run(repeated, 2, "find_unused_parameters")):
        assert re.search(
            r"the gradient of [ab]\.\w+ was considered unused: .*static_graph", message
        )


def backward_twice() -> list[float]:
    """Two backwards of one forward: the second adds this rank's own gradient."""
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    model.module.weight.data = st.ones(1, 1)
    loss = model(st.full((1, 1), 1.0 + dist.get_rank())).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    grad: float = model.module.weight.grad.item()
    return [grad]


def test_two_backwards_of_one_forward_are_separate() -> None:
    assert values(run(backward_twice, 2)) == [[2.5], [3.5]]
