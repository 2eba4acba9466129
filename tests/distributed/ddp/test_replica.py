"""Parameters and buffers of the ranks' models: those that the model has when they are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn, optim
from shmtensor.distributed.ddp.replica import current_tensors
from shmtensor.nn.parallel import DistributedDataParallel

from ..run_ranks import run, values

# ---------------------------------------------------------------- buffers


class Counts(nn.Module):
    """Replaces its buffers in each forward; `late` appears in the first one, in a submodule that is
    made there, too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.register_buffer("b", st.zeros(1))
        self.register_buffer("hidden", st.zeros(1), persistent=False)
        self.register_buffer("absent", None)
        self.seen: list[list[float]] = []

    def forward(self, x: Any) -> Any:
        if not hasattr(self, "late"):
            self.late = nn.Module()
            self.late.register_buffer("b", st.zeros(1))
        late: Any = self.late
        self.seen.append([float(self.b), float(self.hidden), float(late.b)])
        step = 1 + dist.get_rank()
        self.b = self.b + step
        self.hidden = self.hidden + step
        late.b = late.b + step
        return self.layer(x)


def counts(n: int) -> list[list[float]]:
    model = Counts()
    wrapped = DistributedDataParallel(model)
    for _ in range(n):
        wrapped(st.ones(1, 1)).sum().backward()
    return model.seen


def test_buffers_that_forward_replaces_or_makes_are_those_of_rank_0() -> None:
    expected = [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    assert values(run(counts, 2, 3)) == [expected, expected]


def joined_counts() -> Any:
    model = Counts()
    wrapped = DistributedDataParallel(model)
    with wrapped.join():
        for _ in range(2 + dist.get_rank()):
            wrapped(st.ones(1, 1)).sum().backward()
    return model.seen, float(model.b), float(model.late.b)


def test_under_join_buffers_are_those_of_the_last_rank_with_inputs() -> None:
    (first, *ends), (second, *other_ends) = values(run(joined_counts, 2))
    # rank 1 counts, as long as it has inputs: 0, 2, 4
    assert first == [[0, 0, 0], [2, 2, 2]]
    assert second == [[0, 0, 0], [2, 2, 2], [4, 4, 4]]
    assert ends == other_ends == [6, 6]


def ignored_buffers() -> Any:
    model = Counts()
    names = ["b"]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)
    wrapped = DistributedDataParallel(model)
    for _ in range(2):
        wrapped(st.ones(1, 1)).sum().backward()
    return model.seen[1]


def test_an_ignored_buffer_stays_each_ranks_own() -> None:
    assert values(run(ignored_buffers, 2)) == [[1, 1, 1], [2, 1, 1]]


def test_current_tensors_are_those_of_named_parameters() -> None:
    shared = nn.Linear(2, 2)
    model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(shared, nn.BatchNorm1d(2)), shared)
    model.tied = nn.Linear(2, 2)
    model.tied.weight = shared.weight
    for table, named in (("_parameters", model.parameters()), ("_buffers", model.buffers())):
        assert {id(x) for x in current_tensors(model, table)} == {id(x) for x in named}
    model[1].append(model)  # within itself
    assert {id(x) for x in current_tensors(model, "_buffers")} == {id(x) for x in model.buffers()}


# ---------------------------------------------------------------- requires_grad that changes


def two_layers() -> Any:
    st.manual_seed(dist.get_rank())
    return nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))


def step(wrapped: Any) -> list[float | None]:
    """The gradients of a step in which both weights are 1 and the input is 1 + rank."""
    wrapped.zero_grad()
    with st.no_grad():
        for p in wrapped.parameters():
            p.fill_(1.0)
    wrapped(st.full((1, 1), 1.0 + dist.get_rank())).sum().backward()
    return [None if p.grad is None else float(p.grad) for p in wrapped.parameters()]


def thaw_and_freeze(options: dict[str, Any]) -> list[Any]:
    model = two_layers()
    model[0].requires_grad_(False)
    wrapped = DistributedDataParallel(model, **options)
    gradients = [step(wrapped)]
    model[0].requires_grad_(True)
    gradients += [step(wrapped), step(wrapped)]
    model[1].requires_grad_(False)
    gradients += [step(wrapped)]
    model[0].requires_grad_(False)
    model[1].requires_grad_(True)
    gradients += [step(wrapped)]
    model.requires_grad_(True)
    with wrapped.no_sync():
        gradients += [step(wrapped)]
    wrapped(st.full((1, 1), 1.0 + dist.get_rank())).sum().backward()
    return [*gradients, [float(p.grad) for p in wrapped.parameters()]]


OPTIONS = [
    {},
    {"find_unused_parameters": True},
    {"static_graph": True},
    {"bucket_cap_mb": 1e-6},
    {"bucket_cap_mb": 1e-6, "find_unused_parameters": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_parameters_that_thaw_are_reduced(options: dict[str, Any]) -> None:
    for rank, gradients in enumerate(values(run(thaw_and_freeze, 2, options))):
        assert gradients == [
            [None, 1.5],
            [1.5, 1.5],
            [1.5, 1.5],
            [1.5, None],
            [None, 1.5],
            [1.0 + rank, 1.0 + rank],
            [3.0, 3.0],
        ]


class Growing(nn.Module):
    """Makes a layer in a forward."""

    def __init__(self, when: int) -> None:
        super().__init__()
        self.first = nn.Linear(1, 1, bias=False)
        self.when = when
        self.n = 0

    def forward(self, x: Any) -> Any:
        if self.n == self.when:
            self.second = nn.Linear(1, 1, bias=False)
            self.second.weight.data.fill_(1.0 + dist.get_rank())
        self.n += 1
        return self.first(x) if self.n <= self.when else self.second(self.first(x))


def grow(when: int, options: dict[str, Any]) -> list[Any]:
    model = Growing(when)
    wrapped = DistributedDataParallel(model, **options)
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    gradients = []
    for i in range(3):
        gradients.append(step(wrapped))
        if i == when:
            optimizer.add_param_group({"params": [model.second.weight]})
            gradients.append(float(model.second.weight))
        optimizer.step()
    return gradients


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_parameters_that_a_forward_makes_are_copied_and_reduced(options: dict[str, Any]) -> None:
    results = values(run(grow, 2, 1, options))
    for gradients in results:
        assert gradients[0] == [1.5]
        assert gradients[2] == 1.0  # rank 0's
        assert gradients[3] == [1.5, 1.5]
    # in the first step each rank's own weight took part in the forward
    assert results[0][1] == results[1][1] == [(1 * 1 + 2 * 2) / 2, 1.5]


def replace_parameter() -> list[Any]:
    model = two_layers()
    wrapped = DistributedDataParallel(model)
    first = step(wrapped)
    model[0].weight = nn.Parameter(st.ones(1, 1))
    return [first, step(wrapped), step(wrapped)]


def test_a_parameter_that_was_replaced_is_reduced() -> None:
    assert values(run(replace_parameter, 2)) == [[[1.5, 1.5]] * 3] * 2


def thaw_under_join() -> Any:
    model = two_layers()
    model[0].requires_grad_(False)
    wrapped = DistributedDataParallel(model)
    with wrapped.join(divide_by_initial_world_size=False):
        step(wrapped)
        model[0].requires_grad_(True)
        gradients = [step(wrapped)]
        if dist.get_rank():
            gradients.append(step(wrapped))
    return gradients


def test_joined_ranks_take_part_for_parameters_that_thawed() -> None:
    first, second = values(run(thaw_under_join, 2))
    assert first == [[1.5, 1.5]]
    assert second == [[1.5, 1.5], [2.0, 2.0]]


def thaw_with_optimizer_in_backward() -> None:
    model = two_layers()
    model[0].requires_grad_(False)
    wrapped = DistributedDataParallel(model)
    wrapped._register_fused_optim(optim.SGD, lr=0.1)
    model[0].requires_grad_(True)
    step(wrapped)


def test_an_optimizer_in_backward_refuses_other_parameters_by_name() -> None:
    for outcome in run(thaw_with_optimizer_in_backward, 2):
        assert r"0.weight" in str(outcome.error), outcome


def frozen_trains() -> list[float]:
    """An optimizer's flat block, and a layer that thaws in the middle of training."""
    st.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    model[0].requires_grad_(False)
    wrapped = DistributedDataParallel(model)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    x = st.arange(12.0).double().reshape(4, 3).sin()
    part = x[2 * dist.get_rank() :][:2] if dist.get_world_size() > 1 else x
    for i in range(6):
        if i == 3:
            model[0].requires_grad_(True)
        optimizer.zero_grad()
        wrapped(part).square().mean().backward()
        optimizer.step()
    return [float(x) for p in model.parameters() for x in p.detach().reshape(-1)]


def test_training_with_a_layer_that_thaws_is_that_of_one_process() -> None:
    (alone,) = values(run(frozen_trains, 1))
    first, second = values(run(frozen_trains, 2))
    assert first == second
    np.testing.assert_allclose(first, alone, rtol=1e-10)
