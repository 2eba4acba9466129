"""Optimizers step as PyTorch's do, from each other's state too."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import shmtensor as st

pytestmark = pytest.mark.torch

SHAPES = [(3, 4), (4,), (2, 3, 2), ()]
SIGNS = [False, True]
DECAYS = [0, 0.1]
BETAS = [(0.9, 0.999), (0.5, 0.6)]
GRIDS: dict[str, dict[str, list[Any]]] = {
    "Adadelta": {"rho": [0.9, 0.5], "eps": [1e-6, 1e-2], "weight_decay": DECAYS, "maximize": SIGNS},
    "Adagrad": {"lr_decay": [0, 0.1], "initial_accumulator_value": [0, 0.5]}
    | {"weight_decay": DECAYS, "maximize": SIGNS},
    "Adam": {"amsgrad": SIGNS, "weight_decay": DECAYS, "decoupled_weight_decay": SIGNS},
    "AdamW": {"amsgrad": SIGNS, "maximize": SIGNS},
    "Adamax": {"betas": BETAS, "weight_decay": DECAYS, "maximize": SIGNS},
    "ASGD": {"t0": [1e6, 3, 0], "lambd": [1e-4, 0.1], "weight_decay": DECAYS, "maximize": SIGNS},
    "NAdam": {"momentum_decay": [4e-3, 0.5], "weight_decay": DECAYS, "maximize": SIGNS}
    | {"decoupled_weight_decay": SIGNS},
    "RAdam": {"betas": BETAS, "weight_decay": DECAYS, "decoupled_weight_decay": SIGNS},
    "RMSprop": {"momentum": [0, 0.9], "centered": SIGNS, "weight_decay": DECAYS, "maximize": SIGNS},
    "Rprop": {"lr": [0.1, 100.0], "etas": [(0.5, 1.2), (0.1, 3.0)], "step_sizes": [(1e-6, 50)]},
    "SGD": {"momentum": [0, 0.9], "weight_decay": DECAYS, "maximize": SIGNS},
}
ELEMENTWISE = sorted(GRIDS)


def combinations(name: str) -> list[dict[str, Any]]:
    grid = GRIDS[name]
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [*every, {"momentum": 0.9, "nesterov": True}] if name == "SGD" else every


def random(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.normal(size=shape)
    return np.asarray(x + 1j * rng.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


class Problem:
    """Parameters of one library, and an optimizer that steps by gradients from a seed."""

    def __init__(self, lib: Any, name: str, dtype: str = "float64", **kwargs: Any) -> None:
        self.lib, self.dtype = lib, dtype
        rng = np.random.default_rng(0)
        self.ps = [lib.nn.Parameter(lib.tensor(random(rng, s, dtype))) for s in SHAPES]
        self.optimizer = getattr(lib.optim, name)(self.ps, **kwargs)

    def steps(self, start: int, stop: int) -> list[Any]:
        for i in range(start, stop):
            rng = np.random.default_rng(i)
            for j, p in enumerate(self.ps):
                g = random(rng, tuple(p.shape), self.dtype)
                p.grad = self.lib.tensor(g) if (i + j) % 4 else None
            self.optimizer.step()
        return [p.detach().numpy().copy() for p in self.ps]


def same(mine: list[Any], theirs: list[Any], dtype: str) -> None:
    close = {"rtol": 1e-12, "atol": 1e-14} if dtype[-2:] != "32" else {"rtol": 2e-5, "atol": 2e-6}
    for x, y in zip(mine, theirs, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, **close)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_ten_steps_are_pytorchs(name: str, dtype: str) -> None:
    for kwargs in combinations(name):
        mine, theirs = Problem(st, name, dtype, **kwargs), Problem(torch, name, dtype, **kwargs)
        same(mine.steps(0, 10), theirs.steps(0, 10), dtype)
        our_state, other = (each.optimizer.state_dict()["state"] for each in (mine, theirs))
        assert [list(our_state[i]) for i in our_state] == [list(other[i]) for i in other]
        for i in our_state:
            values = [[np.asarray(x) for x in state[i].values()] for state in (our_state, other)]
            same(*values, dtype)


def converted(x: Any, tensor: type, to: Any) -> Any:
    """A state_dict with one library's tensors converted to the other's."""
    if isinstance(x, tensor):
        return to(x.detach().numpy().copy())
    if isinstance(x, dict):
        return {key: converted(value, tensor, to) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(converted(value, tensor, to) for value in x)
    return x


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_state_is_exchanged_with_pytorch(name: str) -> None:
    for kwargs in combinations(name)[-3:]:
        mine, theirs = Problem(st, name, **kwargs), Problem(torch, name, **kwargs)
        mine.steps(0, 4)
        theirs.steps(0, 4)
        our_state, other = mine.optimizer.state_dict(), theirs.optimizer.state_dict()
        assert set(our_state["param_groups"][0]) == set(other["param_groups"][0])
        mine.optimizer.load_state_dict(converted(other, torch.Tensor, st.tensor))
        theirs.optimizer.load_state_dict(converted(our_state, st.Tensor, torch.tensor))
        same(mine.steps(4, 9), theirs.steps(4, 9), "float64")


# PyTorch computes the bias corrections in float32 where the step is differentiable.
ROUGHLY = {"rtol": 1e-3, "atol": 1e-6}


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_gradients_flow_through_a_differentiable_step(name: str, dtype: str) -> None:
    for kwargs in combinations(name)[-2:]:
        ends = []
        for lib in (st, torch):
            earlier = Problem(lib, name, dtype, **kwargs)
            earlier.steps(0, 4)
            rng = np.random.default_rng(0)
            leaf, factor = (lib.tensor(random(rng, (3, 4), dtype)) for _ in range(2))
            leaf.requires_grad_()
            factor.requires_grad_()
            ps = [leaf.clone(), *(p.detach() for p in earlier.ps[1:])]
            optimizer = getattr(lib.optim, name)(ps, differentiable=True, **kwargs)
            loaded = earlier.optimizer.state_dict()
            loaded["param_groups"][0]["differentiable"] = True
            optimizer.load_state_dict(loaded)
            ps[0].grad = factor * factor
            optimizer.step()
            (ps[0] * ps[0].conj()).real.sum().backward()
            state = [np.asarray(x.detach()) for x in optimizer.state[ps[0]].values()]
            ends.append([ps[0].detach().numpy(), leaf.grad.numpy(), factor.grad.numpy(), *state])
        for x, y in zip(*ends, strict=True):
            np.testing.assert_allclose(x, y, **ROUGHLY)


def test_gradients_reach_the_learning_rate() -> None:
    for name in ("SGD", "Adam"):
        ends = []
        for lib in (st, torch):
            lr = lib.tensor(0.1, dtype=lib.float64, requires_grad=True)
            p = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True).clone()
            optimizer = getattr(lib.optim, name)([p], lr=lr, differentiable=True)
            for _ in range(2):
                p.grad = lib.tensor([0.5, -0.25], dtype=lib.float64)
                optimizer.step()
            (p * p).sum().backward()
            ends.append(lr.grad.item())
        assert ends[0] == pytest.approx(ends[1], rel=1e-4)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_16_bit_parameters_are_near_pytorchs(name: str) -> None:
    ends = []
    for lib in (st, torch):
        ps = [lib.nn.Parameter(lib.tensor([1.0, -2.0, 0.5], dtype=lib.bfloat16))]
        optimizer = getattr(lib.optim, name)(ps)
        for i in range(3):
            ps[0].grad = lib.tensor([0.5, 0.25 * i, -1.0], dtype=lib.bfloat16)
            optimizer.step()
        ends.append(ps[0].detach().float().numpy())
    np.testing.assert_allclose(*ends, rtol=2e-2)


BAD = [
    ("Adadelta", {"rho": 2.0}),
    ("Adadelta", {"eps": -1.0}),
    ("Adagrad", {"lr_decay": -1.0}),
    ("Adam", {"betas": (1.0, 0.9)}),
    ("Adam", {"betas": (0.9, 1.5)}),
    ("Adamax", {"weight_decay": -1.0}),
    ("ASGD", {"lr": float("nan")}),
    ("NAdam", {"momentum_decay": -1.0}),
    ("RAdam", {"lr": -1.0}),
    ("RMSprop", {"momentum": -1.0}),
    ("RMSprop", {"alpha": -1.0}),
    ("Rprop", {"etas": (0.5, 0.9)}),
    ("SGD", {"lr": -1.0}),
]


@pytest.mark.parametrize(("name", "kwargs"), BAD)
def test_wrong_arguments_are_refused_in_pytorchs_words(name: str, kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Invalid") as theirs:
        getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(1))], **kwargs)
    with pytest.raises(ValueError, match="Invalid") as mine:
        getattr(st.optim, name)([st.nn.Parameter(st.ones(1))], **kwargs)
    assert str(mine.value) == str(theirs.value)


def test_implementations_that_exclude_each_other() -> None:
    for lib in (st, torch):
        p = lib.nn.Parameter(lib.ones(2))
        p.grad = lib.ones(2)
        with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
            lib.optim.Adam([p], fused=True, differentiable=True)
        with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True`"):
            lib.optim.Adam([p], fused=True, foreach=True)
        with pytest.raises(ValueError, match="lr as a Tensor is not supported"):
            lib.optim.Adam([p], lr=lib.tensor(0.1), foreach=True)
        with pytest.raises(ValueError, match="betas must be either both"):
            lib.optim.Adam([p], betas=(lib.tensor(0.1), 0.9))
        with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
            lib.optim.RMSprop([p], lr=lib.tensor([0.1, 0.2]))
        with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
            lib.optim.RMSprop([p], foreach=True, differentiable=True).step()
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            lib.optim.RMSprop([p], differentiable=True).step()


@pytest.mark.parametrize("name", ["Adam", "RMSprop", "SGD", "NAdam"])
def test_hyperparameters_may_be_tensors(name: str) -> None:
    ends = []
    for lib in (st, torch):
        kwargs: dict[str, Any] = {"lr": lib.tensor(0.1, dtype=lib.float64)}
        if name == "Adam":
            kwargs["betas"] = tuple(lib.tensor(b, dtype=lib.float64) for b in (0.8, 0.9))
        problem = Problem(lib, name, **kwargs)
        schedule = lib.optim.lr_scheduler.ExponentialLR(problem.optimizer, 0.5)
        problem.steps(0, 3)
        schedule.step()
        ends.append(problem.steps(3, 6))
    same(*ends, "float64")


def averaged(lib: Any, kind: str | None, use_buffers: bool) -> list[Any]:
    swa = lib.optim.swa_utils
    kwargs = {
        None: {},
        "ema": {"avg_fn": swa.get_ema_avg_fn(0.9)},
        "ema multi": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9)},
        "swa": {"avg_fn": swa.get_swa_avg_fn()},
    }[kind]
    rng = np.random.default_rng(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.BatchNorm1d(2)).double()
    average = swa.AveragedModel(model, use_buffers=use_buffers, **kwargs)
    for _ in range(3):
        for p in model.parameters():
            p.data = lib.tensor(rng.normal(size=tuple(p.shape)))
        model(lib.tensor(rng.normal(size=(4, 3))))
        average.update_parameters(model)
    batches = [(lib.tensor(rng.normal(size=(4, 3))), None) for _ in range(3)]
    state = list(average.state_dict().items())
    swa.update_bn(batches, average)
    return [[name, np.asarray(x)] for name, x in [*state, *average.state_dict().items()]]


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("kind", [None, "ema", "ema multi", "swa"])
def test_averaged_models_are_pytorchs(kind: str | None, use_buffers: bool) -> None:
    mine, theirs = (averaged(lib, kind, use_buffers) for lib in (st, torch))
    for (name, x), (other, y) in zip(mine, theirs, strict=True):
        assert name == other
        np.testing.assert_allclose(x, y, rtol=1e-12)


SCHEDULES = {
    "SWALR cos": lambda lib, o: lib.optim.swa_utils.SWALR(o, 0.5, anneal_epochs=4),
    "SWALR linear": lambda lib, o: lib.optim.swa_utils.SWALR(o, 0.5, 3, "linear"),
    "SWALR at once": lambda lib, o: lib.optim.swa_utils.SWALR(o, 0.5, 0),
    "OneCycleLR": lambda lib, o: lib.optim.lr_scheduler.OneCycleLR(o, 0.3, total_steps=10),
    "CyclicLR": lambda lib, o: lib.optim.lr_scheduler.CyclicLR(o, 0.01, 0.3, step_size_up=3),
    "StepLR": lambda lib, o: lib.optim.lr_scheduler.StepLR(o, 2),
}


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_schedules_drive_optimizers_alike(schedule: str) -> None:
    for name in ELEMENTWISE:
        ends = []
        for lib in (st, torch):
            kwargs = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
            problem = Problem(lib, name, **kwargs)
            if schedule in ("OneCycleLR", "CyclicLR"):
                keys = problem.optimizer.defaults
                if "momentum" not in keys and "betas" not in keys:
                    break  # these schedules cycle the momentum, too
            s = SCHEDULES[schedule](lib, problem.optimizer)
            values = []
            for i in range(6):
                values = problem.steps(i, i + 1)
                s.step()
            ends.append([*values, np.asarray(problem.optimizer.param_groups[0]["lr"])])
        if ends:
            same(*ends, "float64")


MATRICES: dict[str, list[dict[str, Any]]] = {
    "Adafactor": [{}, {"maximize": True, "weight_decay": 0.1, "d": 1.5, "eps": (1e-3, 0.1)}],
    "Muon": [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(MATRICES))
def test_steps_of_matrices_are_pytorchs(name: str, dtype: str) -> None:
    shapes = [(16, 16), (16, 16), (8, 4), (4, 8), *([(5,), (2, 3, 4)] if name[0] == "A" else [])]
    for kwargs in MATRICES[name]:
        ends, keys = [], []
        for lib in (st, torch):
            rng = np.random.default_rng(0)
            ps = [lib.nn.Parameter(lib.tensor(random(rng, s, dtype))) for s in shapes]
            optimizer = getattr(lib.optim, name)(ps, **kwargs)
            for i in range(6):
                for p in ps:
                    p.grad = lib.tensor(random(rng, tuple(p.shape), dtype))
                optimizer.step()
                if i == 2:
                    optimizer.load_state_dict(optimizer.state_dict())
            state = [x for p in ps for x in optimizer.state[p].values()]
            ends.append([p.detach().numpy() for p in ps] + [np.asarray(x) for x in state])
            keys.append([list(optimizer.state[p]) for p in ps])
        assert keys[0] == keys[1]
        # a product may round to the other neighbour in bfloat16
        close = {"rtol": 2e-2, "atol": 1e-3} if name == "Muon" else {"rtol": 1e-5, "atol": 1e-7}
        for x, y in zip(*ends, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, **close)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_evaluates_the_loss_where_pytorch_does(search: str | None) -> None:
    ends = []
    for lib in (st, torch):
        p = lib.nn.Parameter(lib.tensor([-1.2, 1.0], dtype=lib.float64))
        optimizer = lib.optim.LBFGS([p], lr=0.5, max_iter=6, history_size=4, line_search_fn=search)
        losses = []

        def closure(p=p, optimizer=optimizer, losses=losses):
            optimizer.zero_grad()
            loss = 2 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2
            loss.backward()
            losses.append(loss.item())
            return loss

        for _ in range(2):
            optimizer.step(closure)
        state = optimizer.state[p]
        ends.append((losses, sorted(state), state["n_iter"], state["func_evals"]))
    assert ends[0][1:] == ends[1][1:]
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-8)


def test_lbfgs_state_is_exchanged_with_pytorch() -> None:
    def problem(lib):
        p = lib.nn.Parameter(lib.tensor([-1.2, 1.0], dtype=lib.float64))
        optimizer = lib.optim.LBFGS([p], lr=0.3, max_iter=3)

        def closure():
            optimizer.zero_grad()
            loss = (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2
            loss.backward()
            return loss

        optimizer.step(closure)
        return p, optimizer, closure

    mine, theirs = problem(st), problem(torch)
    our_state, other = mine[1].state_dict(), theirs[1].state_dict()
    mine[1].load_state_dict(converted(other, torch.Tensor, st.tensor))
    theirs[1].load_state_dict(converted(our_state, st.Tensor, torch.tensor))
    for _, optimizer, closure in (mine, theirs):
        optimizer.step(closure)
    np.testing.assert_allclose(mine[0].detach().numpy(), theirs[0].detach().numpy(), rtol=1e-10)
