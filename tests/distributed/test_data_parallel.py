"""DataParallel: the batch in parts, in threads of one process."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.parallel import (
    DataParallel,
    data_parallel,
    gather,
    parallel_apply,
    replicate,
    scatter,
)


@pytest.mark.parametrize("devices", [None, [0], [0, 1, 2]])
def test_output_and_gradients_are_those_of_the_module(devices: Any) -> None:
    model = nn.Linear(3, 2).double()
    x = st.tensor(np.random.default_rng(0).standard_normal((7, 3)))
    out = DataParallel(model, devices)(x)
    out.square().sum().backward()
    gradient = np.array(model.weight.grad.numpy())
    model.zero_grad()
    want = model(x)
    want.square().sum().backward()
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(gradient, model.weight.grad.numpy(), rtol=1e-12)
    output = data_parallel(model, x, devices)
    np.testing.assert_allclose(output.detach().numpy(), want.detach().numpy(), rtol=1e-12)


def test_nested_inputs_are_cut_and_joined() -> None:
    x, y = st.arange(6.0).reshape(3, 2), st.arange(3.0)
    parts = scatter((x, {"y": [y], "n": 5}), [0, 1])
    assert [part[1]["n"] for part in parts] == [5, 5]
    assert parts[1][0].tolist() == [[4.0, 5.0]]
    gathered = gather([{"a": (x, None), "b": st.tensor(1.0)}] * 2)
    assert gathered["a"][0].shape == (6, 2)
    assert gathered["a"][1] is None
    assert gathered["b"].tolist() == [1.0, 1.0]
    model = nn.ReLU()
    assert replicate(model, [0, 1]) == [model, model]


class Pair(NamedTuple):
    x: Any
    n: Any


def test_named_tuples_and_dictionaries_keep_their_type() -> None:
    x = st.arange(4.0)
    halves = scatter((Pair(x, 5), OrderedDict(y=x)), [0, 1])
    assert [type(each) for each in halves[1]] == [Pair, OrderedDict]
    assert halves[1][0].x.tolist() == [2.0, 3.0]
    assert halves[0][0].n == 5
    gathered = gather([Pair(x, x), Pair(x, x)])
    assert isinstance(gathered, Pair)
    assert gathered.n.shape == (8,)


def test_subclasses_say_how_the_batch_is_cut_and_joined() -> None:
    class Rows(DataParallel):
        def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
            return [(row,) for row in inputs[0]], [kwargs for _ in inputs[0]]

        def replicate(self, module: Any, device_ids: Any) -> Any:
            return [module] * 3

        def gather(self, outputs: Any, output_device: Any) -> Any:
            return [output.tolist() for output in outputs]

    assert Rows(nn.ReLU(), [0, 1, 2])(st.ones(3, 2)) == [[1.0, 1.0]] * 3


def test_arguments_by_name_may_have_fewer_parts() -> None:
    class Add(nn.Module):
        def forward(self, x: Any, y: Any = 0) -> Any:
            return x + y

    out = DataParallel(Add(), [0, 1])(st.zeros(4), y=st.ones(1))
    assert out.tolist() == [1.0, 1.0, 0.0, 0.0]  # as in PyTorch


def test_an_error_in_a_thread_is_raised() -> None:
    def fails(n: int) -> int:
        if n:
            raise LookupError(f"part {n}")
        return n

    with pytest.raises(LookupError, match="part 1"):
        parallel_apply([fails, fails], [0, 1])
