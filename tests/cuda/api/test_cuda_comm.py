"""Copies and sums between GPUs of one process."""

from __future__ import annotations

from types import ModuleType

import pytest

import shmtensor as st


def test_broadcast(two: ModuleType) -> None:
    x = st.arange(4, device="cuda")
    copies = two.comm.broadcast(x, [0, "cuda:1"])
    assert [c.get_device() for c in copies] == [0, 1]
    assert copies[1].tolist() == [0, 1, 2, 3]
    out = [st.zeros(4, dtype=st.int64, device=f"cuda:{i}") for i in range(2)]
    two.comm.broadcast(x, out=out)
    assert out[1].tolist() == [0, 1, 2, 3]
    both = two.comm.broadcast_coalesced([x, x + 1], [0, 1])
    assert both[1][1].get_device() == 1
    assert both[1][1].tolist() == [1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="exactly one of devices and out is needed"):
        two.comm.broadcast(x)


def test_sums(two: ModuleType) -> None:
    parts = [st.full((3,), i + 1.0, device=f"cuda:{i}") for i in range(2)]
    total = two.comm.reduce_add(parts, 1)
    assert (total.get_device(), total.tolist()) == (1, [3, 3, 3])
    assert two.comm.reduce_add_coalesced([parts, parts])[1].tolist() == [4, 4, 4]
    with pytest.raises(RuntimeError, match=r"shapes differ: \[\(3,\), \(2,\)\]"):
        two.comm.reduce_add([parts[0], parts[1][:2]])


def test_scatter_and_gather(two: ModuleType) -> None:
    x = st.arange(10, device="cuda").reshape(5, 2)
    parts = two.comm.scatter(x, [0, 1])
    assert [(p.get_device(), len(p)) for p in parts] == [(0, 3), (1, 2)]
    assert [len(p) for p in two.comm.scatter(x, [1, 0], [1, 4])] == [1, 4]
    whole = two.comm.gather(parts)
    assert (whole.get_device(), whole.tolist()) == (0, x.tolist())
    out = st.zeros(5, 2, dtype=st.int64)
    assert two.comm.gather(parts, out=out) is out
    assert out.tolist() == x.tolist()
    targets = [st.zeros(2, 2, dtype=st.int64, device="cuda:1"), st.zeros(3, 2, dtype=st.int64)]
    two.comm.scatter(x, out=targets)
    assert targets[0].tolist() == [[0, 1], [2, 3]]
