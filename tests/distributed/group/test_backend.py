"""Backends by name, and a user's own backend."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.distributed import Backend


def test_names() -> None:
    assert Backend("GLOO") == Backend.GLOO
    assert Backend("cpu:gloo,cuda:nccl").engine() == "shm"
    assert dist.is_gloo_available()
    assert dist.is_backend_available("nccl") == dist.is_nccl_available()
    assert (dist.is_ucc_available(), dist.is_xccl_available()) == (False, False)
    assert [dist.is_backend_available(name) for name in ("Gloo", "shm", "ucc")] == [
        True,
        True,
        False,
    ]
    assert dist.is_backend_available("mpi") == dist.is_mpi_available()
    assert dist.get_default_backend_for_device("cpu") == "shm"
    assert dist.get_default_backend_for_device(st.device("cpu")) == "shm"
    assert dist.get_default_backend_for_device("cuda:0") == (
        "nccl" if dist.is_nccl_available() else "shm"
    )
    with pytest.raises(ValueError, match="'xpu:0'"):
        dist.get_default_backend_for_device("xpu:0")
    assert dist.supports_complex(dist.ReduceOp.SUM)
    assert not dist.supports_complex(dist.ReduceOp.MAX)
    assert dist.is_mpi_available() == (find_spec("mpi4py") is not None)
    assert Backend("MPI").engine() == "mpi"
    assert Backend("NCCL").engine() == "nccl"
    with pytest.raises(ValueError, match="unknown backend: 'ucc'"):
        Backend("ucc")
    with pytest.raises(ValueError, match="taken"):
        Backend.register_backend("gloo", print)


class Alone:
    """An engine for one rank that counts."""

    rank, world, is_broken = 0, 1, False

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.calls.append(name)


def test_a_registered_backend_carries_the_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backend, "backend_list", list(Backend.backend_list))
    monkeypatch.setattr(Backend, "makers", {})
    engines: list[Any] = []

    def make(store: Any, rank: int, size: int, timeout: float) -> Alone:
        engines.append((rank, size, timeout))
        return Alone()

    Backend.register_backend("mine", make)
    dist.init_process_group("mine", rank=0, world_size=1, timeout=5)
    try:
        assert dist.get_backend() == "mine"
        dist.all_reduce(st.ones(3))
        dist.barrier()
        world: Any = dist.GroupMember.WORLD
        assert world.native.calls == ["all_reduce", "barrier"]
        assert engines == [(0, 1, 5.0)]
    finally:
        dist.destroy_process_group()
