"""The device "meta" beside CUDA: both are in use in one process."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn


def test_both_devices_compute(cp: Any) -> None:
    x = st.rand(3, 4).cuda()
    y = x.to("meta")
    assert (y.device.type, x.device.type) == ("meta", "cuda")
    for result, device in (
        (x @ x.t() + 1, "cuda"),
        (y @ y.t() + 1, "meta"),
        ((x * 2).sum(), "cuda"),
    ):
        assert result.device.type == device
    assert (y @ y.t()).shape == (3, 3)
    assert st.equal(x.cpu(), x.clone().cpu())


def test_operands_on_both_are_refused(cp: Any) -> None:
    x = st.rand(3, 4).cuda()
    y = x.to("meta")
    for call in (lambda: x + y, lambda: y + x, lambda: st.cat([x, y]), lambda: x + y.sum()):
        with pytest.raises(RuntimeError, match="to be on the same device"):
            call()
    with pytest.raises(NotImplementedError, match="no data"):
        y.cuda()


def test_gradients_on_both(cp: Any) -> None:
    x = st.rand(3, 4).cuda().requires_grad_()
    y = st.empty(3, 4, device="meta", requires_grad=True)
    for leaf in (x, y):
        (leaf.sin() * 2).sum().backward()
        (leaf * leaf).sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.device == leaf.device
    assert x.grad is not None
    assert st.allclose(x.grad.cpu(), 2 * x.detach().cpu().cos() + 2 * x.detach().cpu(), atol=1e-6)


def test_memory_on_the_gpu_comes_with_to_empty(cp: Any) -> None:
    with st.device("meta"):
        module = nn.Linear(3, 4)
    module.to_empty(device="cuda")
    module.reset_parameters()
    assert module(st.ones(2, 3).cuda()).isfinite().all()
    trained = nn.Linear(3, 4).state_dict()
    module.to("meta").load_state_dict({k: v.cuda() for k, v in trained.items()}, assign=True)
    assert st.equal(module.weight.cpu(), trained["weight"])
