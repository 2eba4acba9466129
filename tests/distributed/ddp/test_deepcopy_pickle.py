"""Copies of a DistributedDataParallel: by deepcopy, pickle and save."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn, optim
from shmtensor.nn.parallel import DistributedDataParallel

from ..run_ranks import run, values


def model(**options: Any) -> Any:
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    layer.register_buffer("b", st.ones(1))
    return DistributedDataParallel(layer, **options)


def gradient(wrapped: Any) -> float:
    wrapped.zero_grad()
    wrapped(st.full((1, 1), 1.0 + dist.get_rank())).sum().backward()
    return float(wrapped.module.weight.grad)


class Holder:
    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        self.same = wrapped.module.weight


def duplicates() -> list[Any]:
    wrapped = model(find_unused_parameters=True)
    wrapped.note = "mine"
    gradient(wrapped)
    copied = copy.deepcopy(wrapped)
    loaded = pickle.loads(pickle.dumps(wrapped))
    buffer = io.BytesIO()
    st.save(wrapped, buffer)
    buffer.seek(0)
    saved = st.load(buffer, weights_only=False)
    holder = copy.deepcopy(Holder(wrapped))
    assert holder.same is holder.wrapped.module.weight
    average = optim.swa_utils.AveragedModel(wrapped)
    results = []
    for other in (copied, loaded, saved, holder.wrapped):
        assert type(other) is DistributedDataParallel
        assert other.note == "mine"
        assert other.find_unused_parameters
        with st.no_grad():
            other.module.weight.fill_(2.0)
        results.append(gradient(other))
        optim.SGD(other.parameters(), 1.0).step()
        results.append(float(other.module.weight))
    average.update_parameters(wrapped)
    return [*results, float(average.module.module.weight), float(wrapped.module.weight)]


def test_copies_train_on_their_own() -> None:
    expected = [1.5, 0.5] * 4 + [1.0, 1.0]
    assert values(run(duplicates, 2)) == [expected, expected]


def copy_on_one_rank() -> float:
    wrapped = model()
    if not dist.get_rank():
        copied = copy.deepcopy(wrapped)
        copied.module.weight.data.fill_(5.0)
    return gradient(wrapped)


def test_one_rank_may_copy_alone() -> None:
    assert values(run(copy_on_one_rank, 2)) == [1.5, 1.5]


def copy_with_delayed() -> float:
    layers = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    for p in layers.parameters():
        p.data.fill_(1.0)
    first, second = layers.named_parameters()
    wrapped = DistributedDataParallel(
        layers, delay_all_reduce_named_params=[second], param_to_hook_all_reduce=first[1]
    )
    copied = copy.deepcopy(wrapped)
    copied(st.full((1, 1), 1.0 + dist.get_rank())).sum().backward()
    assert all(p.grad is None for p in layers.parameters())
    return [float(p.grad) for p in copied.parameters()]


def test_settings_that_name_parameters_name_those_of_the_copy() -> None:
    assert values(run(copy_with_delayed, 2)) == [[1.5, 1.5]] * 2


def other_group() -> list[Any]:
    group = dist.new_group([0, 1])
    wrapped = model(process_group=group)
    copied = copy.deepcopy(wrapped)
    assert copied.process_group is group
    result = [gradient(copied)]
    try:
        pickle.dumps(wrapped)
    except RuntimeError as error:
        result.append(str(error))
    return result


def test_a_model_of_another_group_says_what_to_do() -> None:
    for value, text in values(run(other_group, 2)):
        assert value == 1.5
        assert "another group" in text
        assert ".module" in text


def pickled() -> bytes:
    return pickle.dumps(model())


def test_loading_without_a_group_says_what_to_do() -> None:
    data, _ = values(run(pickled, 2))
    with pytest.raises(RuntimeError, match=r"init_process_group first, or save its \.module"):
        pickle.loads(data)
