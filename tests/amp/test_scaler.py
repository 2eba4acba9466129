"""GradScaler: gradients, steps and the scale, on the CPU and on a GPU."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import cupy_runtime, nn, optim
from shmtensor.amp import GradScaler


def weight(*values: float, device: str = "cpu") -> Any:
    return st.tensor(values, device=device, requires_grad=True)


def test_a_step_is_that_without_scaling(device: str) -> None:
    weights = []
    for is_enabled in (True, False):
        st.manual_seed(1)
        model = nn.Linear(4, 3).to(device)
        optimizer = optim.Adam(model.parameters(), 0.1)
        scaler = GradScaler(device, enabled=is_enabled)
        data = st.randn(8, 4, device=device)
        for _ in range(4):
            optimizer.zero_grad()
            scaler.scale(model(data).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        weights.append([p.detach().cpu().numpy().copy() for p in model.parameters()])
    for scaled, plain in zip(*weights):
        np.testing.assert_allclose(scaled, plain, rtol=1e-5)


def test_small_gradients_survive_in_float16() -> None:
    w = weight(1.0)
    x = st.tensor([1e-5])
    scaler = GradScaler("cpu")
    with st.autocast("cpu", st.float16):
        loss = (x @ w.reshape(1, 1)).float().sum() * 1e-4
    loss.backward()
    assert w.grad.item() == 0  # 16 bits can hold 1e-4 and 1e-5, but not their product
    w.grad = None
    with st.autocast("cpu", st.float16):
        loss = (x @ w.reshape(1, 1)).float().sum() * 1e-4
    scaler.scale(loss).backward()
    optimizer = optim.SGD([w], 1.0)
    scaler.unscale_(optimizer)
    np.testing.assert_allclose(w.grad.item(), 1e-9, rtol=0.05)


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_a_step_with_infinite_gradients_is_skipped(device: str, bad: float) -> None:
    w, other = weight(1.0, 2.0, device=device), weight(3.0, device=device)
    optimizer = optim.SGD([w, other], 1.0)
    scaler = GradScaler(device, init_scale=8.0)
    factors = st.tensor([1.0, bad], device=device)
    (scaler.scale(w * factors).sum() + other.sum()).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert w.tolist() == [1, 2]
    assert other.tolist() == [3]
    assert scaler.get_scale() == 4
    optimizer.zero_grad()
    scaler.scale(w.sum()).backward()
    scaler.step(optimizer)
    assert w.tolist() == [0, 1]


def test_an_overflowing_sum_is_not_an_infinite_gradient(device: str) -> None:
    w = weight(1.0, 1.0, device=device)
    optimizer = optim.SGD([w], 1e-38)
    scaler = GradScaler(device, init_scale=1.0)
    scaler.scale(w.sum()).backward()
    w.grad = st.full((2,), 3e38, device=device)
    scaler.step(optimizer)
    assert w[0].item() < 0.0


def test_the_factor_grows_and_falls(device: str) -> None:
    w = weight(1.0, device=device)
    optimizer = optim.SGD([w], 0.0)
    scaler = GradScaler(device, 4.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=2)

    def step(gradient: float) -> float:
        w.grad = st.tensor([gradient], device=device)
        scaler.scale(w)
        scaler.step(optimizer)
        scaler.update()
        return scaler.get_scale()

    inf = float("inf")
    assert [step(g) for g in (1.0, 1.0, 1.0, inf, 1.0, inf, 1.0, 1.0)] == [
        4,
        12,
        12,
        3,
        3,
        0.75,
        0.75,
        2.25,
    ]
    scaler.update(64.0)
    assert scaler.get_scale() == 64
    scaler.update(st.tensor([32.0], device=device))
    assert scaler.get_scale() == 32
    scaler.update(3e38)
    step(1.0)
    assert step(1.0) == pytest.approx(3e38)  # it would be infinite
    with pytest.raises(AssertionError, match="new_scale"):
        scaler.update(st.ones(2))


def test_nested_outputs() -> None:
    scaler = GradScaler("cpu", init_scale=2.0)
    one = st.ones(1)
    scaled = scaler.scale([one, (one, [one])])
    assert scaled[0].item() == scaled[1][0].item() == scaled[1][1][0].item() == 2
    assert isinstance(scaled[1], tuple)
    assert [m.item() for m in scaler.scale(t for t in [one, one])] == [2, 2]
    assert GradScaler("cpu", enabled=False).scale(one) is one
    with pytest.raises(ValueError, match="iterable of tensors"):
        scaler.scale(3)


def test_gradients_are_unscaled_in_place_and_may_be_clipped(device: str) -> None:
    w = weight(3.0, 4.0, device=device)
    optimizer = optim.SGD([w], 1.0)
    scaler = GradScaler(device)
    scaler.scale((w * st.tensor([3.0, 4.0], device=device)).sum()).backward()
    g, version = w.grad, w.grad._version
    scaler.unscale_(optimizer)
    assert w.grad is g
    assert g._version == version + 1
    assert g.tolist() == [3, 4]
    nn.utils.clip_grad_norm_([w], 1.0)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    np.testing.assert_allclose(w.tolist(), [2.4, 3.2], rtol=1e-5)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="pickled"):
        pickle.dumps(scaler)
    scaler.update()


def test_two_optimizers_share_a_factor(device: str) -> None:
    a, b = weight(1.0, device=device), weight(1.0, device=device)
    first, second = optim.SGD([a], 1.0), optim.SGD([b], 1.0)
    scaler = GradScaler(device, init_scale=2.0)
    scaler.scale(a.sum() + (b * float("inf")).sum()).backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert (a.item(), b.item(), scaler.get_scale()) == (0, 1, 1)


def test_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    w = weight(1.0)
    optimizer = optim.SGD([w], 1.0)
    scaler = GradScaler("cpu")
    for call in (scaler.step, scaler.unscale_):
        with pytest.raises(AssertionError, match=r"scale\(\) was not called"):
            call(optimizer)
    scaler.scale(w.sum())
    with pytest.raises(AssertionError, match="No inf checks were recorded prior"):
        scaler.update()
    with pytest.raises(AssertionError, match="No inf checks were recorded for this"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, closure=lambda: 0.0)
    with pytest.raises(AssertionError, match="growth_factor"):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="backoff_factor"):
        GradScaler("cpu", backoff_factor=1.0)
    half = st.ones(1, dtype=st.float16, requires_grad=True)
    other = GradScaler("cpu")
    other.scale(half.sum()).backward()
    with pytest.raises(ValueError, match="FP16"):
        other.step(optim.SGD([half], 1.0))
    monkeypatch.setattr(cupy_runtime.state, "devices", 0)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not GradScaler().is_enabled()


def test_state() -> None:
    scaler = GradScaler("cpu", init_scale=4.0)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(5)
    state = scaler.state_dict()
    assert state == {
        "scale": 4.0,
        "growth_factor": 3.0,
        "backoff_factor": 0.25,
        "growth_interval": 5,
        "_growth_tracker": 0,
    }
    other = GradScaler("cpu")
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert pickle.loads(pickle.dumps(other)).state_dict() == state
    settings = other.get_growth_factor(), other.get_backoff_factor(), other.get_growth_interval()
    assert settings == (3.0, 0.25, 5)
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})
    off = GradScaler("cpu", enabled=False)
    off.load_state_dict({})
    assert (off.state_dict(), off.get_scale()) == ({}, 1.0)
    off.update()
    off.unscale_(None)
    assert st.GradScaler is GradScaler


def test_an_expanded_gradient_is_not_written(device: str) -> None:
    p, one = st.ones(3, device=device).requires_grad_(), st.full((1,), 4.0, device=device)
    optimizer, scaler = optim.SGD([p], lr=0.1), GradScaler(device, init_scale=2.0)
    scaler.scale(p.detach().sum())
    p.grad = one.expand(3)
    factor = " and 0.5" if device == "cpu" else ""  # on a GPU it is in device memory
    with pytest.raises(RuntimeError) as raised:
        scaler.unscale_(optimizer)
    assert str(raised.value) == (
        f"mul_: the memory cannot be written: shape (3,){factor}, it is expanded or read-only; "
        "write to a clone()"
    )
    assert one.tolist() == [4]
    p.grad = p.grad.clone()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [2, 2, 2]


@pytest.mark.torch
def test_as_pytorch_has_it() -> None:
    import torch

    results = []
    for m in (st, torch):
        w = m.tensor([1.0, 2.0], requires_grad=True)
        optimizer = m.optim.SGD([w], 0.1)
        scaler = m.amp.GradScaler("cpu", init_scale=1e3, growth_interval=2)
        for factor in (1.0, 2.0, float("inf"), 3.0, 1.0, 1.0):
            optimizer.zero_grad()
            scaler.scale((w * w * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        results.append((w.tolist(), scaler.state_dict()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    assert results[0][1] == results[1][1]
