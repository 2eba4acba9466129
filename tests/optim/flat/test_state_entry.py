"""State from outside: tensors that the program puts into `optimizer.state` are the state."""

from __future__ import annotations

import copy
import os
import pickle
from collections import defaultdict
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim

OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "Adam": lambda p: optim.Adam(p, 0.1),
    "AMSGrad": lambda p: optim.Adam(p, 0.1, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, 0.1),
    "Adamax": lambda p: optim.Adamax(p, 0.1),
    "NAdam": lambda p: optim.NAdam(p, 0.1),
    "RAdam": lambda p: optim.RAdam(p, 0.1),
    "Adadelta": lambda p: optim.Adadelta(p, 0.1),
    "Adagrad": lambda p: optim.Adagrad(p, 0.1, lr_decay=0.1),
    "ASGD": lambda p: optim.ASGD(p, 0.1, t0=0, lambd=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, 0.1, momentum=0.5, centered=True),
    "Rprop": lambda p: optim.Rprop(p, 0.1),
    "SGD": lambda p: optim.SGD(p, 0.1, momentum=0.9),
    "Adafactor": lambda p: optim.Adafactor(p, 0.1),
    "Muon": lambda p: optim.Muon(p, 0.1),
}


def model() -> list[nn.Parameter]:
    return [nn.Parameter(st.arange(4.0).reshape(2, 2) + i) for i in range(3)]


def step(optimizer: optim.Optimizer, params: list[nn.Parameter], n: int = 1) -> None:
    for _ in range(n):
        for i, p in enumerate(params):
            p.grad = st.tensor([[1.0, -2.0], [0.5, 3.0]]) * (i + 1) + p.detach() / 8
        optimizer.step()


def state_of(optimizer: optim.Optimizer, p: Any) -> dict[str, Any]:
    return {name: x.tolist() for name, x in optimizer.state[p].items()}


def assert_equal(state: dict[str, Any], expected: dict[str, Any]) -> None:
    assert state.keys() == expected.keys()
    assert all(np.allclose(state[name], expected[name]) for name in expected)


def outside(optimizer: optim.Optimizer, p: Any) -> dict[str, Any]:
    """The entry of a parameter as tensors in memory of the program's."""
    return {name: x.clone() for name, x in optimizer.state[p].items()}


@pytest.mark.parametrize("which", ["one", "all"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_tensors_of_the_program_are_the_state(name: str, which: str) -> None:
    expected, params = model(), model()
    reference, optimizer = OPTIMIZERS[name](expected), OPTIMIZERS[name](params)
    step(reference, expected, 2)
    with st.no_grad():
        for p, q in zip(params, expected):
            p.copy_(q)
    chosen = [1] if which == "one" else [0, 1, 2]
    tensors = {i: outside(reference, expected[i]) for i in chosen}
    for i in range(3):
        optimizer.state[params[i]] = tensors.get(i) or outside(reference, expected[i])
    for _ in range(2):
        step(reference, expected)
        step(optimizer, params)
        for i, (p, q) in enumerate(zip(params, expected)):
            assert np.allclose(p.tolist(), q.tolist())
            assert_equal(state_of(optimizer, p), state_of(reference, q))
            for key, tensor in tensors.get(i, {}).items():
                assert optimizer.state[p][key] is tensor
                assert np.allclose(tensor.tolist(), reference.state[q][key].tolist())


@pytest.mark.parametrize("name", sorted(OPTIMIZERS.keys() - {"Adafactor", "Muon"}))
def test_a_tensor_that_replaces_a_steps_own_is_the_state(name: str) -> None:
    expected, params = model(), model()
    reference, optimizer = OPTIMIZERS[name](expected), OPTIMIZERS[name](params)
    step(reference, expected, 2)
    step(optimizer, params, 2)
    for key in list(optimizer.state[params[1]]):
        mine = optimizer.state[params[1]][key].clone()
        optimizer.state[params[1]][key] = mine
        step(reference, expected)
        step(optimizer, params)
        assert optimizer.state[params[1]][key] is mine
        for p, q in zip(params, expected):
            assert np.allclose(p.tolist(), q.tolist())
            assert_equal(state_of(optimizer, p), state_of(reference, q))


def test_the_first_step_of_a_shared_adam() -> None:
    p = nn.Parameter(st.zeros(2))
    optimizer = optim.Adam([p], lr=0.5)
    entry = optimizer.state[p]
    entry["step"] = st.zeros(1).share_memory_()
    entry["exp_avg"] = st.zeros(2).share_memory_()
    entry["exp_avg_sq"] = st.zeros(2).share_memory_()

    def first_step() -> None:
        p.grad = st.ones(2)
        optimizer.step()

    pid = os.fork()
    if pid == 0:
        try:
            first_step()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert entry["step"].tolist() == [1]
    assert np.allclose(entry["exp_avg"].tolist(), 0.1)
    assert np.allclose(entry["exp_avg_sq"].tolist(), 0.001)
    assert np.allclose(p.tolist(), -0.5)
    first_step()
    assert entry["step"].tolist() == [2]
    assert np.allclose(entry["exp_avg"].tolist(), 0.19)
    assert optimizer.state[p] is entry


@pytest.mark.parametrize("dtype", ["int64", "float64", "float32"])
def test_a_step_count_of_any_dtype_is_advanced(dtype: str) -> None:
    p = nn.Parameter(st.zeros(2))
    optimizer = optim.Adam([p])
    count = st.zeros((), dtype=getattr(st, dtype))
    optimizer.state[p] = {"step": count, "exp_avg": st.zeros(2), "exp_avg_sq": st.zeros(2)}
    p.grad = st.ones(2)
    optimizer.step()
    optimizer.step()
    assert count.item() == 2


def test_state_of_another_dtype_or_layout_is_updated() -> None:
    expected, p = nn.Parameter(st.zeros(3, 2)), nn.Parameter(st.zeros(3, 2))
    reference, optimizer = optim.Adam([expected]), optim.Adam([p])
    average, square = st.zeros(2, 3).t(), st.zeros(3, 2, dtype=st.float64)
    optimizer.state[p] = {"step": st.zeros(()), "exp_avg": average, "exp_avg_sq": square}
    for x, o in ((expected, reference), (p, optimizer)):
        x.grad = st.arange(6.0).reshape(3, 2)
        o.step()
    assert np.allclose(average.tolist(), reference.state[expected]["exp_avg"].tolist())
    assert np.allclose(square.tolist(), reference.state[expected]["exp_avg_sq"].tolist())
    assert np.allclose(p.tolist(), expected.tolist())


def test_wrong_state_is_named() -> None:
    p = nn.Parameter(st.zeros(2))
    optimizer = optim.Adam([p])
    p.grad = st.ones(2)
    right = {"step": st.zeros(()), "exp_avg": st.zeros(2), "exp_avg_sq": st.zeros(2)}
    optimizer.state[p] = {**right, "exp_avg": st.zeros(3)}
    with pytest.raises(RuntimeError, match=r"'exp_avg' .* another shape: \(3,\)"):
        optimizer.step()
    optimizer.state[p] = {**right, "step": st.zeros(2)}
    with pytest.raises(RuntimeError, match="'step' has one number"):
        optimizer.step()
    optimizer.state[p] = {**right, "exp_avg": st.zeros(2).share(readonly=True)}
    with pytest.raises(RuntimeError, match=r"'exp_avg' .* cannot be written"):
        optimizer.step()


def test_what_is_missing_is_made_and_numbers_become_tensors() -> None:
    p = nn.Parameter(st.zeros(2))
    optimizer = optim.Adam([p])
    average = st.zeros(2)
    optimizer.state[p].update(step=0, exp_avg=average, note="mine")
    p.grad = st.ones(2)
    optimizer.step()
    entry = optimizer.state[p]
    assert entry["step"].item() == 1
    assert np.allclose(average.tolist(), 0.1)
    assert np.allclose(entry["exp_avg_sq"].tolist(), 0.001)
    assert entry["note"] == "mine"


def test_a_new_dictionary_of_state_is_used() -> None:
    p = nn.Parameter(st.zeros(2))
    optimizer = optim.SGD([p], 1.0, momentum=0.5)
    p.grad = st.ones(2)
    optimizer.step()
    momentum = st.full((2,), 4.0)
    optimizer.state = defaultdict(dict, {p: {"momentum_buffer": momentum}})
    optimizer.step()
    assert momentum.tolist() == [3, 3]
    assert p.tolist() == [-4, -4]
    optimizer.state = defaultdict(dict)
    optimizer.step()
    assert momentum.tolist() == [3, 3]
    assert optimizer.state[p]["momentum_buffer"].tolist() == [1, 1]


def test_a_parameter_that_moves_keeps_its_state_from_outside() -> None:
    p, q = nn.Parameter(st.zeros(2)), nn.Parameter(st.zeros(2))
    optimizer = optim.SGD([p, q], 1.0, momentum=0.5)
    momentum = st.ones(2)
    optimizer.state[p]["momentum_buffer"] = momentum
    for _ in range(2):
        p.grad, q.grad = st.ones(2), st.ones(2)
        optimizer.step()
        p.data = p.data.clone()
    assert momentum.tolist() == [1.75, 1.75]
    assert optimizer.state[p]["momentum_buffer"] is momentum
    assert optimizer.state[q]["momentum_buffer"].tolist() == [1.5, 1.5]


def test_loaded_state_is_a_copy() -> None:
    params = model()
    optimizer = optim.Adam(params)
    for p in params:
        optimizer.state[p] = {
            "step": st.zeros(()), "exp_avg": st.zeros(2, 2), "exp_avg_sq": st.zeros(2, 2)
        }  # fmt: skip
    step(optimizer, params)
    mine = optimizer.state[params[0]]["exp_avg"]
    saved = optimizer.state_dict()
    assert saved["state"][0]["exp_avg"] is mine
    before = mine.tolist()
    optimizer.load_state_dict(saved)
    step(optimizer, params)
    assert mine.tolist() == before
    assert optimizer.state[params[0]]["step"].item() == 2


def test_copies_keep_which_state_is_the_programs() -> None:
    p, q = nn.Parameter(st.zeros(2)), nn.Parameter(st.zeros(2))
    optimizer = optim.SGD([p, q], 1.0, momentum=0.5)
    momentum = st.ones(2)
    optimizer.state[p]["momentum_buffer"] = momentum
    p.grad, q.grad = st.ones(2), st.ones(2)
    optimizer.step()
    copied = copy.deepcopy(optimizer)
    (sent,) = pickle.loads(ForkingPickler.dumps((optimizer,)))
    for other, expected in ((copied, 1.5), (sent, 1.75)):
        for x in other.param_groups[0]["params"]:
            x.grad = st.ones(2)
        other.step()
        entry = other.state[other.param_groups[0]["params"][0]]
        assert entry["momentum_buffer"].tolist() == [expected + 0.25 * (other is copied)] * 2
        assert momentum.tolist() == [1.5 if other is copied else 1.75] * 2


@pytest.mark.parametrize("name", ["Adam", "NAdam", "Adagrad", "ASGD", "SGD"])
def test_a_steps_own_state_that_moves_is_still_the_state(name: str) -> None:
    expected, params = model(), model()
    reference, optimizer = OPTIMIZERS[name](expected), OPTIMIZERS[name](params)
    step(reference, expected)
    step(optimizer, params)
    for entry in optimizer.state.values():
        for tensor in entry.values():
            tensor.share_memory_()  # the step counts are in private memory
    kept = [dict(optimizer.state[p]) for p in params]
    step(reference, expected, 2)
    step(optimizer, params, 2)
    for p, q, entry in zip(params, expected, kept):
        assert np.allclose(p.tolist(), q.tolist())
        assert_equal({key: x.tolist() for key, x in entry.items()}, state_of(reference, q))
        assert all(x.is_shared() for x in entry.values())


def test_state_is_saved_as_plain_dictionaries() -> None:
    p = nn.Parameter(st.zeros(2))
    optimizer = optim.Adam([p])
    p.grad = st.ones(2)
    optimizer.step()
    assert type(optimizer.state_dict()["state"][0]) is dict
    assert type(copy.copy(optimizer.state)) is defaultdict
    assert type(pickle.loads(pickle.dumps(dict(optimizer.state)))) is dict
    (entry,) = pickle.loads(pickle.dumps(list(optimizer.state.values())))
    assert type(entry) is dict
    assert type(optimizer.__getstate__()["state"][p]) is dict


def test_own_notes_in_the_state_change_nothing() -> None:
    p = nn.Parameter(st.zeros(2))
    optimizer = optim.Adam([p])
    p.grad = st.ones(2)
    optimizer.step()
    average = optimizer.state[p]["exp_avg"]
    optimizer.state[p]["note"] = st.ones(5)
    optimizer.step()
    assert optimizer.state[p]["exp_avg"] is average
    assert optimizer.state[p]["step"].item() == 2


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_that_no_step_has_met_is_sent_as_the_programs(name: str) -> None:
    made = OPTIMIZERS[name](params := model())
    step(made, params)
    optimizer = OPTIMIZERS[name](params)
    optimizer.state[params[0]] = tensors = outside(made, params[0])
    (sent,) = pickle.loads(ForkingPickler.dumps((optimizer,)))
    expected = copy.deepcopy(made)
    for o in (expected, sent):
        step(o, o.param_groups[0]["params"])
    state = state_of(expected, expected.param_groups[0]["params"][0])
    assert_equal({key: x.tolist() for key, x in tensors.items()}, state)
    assert all(optimizer.state[params[0]][key] is x for key, x in tensors.items())
