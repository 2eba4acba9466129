"""Flat optimizers: one block each, also after changes of the parameters between steps."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.multiprocessing import get_context


def model() -> nn.Sequential:
    st.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def step(m: nn.Module, o: optim.Optimizer) -> None:
    o.zero_grad()
    m(st.ones(4, 5)).square().sum().backward()
    o.step()


def values(m: nn.Module) -> list[Any]:
    return [p.detach().numpy().copy() for p in m.parameters()]


def test_parameters_gradients_and_state_have_one_block_each() -> None:
    m = model()
    o = optim.Adam(m.parameters())
    step(m, o)
    (flat,) = o.flats
    assert len(flat.tensors) == 4
    for p, start, stop in zip(flat.tensors, flat.starts, flat.stops, strict=True):
        assert np.shares_memory(p.array, flat.parameter[start:stop])
        assert np.shares_memory(p.grad.array, flat.gradient[start:stop])
        for name in ("exp_avg", "exp_avg_sq"):
            assert np.shares_memory(o.state[p][name].array, flat.state[name][start:stop])
        assert (p.data_ptr() - flat.parameter.ctypes.data) % 64 == 0
    assert st.memory.is_shared(flat.parameter)
    assert st.memory.is_shared(flat.gradient)


def test_parameters_without_gradient_stay_as_they_are() -> None:
    m = model()
    o = optim.AdamW(m.parameters(), lr=0.1, weight_decay=0.5)
    step(m, o)
    before = values(m)
    o.zero_grad()
    m[2](st.ones(1, 7)).sum().backward()
    o.step()
    after = values(m)
    for i, same in enumerate([True, True, False, False]):
        assert np.array_equal(before[i], after[i]) == same
    assert [int(o.state[p]["step"].item()) for p in m.parameters()] == [1, 1, 2, 2]
    o.zero_grad()
    o.step()
    for x, y in zip(after, values(m), strict=True):
        np.testing.assert_array_equal(x, y)


def twin(change: Any) -> None:
    """A model changed between steps continues as one whose optimizer was made after the change."""
    a, b = model(), model()
    o = optim.SGD(a.parameters(), lr=0.1)
    step(a, o)
    q = optim.SGD(b.parameters(), lr=0.1)
    step(b, q)
    change(a)
    change(b)
    q = optim.SGD(b.parameters(), lr=0.1)
    for _ in range(2):
        step(a, o)
        step(b, q)
    for x, y in zip(values(a), values(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_parameter_reassigned_through_data() -> None:
    def change(m: nn.Sequential) -> None:
        m[0].weight.data = m[0].weight.data * 0.5

    twin(change)


def test_reassigned_memory_is_the_memory_that_is_updated() -> None:
    m = model()
    o = optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    step(m, o)
    mine = st.ones(3)
    m[2].bias.data = mine
    step(m, o)
    assert not (mine.numpy() == 1).any()
    assert o.state[m[2].bias]["momentum_buffer"].shape == (3,)


def test_loading_a_state_dict_between_steps() -> None:
    other = {k: v * 0 + 0.1 for k, v in model().state_dict().items()}
    twin(lambda m: m.load_state_dict(other))


def test_cast_to_float64_takes_the_state_along() -> None:
    m = model()
    o = optim.Adam(m.parameters())
    step(m, o)
    moment = o.state[m[0].bias]["exp_avg"].numpy().copy()
    m.double()
    o.zero_grad()
    m(st.ones(4, 5, dtype=st.float64)).square().sum().backward()
    o.step()
    (flat,) = o.flats
    assert flat.parameter.dtype == np.float64
    assert o.state[m[0].bias]["step"].item() == 2
    g = m[0].bias.grad.numpy()
    np.testing.assert_allclose(
        o.state[m[0].bias]["exp_avg"].numpy(), moment * 0.9 + g * 0.1, rtol=1e-5
    )


def test_gradient_that_was_assigned_is_used() -> None:
    p = nn.Parameter(st.ones(3))
    o = optim.SGD([p], lr=1.0)
    mine = st.tensor([1.0, 2.0, 3.0])
    p.grad = mine
    o.step()
    assert p.tolist() == [0, -1, -2]
    assert p.grad is mine


def test_gradient_kept_by_somebody_is_not_written_over() -> None:
    p = nn.Parameter(st.ones(3))
    o = optim.SGD([p], lr=0.1)
    (p * 2).sum().backward()
    tensor = p.grad
    o.zero_grad()
    (p * 3).sum().backward()
    assert tensor.tolist() == [2, 2, 2]
    assert p.grad.tolist() == [3, 3, 3]
    o.zero_grad()
    del tensor
    (p * 4).sum().backward()
    part = p.grad.numpy()[1:]
    o.zero_grad()
    (p * 5).sum().backward()
    o.step()
    assert part.tolist() == [4, 4]
    np.testing.assert_allclose(p.detach().numpy(), 0.5)


def test_gradient_sent_to_another_process_is_not_written_over() -> None:
    p = nn.Parameter(st.ones(3))
    o = optim.SGD([p], lr=0.1)
    queue = get_context("fork").Queue()
    for n in (2, 3, 4):
        o.zero_grad()
        (p * n).sum().backward()
        queue.put(p.grad)
        o.step()
    o.zero_grad()
    (p * 5).sum().backward()
    assert [queue.get().tolist() for _ in range(3)] == [[2] * 3, [3] * 3, [4] * 3]
    np.testing.assert_allclose(p.detach().numpy(), 0.1, rtol=1e-5)


def test_gradients_accumulate_over_several_backwards() -> None:
    m = model()
    o = optim.SGD(m.parameters(), lr=0.1)
    for _ in range(3):
        m(st.ones(1, 5)).sum().backward()
    reference = model()
    reference(st.ones(1, 5)).sum().backward()
    for p, q in zip(m.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), 3 * q.grad.numpy(), rtol=1e-5)
    o.step()


def test_frozen_and_thawed_parameters() -> None:
    m = model()
    m[0].requires_grad_(False)
    o = optim.SGD(m.parameters(), lr=0.1)
    before = values(m)
    step(m, o)
    assert np.array_equal(before[0], values(m)[0])
    m[0].requires_grad_(True)
    for _ in range(2):
        step(m, o)
    assert not np.array_equal(before[0], values(m)[0])
    assert m[0].weight.accumulate_grad.grad_buffer.owns(m[0].weight.grad.array)


def test_in_place_change_by_the_step_is_caught_at_backward() -> None:
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    o = optim.SGD(m.parameters(), lr=0.1)
    loss = m(st.ones(1, 2)).sum()
    loss.backward(retain_graph=True)
    o.step()
    with pytest.raises(RuntimeError, match="modified"):
        loss.backward()


def test_state_that_was_cleared_begins_anew() -> None:
    m = model()
    o = optim.Adam(m.parameters())
    step(m, o)
    o.state.clear()
    step(m, o)
    assert {int(s["step"].item()) for s in o.state.values()} == {1}
    del o.state[m[0].weight]
    step(m, o)
    assert [int(o.state[p]["step"].item()) for p in m.parameters()] == [1, 2, 2, 2]


def test_momentum_switched_on_later_begins_anew() -> None:
    p = nn.Parameter(st.ones(1))
    o = optim.SGD([p], lr=1.0)
    p.grad = st.ones(1)
    o.step()
    o.param_groups[0]["momentum"] = 0.5
    o.step()
    o.step()
    assert p.item() == 1 - 1 - 1 - 1.5


def test_half_precision_and_mixed_dtypes_step() -> None:
    ps = [nn.Parameter(st.ones(3, dtype=d)) for d in (st.float16, st.float32, st.float64)]
    o = optim.SGD(ps, lr=0.5)
    for p in ps:
        p.grad = st.ones_like(p)
    o.step()
    assert len(o.flats) == 3
    assert all((p.detach().numpy() == 0.5).all() for p in ps)


def test_lr_may_be_a_tensor() -> None:
    p = nn.Parameter(st.ones(1))
    o = optim.SGD([p], lr=st.tensor(0.5))
    p.grad = st.ones(1)
    o.step()
    assert p.item() == 0.5


def test_parts_make_the_full_step() -> None:
    a, b = model(), model()
    o, q = optim.Adam(a.parameters()), optim.Adam(b.parameters())
    for _ in range(3):
        step(a, o)
        q.zero_grad()
        b(st.ones(4, 5)).square().sum().backward()
        (flat,) = q.flats
        assert flat.gather() is None
        n, runs = flat.parameter.shape[0], q.count_step(0)
        for start, stop in ((0, 10), (10, 10), (10, n)):
            q.step_part(0, runs, start, stop)
    for x, y in zip(values(a), values(b), strict=True):
        np.testing.assert_array_equal(x, y)
    assert q.state[b[0].bias]["step"].item() == 3


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (optim.NAdam, {}),
        (optim.ASGD, {"t0": 1, "lambd": 0.1}),
        (optim.Rprop, {}),
        (optim.SGD, {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True, "lr": 0.1}),
    ],
)
def test_parts_count_what_a_step_counts(kind: Any, kwargs: dict[str, Any]) -> None:
    a, b = model(), model()
    o, q = kind(a.parameters(), **kwargs), kind(b.parameters(), **kwargs)
    for _ in range(4):
        step(a, o)
        q.zero_grad()
        b(st.ones(4, 5)).square().sum().backward()
        (flat,) = q.flats
        assert flat.gather() is None
        n, runs = flat.parameter.shape[0], q.count_step(0)
        for start, stop in ((0, 10), (10, n)):
            q.step_part(0, runs, start, stop)
    for x, y in zip(values(a), values(b), strict=True):
        np.testing.assert_array_equal(x, y)
    p, twin = a[0].bias, b[0].bias
    for name, value in o.state[p].items():
        np.testing.assert_array_equal(value.numpy(), q.state[twin][name].numpy())


def test_forked_child_has_separate_gradients() -> None:
    m = model()
    o = optim.SGD(m.parameters(), lr=0.1)
    m(st.ones(1, 5)).sum().backward()
    o.zero_grad()
    (flat,) = o.flats
    before = flat.gradient.copy()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            m(st.ones(1, 5) * 7).sum().backward()
            (child_flat,) = o.flats
            child_flat.gather()
            code = 0 if child_flat.gradient.any() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    np.testing.assert_array_equal(flat.gradient, before)
