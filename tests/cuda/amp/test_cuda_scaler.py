"""GradScaler on CUDA: the CPU's scales, and one number read by a step."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim

NAN, INF = float("nan"), float("inf")


def training(device: str, gradients: list[list[float]]) -> list[tuple[float, list[float]]]:
    """Scales and parameters after steps with these gradients."""
    p = st.tensor([1.0, 2.0, 3.0]).to(device).requires_grad_()
    q = st.tensor([[4.0]], dtype=st.float64).to(device).requires_grad_()
    optimizer = optim.SGD([p, q], lr=0.1)
    scaler = st.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
    seen = []
    for values in gradients:
        optimizer.zero_grad()
        loss = (p * st.tensor(values).to(device)).sum() + q.sum()
        scaled = scaler.scale(loss)
        assert scaled.device == p.device
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.get_scale(), [*p.tolist(), q.item()]))
    return seen


def test_scales_and_steps_are_the_cpu_s(cp: Any) -> None:
    gradients = [
        [1.0, 2.0, 3.0],
        [1.0, 1.0, 1.0],
        [INF, 1.0, 1.0],
        [1.0, NAN, 1.0],
        [1.0, 1.0, 2.0],
    ]
    far, near = training("cuda", gradients), training("cpu", gradients)
    assert [scale for scale, _ in far] == [scale for scale, _ in near] == [8, 16, 8, 4, 4]
    for (_, x), (_, y) in zip(far, near, strict=True):
        np.testing.assert_allclose(x, y, 1e-6)


def test_gradients_are_unscaled_in_place(cp: Any) -> None:
    p = st.ones(3).cuda().requires_grad_()
    optimizer = optim.Adam([p])
    scaler = st.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale(p.sum()).backward()
    g = p.grad
    assert g.tolist() == [4.0] * 3
    version = g._version
    scaler.unscale_(optimizer)
    assert p.grad is g
    assert g.tolist() == [1.0] * 3
    assert g._version == version + 1
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_([p], 0.5)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4.0


def test_update_after_unscale_alone_reads_the_flag(cp: Any) -> None:
    p = st.ones(2).cuda().requires_grad_()
    optimizer = optim.SGD([p], lr=1.0)
    scaler = st.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale((p * INF).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0


def test_half_precision_losses_are_scaled_in_single_precision(cp: Any) -> None:
    loss = st.tensor(10.0, dtype=st.float16).cuda()
    scaler = st.amp.GradScaler("cuda")
    assert scaler.scale(loss).item() == 655360.0


def test_complex_gradients(cp: Any) -> None:
    p = st.tensor([1 + 2j, 3 - 1j]).cuda().requires_grad_()
    optimizer = optim.SGD([p], lr=1.0)
    scaler = st.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale((p * p.conj()).real.sum()).backward()
    scaler.unscale_(optimizer)
    np.testing.assert_allclose(p.grad.cpu().numpy(), [2 + 4j, 6 - 2j])


def test_gradients_on_two_gpus(cp: Any) -> None:
    if cp.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one GPU")
    params = [st.ones(2).to(f"cuda:{i}").requires_grad_() for i in range(2)]
    optimizer = optim.SGD(params, lr=1.0)
    scaler = st.amp.GradScaler("cuda", init_scale=2.0)
    scaler.scale(params[0].detach().sum())
    for p, values in zip(params, ([2.0, 4.0], [2.0, INF]), strict=True):
        p.grad = st.tensor(values).to(p.device)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1.0
    assert params[0].tolist() == [1.0, 1.0]
    assert params[0].grad.tolist() == [1.0, 2.0]


def test_state_is_saved(cp: Any) -> None:
    scaler = st.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale(st.ones(1).cuda())
    other = st.amp.GradScaler("cuda")
    other.load_state_dict(scaler.state_dict())
    assert other.scale(st.ones(1).cuda()).item() == 4.0
    assert pickle.loads(pickle.dumps(scaler)).get_scale() == 4.0


def test_training_in_half_precision(cp: Any) -> None:
    def losses(device: str, mixed: bool) -> list[float]:
        st.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        model.to(device)
        optimizer = optim.AdamW(model.parameters(), lr=0.01)
        scaler = st.amp.GradScaler(device, init_scale=1024.0, enabled=mixed)
        x = st.tensor(np.random.default_rng(0).standard_normal((16, 4)).tolist()).to(device)
        y = x[:, :1] - x[:, 1:2]
        seen = []
        for _ in range(5):
            optimizer.zero_grad()
            with st.autocast(device, enabled=mixed):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            seen.append(loss.item())
        return seen

    np.testing.assert_allclose(losses("cuda", True), losses("cpu", False), 1e-2)
