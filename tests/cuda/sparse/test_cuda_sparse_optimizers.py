"""Steps by sparse gradients on a GPU: the CPU's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import amp, nn, optim

START = np.random.default_rng(0).normal(size=(6, 3))
STEPS = [
    (np.random.default_rng(i).integers(0, 6, 4), np.random.default_rng(-i & 9).normal(size=(4, 3)))
    for i in range(1, 6)
]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.2}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.3, "maximize": True}),
    ("SparseAdam", {"lr": 0.1}),
    ("SparseAdam", {"betas": (0.5, 0.9), "eps": 0.1, "maximize": True}),
]


def trained(
    device: str, kind: str, options: dict[str, Any], sparse: bool = True, dtype: Any = st.float64
) -> Any:
    """A table beside a layer with dense gradients, which SparseAdam refuses."""
    table = nn.Parameter(st.tensor(START, dtype=dtype).to(device))
    factor = nn.Parameter(st.ones(3, dtype=dtype).to(device))
    parameters = [table] if kind == "SparseAdam" else [table, factor]
    optimizer = getattr(optim, kind)(parameters, **options)
    for index, factors in STEPS:
        optimizer.zero_grad()
        rows = nn.functional.embedding(st.tensor(index).to(device), table, sparse=sparse)
        (rows.sin() * factor * st.tensor(factors, dtype=dtype).to(device)).sum().backward()
        assert table.grad.is_sparse == sparse
        optimizer.step()
    state = optimizer.state_dict()["state"]
    tensors = [v for each in state.values() for v in each.values() if isinstance(v, st.Tensor)]
    results = [table.detach(), factor.detach(), *tensors]
    if device == "cuda":
        assert all(x.is_cuda for x in results if x.ndim)
    return [x.cpu().double().numpy() for x in results]


@pytest.mark.parametrize(("kind", "options"), CASES)
@pytest.mark.parametrize("dtype", [st.float64, st.float32, st.float16, st.bfloat16], ids=str)
def test_steps_are_the_cpus(cp: Any, kind: str, options: dict[str, Any], dtype: Any) -> None:
    ours = trained("cuda", kind, options, dtype=dtype)
    expected = trained("cpu", kind, options, dtype=dtype)
    tolerance = {st.float64: 1e-10, st.float32: 2e-5, st.float16: 2e-2, st.bfloat16: 0.1}[dtype]
    for x, y in zip(ours, expected, strict=True):
        np.testing.assert_allclose(x, y, tolerance, tolerance)


@pytest.mark.parametrize(("kind", "options"), CASES[:6])
def test_steps_are_those_of_dense_gradients(cp: Any, kind: str, options: dict[str, Any]) -> None:
    ours = trained("cuda", kind, options)[:2]
    for x, y in zip(ours, trained("cuda", kind, options, sparse=False)[:2], strict=True):
        np.testing.assert_allclose(x, y, 1e-10)


def test_others_refuse_them(cp: Any) -> None:
    with pytest.raises(RuntimeError, match=r"Adam does not support sparse gradients"):
        trained("cuda", "Adam", {})
    with pytest.raises(RuntimeError, match=r"SparseAdam does not support dense gradients"):
        trained("cuda", "SparseAdam", {}, sparse=False)


def test_a_layer_that_moves_keeps_its_sparse_gradients(cp: Any) -> None:
    layer = nn.Embedding(6, 3, sparse=True)
    optimizer = optim.SGD(layer.cuda().parameters(), 0.5)
    layer(st.tensor([2, 2], device="cuda")).sum().backward()
    before = layer.weight.detach().clone()
    optimizer.step()
    change = (layer.weight.detach() - before).cpu()
    assert change[2].tolist() == pytest.approx([-1, -1, -1], abs=1e-6)
    assert change[[0, 1, 3, 4, 5]].abs().max() == 0


def test_the_scaler_unscales_them(cp: Any) -> None:
    layer = nn.Embedding(6, 3, sparse=True).cuda()
    before = layer.weight.detach().clone()
    optimizer = optim.SGD(layer.parameters(), 1.0)
    scaler = amp.GradScaler("cuda", init_scale=8.0)
    scaler.scale(layer(st.tensor([1, 4, 1], device="cuda")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    change = (before - layer.weight.detach()).cpu().numpy()
    np.testing.assert_allclose(change, np.outer([0, 2, 0, 0, 1, 0], np.ones(3)), atol=1e-6)
    scaler.scale(layer(st.tensor([1], device="cuda")).sum() * float("inf")).backward()
    scaler.step(optimizer)
    assert st.isfinite(layer.weight).all()


def test_sparse_gradients_are_on_their_parameter_s_gpu(two_devices: Any, cp: Any) -> None:
    layer = nn.Embedding(6, 3, sparse=True).to("cuda:1")
    before = layer.weight.detach().cpu()
    optimizer = optim.SGD(layer.parameters(), 0.5)
    with cp.cuda.Device(0):
        # a gradient of more than two dimensions reaches the table as a view
        layer(st.tensor([[2, 2], [1, 2]], device="cuda:1")).sum().backward()
        values = layer.weight.grad._values()
        assert values.device == st.device("cuda:1")
        assert values.array.device.id == values.array.data.device_id == 1
        optimizer.step()
    change = before - layer.weight.detach().cpu()
    np.testing.assert_allclose(change.numpy()[1:3], [[0.5] * 3, [1.5] * 3], 1e-5)
