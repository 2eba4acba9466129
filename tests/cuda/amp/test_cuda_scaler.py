"""GradScaler on CUDA, beyond tests/amp/test_scaler.py: the CPU's steps, without waits."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from tests.cuda.standin.install import ON_GPU

NAN, INF = float("nan"), float("inf")


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


def test_gradients_on_two_gpus(two_devices: Any, cp: Any) -> None:
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


# ------------------------------------------------------------------ nothing waits for the GPU
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    ("AdamW", {"fused": True}),
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
]
# of the first parameter and of the second, which is left out in the third step
GRADIENTS: list[tuple[list[float], list[float] | None]] = [
    ([INF, 1.0, 1.0], [1.0]),
    ([1.0, 2.0, 3.0], [1.0]),
    ([1.0, -1.0, 2.0], None),
    ([1.0, NAN, 1.0], [2.0]),
    ([-1.0, 1.0, 2.0], [-INF]),
    ([0.5, 1.0, 2.0], [1.0]),
    ([0.5, 1.0, 2.0], [1.0]),
]


def scaled_training(
    device: str, name: str, arguments: dict[str, Any], dtype: Any = st.float32
) -> tuple[Any, Any, list[float], list[Any]]:
    """An optimizer, its parameters, and the scales and steps of the first parameter."""
    params = [
        st.tensor([1.0, 2.0, 3.0], dtype=dtype).to(device).requires_grad_(),
        st.tensor([4.0], dtype=dtype).to(device).requires_grad_(),
    ]
    optimizer = getattr(optim, name)(params, **arguments)
    scaler = st.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
    scales = []
    for each in GRADIENTS:
        optimizer.zero_grad()
        loss: Any = 0.0
        for p, values in zip(params, each, strict=True):
            if values is not None:
                real = p.real if p.is_complex() else p
                loss = loss + (real * st.tensor(values, dtype=real.dtype).to(device)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler._read())
    return optimizer, params, scales, []


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.complex64], ids=str)
@pytest.mark.parametrize(("name", "arguments"), OPTIMIZERS, ids=str)
def test_skipped_steps_are_the_cpu_s(
    cp: Any, name: str, arguments: dict[str, Any], dtype: Any
) -> None:
    far, near = (scaled_training(device, name, arguments, dtype) for device in ("cuda", "cpu"))
    assert far[2] == near[2]
    for p, q in zip(far[1], near[1], strict=True):
        np.testing.assert_allclose(p.detach().cpu().numpy(), q.detach().numpy(), 2e-5)
        assert far[0].state[p].keys() == near[0].state[q].keys() | far[0].state[p].keys()
        for key, value in near[0].state[q].items():
            ours = far[0].state[p][key]
            np.testing.assert_allclose(ours.cpu().numpy(), value.numpy(), 2e-5, err_msg=key)
    if name != "SGD":
        assert [far[0].state[p]["step"].item() for p in far[1]] == [4, 3]
        assert far[0].state[far[1][0]]["step"].is_cuda


@pytest.mark.parametrize(("name", "arguments"), OPTIMIZERS, ids=str)
def test_a_training_step_does_not_wait_for_the_gpu(
    cp: Any, late_work: Any, name: str, arguments: dict[str, Any]
) -> None:
    params = [st.ones(5).cuda().requires_grad_(), st.ones(3, 3).cuda().requires_grad_()]
    optimizer = getattr(optim, name)(params, **arguments)
    scaler = st.amp.GradScaler("cuda", init_scale=8.0)
    for number, is_unscaled in enumerate((False, True, False, True)):
        cp.cuda.runtime.deviceSynchronize()
        queued = st.cuda.Event()
        is_compiled = number > 1
        late_work(cp.cuda.get_current_stream(), 2 * is_compiled)
        factor = st.ones((), device="cuda") * 2
        queued.record()
        optimizer.zero_grad()
        scaler.scale((params[0] * factor).sum() + params[1].sum()).backward()
        if is_unscaled:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert not queued.query() or (ON_GPU and not is_compiled)
    assert scaler.get_scale() == 8.0
    assert queued.query()


def test_an_optimizer_without_found_inf_reads_the_flag_once(cp: Any) -> None:
    p = st.ones(2).cuda().requires_grad_()
    optimizer = optim.Adam([p], fused=False)
    scaler = st.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale((p * INF).sum()).backward()
    assert scaler.step(optimizer) is None
    assert not optimizer.state
    scaler.update()
    assert scaler.get_scale() == 2.0


def test_half_parameters_of_a_fused_optimizer(cp: Any) -> None:
    for name in ("Adam", "SGD"):
        found = []
        for device in ("cuda", "cpu"):
            dtype = st.float16 if device == "cuda" else st.float32
            p = st.tensor([1.0, 2.0], dtype=dtype).to(device).requires_grad_()
            optimizer = getattr(optim, name)([p], lr=0.5, fused=device == "cuda")
            scaler = st.amp.GradScaler(device, init_scale=1024.0)
            for values in ([0.25, -0.5], [INF, 1.0], [2.0**-20, 1.0]):
                optimizer.zero_grad()
                g = st.tensor(values).to(device)
                scaler.scale((p.float() * g).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
            found.append((p.detach().float().cpu().numpy(), scaler.get_scale()))
        np.testing.assert_allclose(found[0][0], found[1][0], 2e-3)
        assert found[0][1] == found[1][1] == 512.0
    p = st.ones(2, dtype=st.float16).cuda().requires_grad_()
    scaler.scale(p.sum()).backward() if p.device.type == "cpu" else None
    p.grad = st.ones(2, dtype=st.float16).cuda()
    with pytest.raises(ValueError, match="FP16"):
        scaler.step(optim.SGD([p], lr=1.0))


def test_parameters_with_gaps_and_on_two_gpus_are_skipped(cp: Any) -> None:
    places = [f"cuda:{i}" for i in range(min(2, cp.cuda.runtime.getDeviceCount()))]
    params = [st.ones(3, 2).to(place).t().requires_grad_() for place in places]
    params.append(st.ones(6).cuda()[::2].requires_grad_())
    optimizer = optim.Adam(params, lr=0.5, weight_decay=0.1)
    scaler = st.amp.GradScaler("cuda", init_scale=2.0, growth_interval=1)
    for bad, expected in ((INF, 1.0), (2.0, 0.5)):
        scaler.scale(st.ones(1).cuda())
        for p in params:
            p.grad = st.full(p.shape, 2.0, device=p.device)
        params[0].grad[0, 0] = bad
        scaler.step(optimizer)
        scaler.update()
        for p in params:
            np.testing.assert_allclose(p.detach().cpu().numpy(), expected, 1e-5)
    assert [optimizer.state[p]["step"].item() for p in params] == [1] * len(params)
    assert scaler.get_scale() == 2.0


def test_steps_with_and_without_a_scaler_and_saved_state(cp: Any) -> None:
    def run(device: str) -> tuple[list[float], float]:
        p = st.ones(3).to(device).requires_grad_()
        optimizer = optim.Adam([p], lr=0.1)
        scaler = st.amp.GradScaler(device, init_scale=4.0)
        for step, values in enumerate([[1.0, 2.0, 3.0], [INF, 1.0, 1.0], [1.0, 1.0, 2.0]] * 2):
            optimizer.zero_grad()
            (scaler.scale((p * st.tensor(values).to(device)).sum())).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
            if step == 3:
                state = pickle.loads(pickle.dumps(optimizer.state_dict()))
                scaler = pickle.loads(pickle.dumps(scaler))
                optimizer = optim.Adam([p], lr=0.1)
                optimizer.load_state_dict(state)
        optimizer.add_param_group({"params": [st.ones(2).to(device).requires_grad_()]})
        (p * p).sum().backward()
        optimizer.step()
        return p.tolist(), optimizer.state[p]["step"].item()

    (far, steps), (near, wanted) = run("cuda"), run("cpu")
    np.testing.assert_allclose(far, near, 1e-5)
    assert steps == wanted == 11


def test_attributes_of_an_optimizer_without_a_scaler(cp: Any) -> None:
    for device in ("cuda", "cpu"):
        p = st.tensor([1.0]).to(device).requires_grad_()
        optimizer = optim.SGD([p], lr=1.0)
        p.grad = st.tensor([4.0]).to(device)
        optimizer.found_inf = st.tensor(1.0).to(device)
        optimizer.grad_scale = st.tensor(8.0).to(device)
        optimizer.step()
        assert p.item() == 1.0
        optimizer.found_inf = st.tensor(0.0).to(device)
        optimizer.step()
        assert p.item() == 0.5


def test_state_follows_the_scale_on_the_gpu(cp: Any) -> None:
    scaler = st.amp.GradScaler("cuda", init_scale=4.0, growth_interval=3)
    p = st.ones(1).cuda().requires_grad_()
    optimizer = optim.SGD([p], lr=1.0)
    for _ in range(2):
        scaler.scale(p.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    state = scaler.state_dict()
    assert state["scale"] == 4.0
    assert state["_growth_tracker"] == 2
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == state
    scaler.load_state_dict({**state, "scale": 16.0, "_growth_tracker": 1})
    assert scaler.get_scale() == 16.0
    assert scaler.state_dict()["_growth_tracker"] == 1
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.update(st.tensor(2.0).cuda())
    assert scaler.get_scale() == 2.0
    scaler.update(32.0)
    assert scaler.get_scale() == 32.0


def test_an_optimizer_with_a_step_of_its_own_is_not_called_with_infinity(cp: Any) -> None:
    class Counted(optim.SGD):
        """One whose step does more than SGD's."""

        steps = 0

        def step(self, closure: Any = None) -> Any:
            self.steps += 1
            with st.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.sub_(p.grad)
            return "stepped"

    class Wrapper:
        """One that has the attributes of another, and a step of its own."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner
            self.steps = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self.__dict__["inner"], name)

        def step(self) -> str:
            self.steps += 1
            self.inner.step()
            return "stepped"

    for device in ("cuda", "cpu"):
        for make in (Counted, lambda params, lr: Wrapper(optim.SGD(params, lr=lr))):
            p = st.ones(2).to(device).requires_grad_()
            optimizer: Any = make([p], lr=1.0)
            scaler = st.amp.GradScaler(device, init_scale=4.0)
            scaler.scale((p * INF).sum()).backward()
            assert scaler.step(optimizer) is None
            scaler.update()
            assert (optimizer.steps, p.tolist()) == (0, [1.0, 1.0])
            optimizer.zero_grad()
            scaler.scale(p.sum()).backward()
            assert scaler.step(optimizer) == "stepped"
            scaler.update()
            assert (optimizer.steps, p.tolist()) == (1, [0.0, 0.0])
            assert scaler.get_scale() == 2.0


def test_state_that_a_group_no_longer_uses(cp: Any) -> None:
    cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}, {"momentum": 0.0}),
        ("Adam", {"lr": 0.1, "amsgrad": True}, {"amsgrad": False}),
    ]
    for name, arguments, later in cases:
        found = []
        for device in ("cuda", "cpu"):
            p = st.tensor([1.0, 2.0]).to(device).requires_grad_()
            optimizer = getattr(optim, name)([p], **arguments)
            scaler = st.amp.GradScaler(device, init_scale=4.0)
            for factor in (3.0, 1.0, -1.0):
                optimizer.zero_grad()
                scaler.scale((p * p * factor).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.param_groups[0].update(later)
            found.append(p.tolist())
        np.testing.assert_allclose(*found, 1e-5, err_msg=name)


@pytest.mark.parametrize("way", ["state_dict", "pickle", "moved"])
def test_a_first_step_that_was_skipped_is_not_in_saved_state(cp: Any, way: str) -> None:
    found = []
    for device in ("cuda", "cpu"):
        params = [st.ones(n).to(device).requires_grad_() for n in (2, 3)]
        arguments = {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}
        optimizer = optim.SGD(params, **arguments)
        scaler = st.amp.GradScaler(device, init_scale=4.0)
        for step, factor in enumerate((INF, 2.0, 3.0)):
            optimizer.zero_grad()
            loss = (params[0] * factor).sum()
            if step != 1:
                loss = loss + params[1].sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if step == 2:
                break
            if way == "state_dict":
                saved = optimizer.state_dict()
                optimizer = optim.SGD(params, **arguments)
                optimizer.load_state_dict(saved)
            elif way == "pickle":
                optimizer = pickle.loads(pickle.dumps(optimizer))
                params = optimizer.param_groups[0]["params"]
            else:
                params[0].data = params[0].detach().clone()
        found.append([p.tolist() for p in params])
    for far, near in zip(*found, strict=True):
        np.testing.assert_allclose(far, near, 1e-5)
