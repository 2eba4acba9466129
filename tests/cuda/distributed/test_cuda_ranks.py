"""Collectives of GPU tensors, by NCCL and through host memory; training with
DistributedDataParallel and its relatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributed as dist
from tests.cuda.standin.program import run_module

TRAINED = ["sync_batch_norm", "zero", "hooks", "join", "unused", "sparse", "side_stream"]
CASES = [
    ("ranks", "collectives"),
    ("ddp_ranks", "no_sync"),
    *(pytest.param("ddp_ranks", case, marks=pytest.mark.slow) for case in TRAINED),
]


@pytest.mark.parametrize("backend", ["shm", "nccl"])
@pytest.mark.parametrize(("program", "case"), CASES)
def test_ranks(cp: Any, program: str, case: str, backend: str) -> None:
    run_module(f"tests.cuda.distributed.{program}", case, backend)


def test_the_backend_for_gpus_is_nccl(cp: Any) -> None:
    assert dist.is_nccl_available()
    assert dist.is_backend_available("nccl")
    for device in ("cuda", "cuda:1", st.device("cuda")):
        assert dist.get_default_backend_for_device(device) == "nccl"
    assert dist.get_default_backend_for_device("cpu") == "shm"


def test_data_parallel_is_the_module_on_the_whole_batch(two_devices: Any) -> None:
    st.manual_seed(0)
    net = st.nn.Sequential(st.nn.Linear(4, 8), st.nn.Tanh(), st.nn.Linear(8, 2))
    x = st.randn(10, 4)
    expected = net(x)
    expected.square().sum().backward()
    gradients = [p.grad.numpy().copy() for p in net.parameters()]
    net.zero_grad()
    net.to("cuda:0")
    parallel = st.nn.DataParallel(net)
    assert parallel.device_ids == ["cuda:0", "cuda:1"]
    out = parallel(x.to("cuda:0"))
    assert out.device == st.device("cuda:0")
    np.testing.assert_allclose(out.detach().cpu().numpy(), expected.detach().numpy(), rtol=1e-5)
    out.square().sum().backward()
    for p, gradient in zip(net.parameters(), gradients):
        assert p.grad.device == st.device("cuda:0")
        np.testing.assert_allclose(p.grad.cpu().numpy(), gradient, rtol=1e-4, atol=1e-5)
