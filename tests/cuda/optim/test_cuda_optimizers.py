"""Optimizers on CUDA parameters: the CPU's values, for every optimizer and its flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import optim

STEPS = 10
SHAPES = ((3, 4), (5,), (), (2, 3, 2))

# name, keyword arguments
CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"maximize": True, "betas": (0.8, 0.9), "eps": 1e-4}),
    ("AdamW", {"weight_decay": 0.1}),
    ("AdamW", {"amsgrad": True}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"centered": True, "momentum": 0.9, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("Rprop", {"etas": (0.4, 1.5), "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5, "weight_decay": 0.1}),
    ("Adadelta", {}),
    ("Adadelta", {"weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"weight_decay": 0.1, "maximize": True}),
    ("ASGD", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "t0": 3, "lambd": 0.01, "weight_decay": 0.1}),
    ("Adafactor", {}),
    ("Adafactor", {"weight_decay": 0.1, "maximize": True}),
]
FLAGS: list[tuple[str, dict[str, Any]]] = [
    (name, {flag: True})
    for name in ("SGD", "Adam", "AdamW")
    for flag in ("foreach", "fused", "differentiable")
] + [("Adam", {"capturable": True}), ("Adadelta", {"differentiable": True})]


def label(case: tuple[str, dict[str, Any]]) -> str:
    return "-".join([case[0], *case[1]])


def parameters(device: str, shapes: Any = SHAPES, dtype: Any = st.float32) -> list[Any]:
    random = np.random.default_rng(0)
    return [
        st.tensor(random.standard_normal(s).tolist(), dtype=dtype).to(device).requires_grad_()
        for s in shapes
    ]


def gradients(step: int, shapes: Any = SHAPES) -> list[Any]:
    random = np.random.default_rng(100 + step)
    return [st.tensor(random.standard_normal(s).tolist()) for s in shapes]


def loss(params: list[Any], step: int) -> Any:
    """One whose gradients change with the step; the last parameter has none in step 2."""
    total: Any = 0.0
    for i, (p, g) in enumerate(zip(params, gradients(step, [p.shape for p in params]))):
        if step == 2 and i + 1 == len(params) and i:
            break
        g = g.to(p.device, p.real.dtype if p.is_complex() else p.dtype)
        term = (p * g + p * p * 0.5).sum()
        total = total + (term.abs() if p.is_complex() else term)
    return total


def train(optimizer: Any, params: list[Any], steps: Any = range(STEPS)) -> None:
    for step in steps:
        optimizer.zero_grad()
        loss(params, step).backward()
        optimizer.step()


def close(on_gpu: Any, on_cpu: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(
        on_gpu.detach().cpu().numpy(), on_cpu.detach().numpy(), tolerance, tolerance
    )


def states_close(gpu: Any, cpu: Any) -> None:
    for p, q in zip(gpu._parameters(), cpu._parameters(), strict=True):
        assert gpu.state[p].keys() == cpu.state[q].keys()
        for name, value in cpu.state[q].items():
            if isinstance(value, st.Tensor):
                close(gpu.state[p][name], value)
                if name not in ("step", *getattr(cpu, "scalars", ())):
                    assert gpu.state[p][name].device == p.device, name


def equal_on_both(
    make: Callable[[list[Any]], Any], shapes: Any = SHAPES, dtype: Any = st.float32
) -> None:
    results = []
    for device in ("cpu", "cuda"):
        params = parameters(device, shapes, dtype)
        optimizer = make(params)
        train(optimizer, params)
        results.append((params, optimizer))
    (expected, cpu), (values, gpu) = results
    for x, y in zip(values, expected, strict=True):
        assert x.is_cuda
        close(x, y, 2e-2 if dtype is st.float16 else 1e-5)
    if dtype is not st.float16:
        states_close(gpu, cpu)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_ten_steps_are_the_cpu_s(cp: Any, case: tuple[str, dict[str, Any]]) -> None:
    name, arguments = case
    equal_on_both(lambda params: getattr(optim, name)(params, **arguments))


@pytest.mark.parametrize("case", FLAGS, ids=label)
def test_flags_are_accepted(cp: Any, case: tuple[str, dict[str, Any]]) -> None:
    name, arguments = case
    if arguments.get("differentiable"):
        leaves = parameters("cuda")
        params = [p * 1.0 for p in leaves]
        for p in params:
            p.retain_grad()
        optimizer = getattr(optim, name)(params, lr=0.1, **arguments)
        loss(params, 0).backward(retain_graph=True)
        optimizer.step()
        sum(p.sum() for p in params).backward()
        assert all(p.grad.is_cuda for p in leaves)
        return
    equal_on_both(lambda params: getattr(optim, name)(params, **arguments))


@pytest.mark.parametrize("dtype", [st.float64, st.float16, st.complex64], ids=str)
@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop"])
def test_other_dtypes(cp: Any, name: str, dtype: Any) -> None:
    equal_on_both(lambda params: getattr(optim, name)(params, lr=0.01), ((3, 4), (5,)), dtype)


def test_muon_is_the_cpu_s(cp: Any) -> None:
    equal_on_both(lambda params: optim.Muon(params, lr=0.02), ((3, 4), (4, 3), (3, 4)))


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_is_the_cpu_s(cp: Any, search: str | None) -> None:
    def minimum(device: str) -> list[Any]:
        params = parameters(device)
        optimizer = optim.LBFGS(params, lr=0.5, max_iter=4, line_search_fn=search)

        def closure() -> Any:
            optimizer.zero_grad()
            value = sum(((p - 1) ** 4).sum() + (p * p).sum() for p in params)
            value.backward()
            return value

        for _ in range(3):
            optimizer.step(closure)
        return params

    for x, y in zip(minimum("cuda"), minimum("cpu"), strict=True):
        assert x.is_cuda
        close(x, y, 1e-4)


def test_groups_have_their_own_hyperparameters_and_devices(cp: Any) -> None:
    def run(device: str) -> list[Any]:
        params = parameters(device)
        optimizer = optim.Adam(
            [{"params": params[:2], "lr": 0.1}, {"params": params[2:3]}], weight_decay=0.1
        )
        train(optimizer, params, range(2))
        optimizer.add_param_group({"params": params[3:], "lr": 0.01, "amsgrad": True})
        optimizer.param_groups[0]["lr"] = 0.2
        train(optimizer, params, range(2, 5))
        return params

    for x, y in zip(run("cuda"), run("cpu"), strict=True):
        close(x, y)


def test_one_group_with_parameters_on_both_devices(cp: Any) -> None:
    near, far = parameters("cpu"), parameters("cuda")
    optimizer = optim.AdamW(near + far, lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        loss(near, step).backward()
        loss(far, step).backward()
        optimizer.step()
    for x, y in zip(far, near, strict=True):
        close(x, y)


def test_a_closure_is_evaluated(cp: Any) -> None:
    params = parameters("cuda")
    optimizer = optim.SGD(params, lr=0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        value = sum((p * p).sum() for p in params)
        value.backward()
        return value

    values = [optimizer.step(closure).item() for _ in range(3)]
    assert values[0] > values[1] > values[2]


@pytest.mark.parametrize("name", ["SGD", "Adam", "Rprop", "ASGD", "NAdam", "Adafactor"])
@pytest.mark.parametrize("start", ["cpu", "cuda"])
def test_state_goes_to_an_optimizer_on_the_other_device(cp: Any, name: str, start: str) -> None:
    arguments: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
    first, second = parameters(start), parameters("cuda" if start == "cpu" else "cpu")
    optimizer = getattr(optim, name)(first, lr=0.1, **arguments)
    train(optimizer, first, range(3))
    other = getattr(optim, name)(second, lr=0.1, **arguments)
    with st.no_grad():
        for p, q in zip(second, first, strict=True):
            p.copy_(q)
    other.load_state_dict(optimizer.state_dict())
    for p in second:
        for key, value in other.state[p].items():
            if isinstance(value, st.Tensor) and value.ndim:
                assert value.device == p.device, key
    train(optimizer, first, range(3, 6))
    train(other, second, range(3, 6))
    for p, q in zip(second, first, strict=True):
        np.testing.assert_allclose(p.detach().cpu().numpy(), q.detach().cpu().numpy(), 1e-5, 1e-6)


def test_a_model_that_moves_takes_its_state_along(cp: Any) -> None:
    model, twin = st.nn.Linear(3, 2), st.nn.Linear(3, 2)
    twin.load_state_dict(model.state_dict())
    optimizers = [optim.Adam(m.parameters(), lr=0.1) for m in (model, twin)]
    for device in ("cpu", "cuda", "cpu"):
        model.to(device)
        for m, optimizer in zip((model, twin), optimizers, strict=True):
            train(optimizer, list(m.parameters()), range(2))
        for p in model.parameters():
            assert p.device.type == device
            assert optimizers[0].state[p]["exp_avg"].device == p.device
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            close(p, q)


def test_gradients_are_cleared(cp: Any) -> None:
    params = parameters("cuda")
    for optimizer in (optim.Adam(params), optim.Adafactor(params)):
        loss(params, 0).backward()
        optimizer.zero_grad(set_to_none=False)
        assert all(p.grad.is_cuda and not p.grad.cpu().any() for p in params)
        optimizer.zero_grad()
        assert all(p.grad is None for p in params)


def test_a_kept_gradient_does_not_change(cp: Any) -> None:
    params = parameters("cuda", ((3,), (4,)))
    optimizer = optim.SGD(params, lr=0.1)
    loss(params, 0).backward()
    kept, copy = params[0].grad, params[0].grad.clone()
    optimizer.step()
    optimizer.zero_grad()
    loss(params, 1).backward()
    optimizer.step()
    close(kept, copy.cpu(), 0)


def test_tied_and_viewed_parameters_keep_their_memory(cp: Any) -> None:
    p, q = parameters("cuda", ((4, 2), (3,)))
    view, detached = p.detach()[1], q.detach()
    optimizer = optim.SGD([p, q], lr=0.5)
    train(optimizer, [p, q], range(2))
    close(view, p[1].cpu(), 0)
    close(detached, q.cpu(), 0)


def test_the_averaged_model_is_on_the_device(cp: Any) -> None:
    model = st.nn.Linear(3, 2).cuda()
    averaged = optim.swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    with st.no_grad():
        model.weight.add_(1)
    averaged.update_parameters(model)
    mean = model.weight.detach() - 0.5
    close(averaged.module.weight, mean.cpu())
    assert averaged.module.weight.is_cuda


def test_a_learning_rate_in_a_tensor(cp: Any) -> None:
    params, expected = parameters("cuda"), parameters("cpu")
    train(optim.Adam(params, lr=st.tensor(0.1).cuda(), capturable=True), params)
    train(optim.Adam(expected, lr=0.1), expected)
    for x, y in zip(params, expected, strict=True):
        close(x, y)


def test_parameters_of_a_model_move_into_one_block(cp: Any) -> None:
    params = parameters("cuda")
    optimizer = optim.Adam(params)
    assert [len(flat.tensors) for flat in optimizer.flats] == [len(params)]
    again = optim.Adam(params)  # a second optimizer takes the block
    assert [len(flat.tensors) for flat in again.flats] == [len(params)]
    assert again.flats[0].parameter.data.ptr == optimizer.flats[0].parameter.data.ptr


def test_parameters_on_two_gpus_in_one_group(two_devices: Any, cp: Any) -> None:
    params, expected = parameters("cpu"), parameters("cpu")
    params = [p.detach().to(f"cuda:{i % 2}").requires_grad_() for i, p in enumerate(params)]
    optimizer, reference = optim.AdamW(params, lr=0.1), optim.AdamW(expected, lr=0.1)
    for step in range(3):
        for all_of, one in ((params, optimizer), (expected, reference)):
            for p, g in zip(all_of, gradients(step), strict=True):
                p.grad = g.to(p.device)
            one.step()
    for i, (x, y) in enumerate(zip(params, expected, strict=True)):
        assert str(x.device) == f"cuda:{i % 2}"
        assert optimizer.state[x]["exp_avg"].device == x.device
        close(x, y)


def test_a_strided_parameter_and_an_expanded_gradient(cp: Any) -> None:
    def run(device: str, name: str) -> list[Any]:
        strided = st.arange(12.0).reshape(3, 4).to(device).T.requires_grad_()
        flat = st.ones(5).to(device).requires_grad_()
        optimizer = getattr(optim, name)([{"params": [strided]}, {"params": [flat]}], lr=0.1)
        for _ in range(3):
            strided.grad = st.arange(12.0).reshape(4, 3).to(device)
            flat.grad = st.ones(1).to(device).expand(5)
            optimizer.step()
        return [strided, flat]

    for name in ("Adam", "SGD", "RMSprop"):
        for x, y in zip(run("cuda", name), run("cpu", name), strict=True):
            close(x, y)
