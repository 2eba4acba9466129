"""The base of all optimizers: groups, state, hooks, and PyTorch's format."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)


def parameters(n: int = 3) -> list[nn.Parameter]:
    return [nn.Parameter(st.ones(i + 1)) for i in range(n)]


class Signs(Optimizer):
    """A user's optimizer, over param_groups and state."""

    def __init__(self, params, lr=1.0):
        super().__init__(params, {"lr": lr})

    def step(self, closure=None):
        loss = self._evaluate(closure)
        with st.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self.state[p]["n"] = self.state[p].get("n", 0) + 1
                        p.sub_(group["lr"] * p.grad.sign())
        return loss


def test_users_optimizer() -> None:
    ps = parameters()
    o = Signs(ps, lr=0.5)

    def closure():
        o.zero_grad()
        loss = sum((p * p).sum() for p in ps)
        loss.backward()
        return loss

    assert o.step(closure).item() == 6
    assert ps[2].tolist() == [0.5] * 3
    assert o.state_dict()["state"] == {0: {"n": 1}, 1: {"n": 1}, 2: {"n": 1}}


def test_groups_have_their_own_hyperparameters() -> None:
    a, b, c = parameters()
    o = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    o.add_param_group({"params": [c], "momentum": 0.9})
    assert [g["lr"] for g in o.param_groups] == [0.1, 0.5, 0.1]
    for p in (a, b, c):
        p.grad = st.ones_like(p)
    o.step()
    np.testing.assert_allclose([p[0].item() for p in (a, b, c)], [0.9, 0.5, 0.9], rtol=1e-6)
    assert list(o.state_dict()["state"]) == [2]


def test_named_parameters_are_remembered() -> None:
    model = nn.Linear(2, 1)
    o = optim.SGD(model.named_parameters(), lr=0.1)
    assert o.param_groups[0]["param_names"] == ["weight", "bias"]
    assert o.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_wrong_parameters_are_refused() -> None:
    p = nn.Parameter(st.ones(1))
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([], lr=0.1)
    with pytest.raises(TypeError, match="should be an iterable"):
        optim.SGD(p, lr=0.1)
    for wrong in (nn.Linear(1, 1), nn.Linear(1, 1).parameters, 3):
        with pytest.raises(TypeError, match=rf"SGD: .*{type(wrong).__name__}, .*\.parameters\(\)"):
            optim.SGD(wrong, lr=0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'params': it has \['lr'\]"):
        optim.SGD([{"lr": 0.1}], lr=0.1)
    for make in (optim.SGD, optim.Adam):
        with pytest.raises(TypeError, match=r"lr must be a number: '0\.1'"):
            make([p], lr="0.1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"betas must be two numbers: 0\.9"):
        optim.Adam([p], betas=0.9)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="can only optimize Tensors"):
        optim.SGD([1.0], lr=0.1)
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([p * 2], lr=0.1)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1)
    with pytest.raises(ValueError, match="more than once"):
        optim.SGD([p, p], lr=0.1)
    with pytest.raises(TypeError, match="ordered"):
        optim.SGD([{"params": {p}}], lr=0.1)
    with pytest.raises(ValueError, match=r"-1"):
        optim.SGD([p], lr=-1)


def test_a_parameter_may_get_other_memory_between_steps() -> None:
    results = []
    for change in ("set_", "data"):
        p = st.nn.Parameter(st.ones(2))
        o = st.optim.SGD([p], lr=0.1, momentum=0.9)
        for i in range(4):
            o.zero_grad()
            (p * p).sum().backward()
            o.step()
            with st.no_grad():
                if i == 1 and change == "set_":
                    p.set_(st.full((2,), 5.0))
                elif i == 1:
                    p.data = st.full((2,), 5.0)
        results.append(p.tolist())
    assert results[0] == results[1]


def test_zero_grad_both_ways() -> None:
    ps = parameters()
    o = optim.SGD(ps, lr=0.1)
    sum(p.sum() for p in ps).backward()
    o.zero_grad(set_to_none=False)
    assert all((p.grad.numpy() == 0).all() for p in ps)
    o.zero_grad()
    assert all(p.grad is None for p in ps)


def test_load_state_dict_checks_the_groups() -> None:
    a, b = parameters(2)
    o = optim.Adam([a, b])
    with pytest.raises(ValueError, match="different number of parameter groups: 2 for 1"):
        o.load_state_dict(optim.Adam([{"params": [a]}, {"params": [b]}]).state_dict())
    with pytest.raises(ValueError, match=r"\(2, 1\)"):
        o.load_state_dict(optim.Adam([a]).state_dict())


@pytest.mark.parametrize("method", ["deepcopy", "pickle", "state_dict"])
def test_copies_continue_equally(method: str) -> None:
    def trained(model, o, steps):
        for _ in range(steps):
            o.zero_grad()
            model(st.ones(2, 3)).square().sum().backward()
            o.step()

    model = nn.Linear(3, 2)
    o = optim.Adam(model.parameters(), lr=0.01)
    trained(model, o, 3)
    if method == "deepcopy":
        copied, other = copy.deepcopy((model, o))
    elif method == "pickle":
        copied, other = pickle.loads(pickle.dumps((model, o)))
    else:
        copied = copy.deepcopy(model)
        other = optim.Adam(copied.parameters(), lr=0.5)
        other.load_state_dict(o.state_dict())
    for each in ((model, o), (copied, other)):
        trained(*each, 3)
    np.testing.assert_array_equal(copied.weight.detach().numpy(), model.weight.detach().numpy())
    assert other.state[copied.weight]["step"].item() == 6


def test_hooks_around_step_and_state() -> None:
    ps, calls = parameters(1), []
    o = optim.SGD(ps, lr=0.1)
    o.register_step_pre_hook(lambda *_: calls.append("pre") and None)
    o.register_step_post_hook(lambda *_: calls.append("post"))
    o.register_state_dict_pre_hook(lambda o: calls.append("save"))
    o.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    o.register_load_state_dict_pre_hook(lambda o, state: calls.append("load"))
    o.register_load_state_dict_post_hook(lambda o: calls.append("loaded"))
    handles = [
        register_optimizer_step_pre_hook(lambda *_: calls.append("all pre") and None),
        register_optimizer_step_post_hook(lambda *_: calls.append("all post")),
    ]
    ps[0].grad = st.ones(1)
    o.step()
    for handle in handles:
        handle.remove()
    state = o.state_dict()
    assert state["more"] == 1
    o.load_state_dict(state)
    assert calls == ["all pre", "pre", "post", "all post", "save", "load", "loaded"]


def test_repr_names_the_hyperparameters() -> None:
    text = repr(optim.SGD(parameters(), lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "    lr: 0.1\n" in text
