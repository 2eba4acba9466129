"""Modules on CUDA: moving them, their state, tied parameters, `device=`, initial values."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import init


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 3)
        self.register_buffer("steps", st.zeros(1, dtype=st.int64))
        self.register_buffer("cache", st.zeros(2), persistent=False)
        self.scales = nn.ParameterList([nn.Parameter(st.ones(3))])
        self.table = nn.ParameterDict({"a": nn.Parameter(st.ones(3))})

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).relu()) * self.scales[0] + self.table["a"]


def tensors_of(model: nn.Module) -> list[Any]:
    return [*model.parameters(), *model.buffers()]


def close(x: Any, y: Any) -> None:
    np.testing.assert_allclose(x.detach().cpu().numpy(), y.detach().cpu().numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize(
    "move",
    [
        lambda m: m.to("cuda"),
        lambda m: m.cuda(),
        lambda m: m.cuda(0),
        lambda m: m.to(st.device("cuda", 0)),
        lambda m: m.to(st.ones(1).cuda()),
        lambda m: m.to(device="cuda", non_blocking=True),
    ],
)
def test_parameters_and_buffers_move_and_come_back(cp: Any, move: Any) -> None:
    model = Model()
    twin = copy.deepcopy(model)
    parameters = list(model.parameters())
    assert move(model) is model
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    assert all(t.is_cuda and t.device.index == 0 for t in tensors_of(model))
    x = st.ones(2, 3)
    close(model(x.cuda()), twin(x))
    model.cpu()
    assert not any(t.is_cuda for t in tensors_of(model))
    close(model(x), twin(x))


def test_dtype_and_device_change_together(cp: Any) -> None:
    model = Model().to("cuda", st.float64)
    assert {(p.dtype, p.is_cuda) for p in model.parameters()} == {(st.float64, True)}
    assert model.steps.dtype is st.int64
    assert model.half().first.weight.dtype is st.float16
    assert model.cpu().float().first.weight.dtype is st.float32
    weight = nn.Linear(2, 2).type(st.cuda.DoubleTensor).weight
    assert (weight.dtype, weight.is_cuda) == (st.float64, True)
    assert not nn.Linear(2, 2).cuda().type(st.FloatTensor).weight.is_cuda


def test_gradients_move_along(cp: Any) -> None:
    model = Model()
    model(st.ones(2, 3)).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.cuda()
    for p, g in zip(model.parameters(), expected, strict=True):
        assert p.grad.is_cuda
        close(p.grad, g)
    model(st.ones(2, 3).cuda()).sum().backward()
    model.cpu()
    for p, g in zip(model.parameters(), expected, strict=True):
        close(p.grad, 2 * g)


def test_tied_parameters_stay_tied(cp: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model.cuda()
    assert model[1].weight is model[0].weight
    assert len(list(model.parameters())) == 3
    copied = copy.deepcopy(model)
    assert copied[1].weight is copied[0].weight
    assert copied[0].weight.is_cuda


def test_state_dict_goes_between_devices(cp: Any) -> None:
    near, far = Model(), Model().cuda()
    state = far.state_dict()
    assert all(t.is_cuda for t in state.values())
    near.load_state_dict(state)
    assert not any(t.is_cuda for t in tensors_of(near))
    for name, t in near.state_dict().items():
        close(t, state[name])
    near.first.weight.data.fill_(3.0)
    far.load_state_dict(near.state_dict())
    assert all(t.is_cuda for t in tensors_of(far))
    assert float(far.first.weight.detach().cpu().min()) == 3.0
    far.load_state_dict(near.state_dict(), assign=True)
    assert not any(t.is_cuda for t in far.parameters())


def test_lazy_layers_are_made_on_a_device(cp: Any) -> None:
    layer = nn.LazyLinear(2, device="cuda")
    assert layer(st.ones(4, 3).cuda()).shape == (4, 2)
    assert layer.weight.is_cuda
    other = nn.LazyLinear(2).cuda()
    other(st.ones(4, 3).cuda())
    assert other.weight.is_cuda


def test_memory_is_made_without_values(cp: Any) -> None:
    model = Model().to_empty(device="cuda")
    assert all(t.is_cuda for t in tensors_of(model))
    layer = nn.utils.skip_init(nn.Linear, 3, 2, device="cuda")
    assert layer.weight.is_cuda


INITS: dict[str, Any] = {
    "uniform_": lambda t: init.uniform_(t, -1, 1),
    "normal_": lambda t: init.normal_(t, 0, 0.5),
    "constant_": lambda t: init.constant_(t, 0.3),
    "ones_": init.ones_,
    "zeros_": init.zeros_,
    "eye_": init.eye_,
    "xavier_uniform_": init.xavier_uniform_,
    "xavier_normal_": init.xavier_normal_,
    "kaiming_uniform_": init.kaiming_uniform_,
    "kaiming_normal_": init.kaiming_normal_,
    "trunc_normal_": init.trunc_normal_,
    "orthogonal_": init.orthogonal_,
    "sparse_": lambda t: init.sparse_(t, 0.5),
}


@pytest.mark.parametrize("name", INITS)
def test_initial_values_are_written_on_the_device(cp: Any, name: str) -> None:
    t = st.full((40, 30), 7.0).cuda().requires_grad_()
    assert INITS[name](t) is t
    assert t.is_cuda
    values, near = t.detach().cpu().numpy(), INITS[name](st.full((40, 30), 7.0)).numpy()
    assert np.isfinite(values).all()
    assert abs(values.mean() - near.mean()) < 0.1
    assert abs(values.std() - near.std()) < 0.1
    if name == "orthogonal_":
        np.testing.assert_allclose(values.T @ values, np.eye(30), atol=1e-5)
    if name == "sparse_":
        assert ((values == 0).sum(0) == 20).all()


def test_dirac(cp: Any) -> None:
    t = st.zeros(2, 2, 3).cuda()
    near = st.zeros(2, 2, 3)
    close(init.dirac_(t), init.dirac_(near))


def test_hooks_see_gradients_on_the_device(cp: Any) -> None:
    layer, seen = nn.Bilinear(3, 3, 2).cuda(), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    layer(st.ones(2, 3).cuda().requires_grad_(), st.ones(2, 3).cuda()).sum().backward()
    ((grad_input, grad_output),) = seen
    assert all(g.is_cuda for g in (*grad_input, *grad_output))


@pytest.mark.parametrize("p", [0.3, 0.9])
@pytest.mark.parametrize("name", ["Dropout", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout"])
def test_dropout_drops_on_the_device(cp: Any, name: str, p: float) -> None:
    x = st.ones(50, 20, 2, 2).cuda().requires_grad_()
    y = getattr(nn, name)(p)(x)
    values = y.detach().cpu().numpy()
    dropped = np.isclose(values, values.min()) if "Alpha" in name else values == 0
    assert abs(dropped.mean() - p) < 0.1
    if "Alpha" not in name:
        np.testing.assert_allclose(values[~dropped], 1 / (1 - p), 1e-5)
    if name in ("Dropout2d", "FeatureAlphaDropout"):
        assert (dropped == dropped[:, :, :1, :1]).all()
    y.sum().backward()
    gradient = x.grad.cpu().numpy()
    assert ((gradient == 0) == dropped).all()
