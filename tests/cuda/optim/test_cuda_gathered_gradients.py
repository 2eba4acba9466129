"""How an optimizer on a GPU gathers gradients into its block, whatever their layout."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn, optim

SHAPES = [(3, 5), (7,), (), (1, 1), (16, 16), (4, 0), (130,)]


def models(count: int, dtype: Any) -> tuple[list[Any], list[Any]]:
    """Parameters on the CPU, and the same on the GPU."""
    st.manual_seed(0)
    cpu = [nn.Parameter(st.randn(SHAPES[i % len(SHAPES)]).to(dtype)) for i in range(count)]
    return cpu, [nn.Parameter(p.detach().cuda()) for p in cpu]


def set_gradients(parameters: list[Any], step: int, layout: str) -> None:
    st.manual_seed(step)
    for i, p in enumerate(parameters):
        g = st.randn(*p.shape).to(p.dtype)
        place = p.device
        if layout == "some are missing" and i % 3 == step % 3:
            p.grad = None
        elif layout == "some have gaps" and i % 2 and p.dim() and p.numel():
            wide = st.zeros(*p.shape[:-1], 2 * p.shape[-1], dtype=p.dtype, device=place)
            wide[..., ::2] = g.to(place)
            p.grad = wide[..., ::2]
        elif layout == "transposed" and p.dim() == 2:
            p.grad = g.T.contiguous().to(place).T
        elif layout == "unaligned":
            long = st.zeros(p.numel() + 1, dtype=p.dtype, device=place)
            long[1:] = g.reshape(-1).to(place)
            p.grad = long[1:].reshape(p.shape)
        else:
            p.grad = g.to(place)


@pytest.mark.parametrize(
    ("dtype", "bound"), [(st.float32, 1e-5), (st.float64, 1e-12), (st.float16, 2e-2)]
)
@pytest.mark.parametrize(
    "layout", ["plain", "some are missing", "some have gaps", "transposed", "unaligned"]
)
def test_steps_are_the_cpus(cp: Any, layout: str, dtype: Any, bound: float) -> None:
    cpu, gpu = models(15, dtype)
    pairs = [(p, optim.Adam(p, lr=0.1)) for p in (cpu, gpu)]
    for step in range(3):
        for parameters, optimizer in pairs:
            set_gradients(parameters, step, layout)
            optimizer.step()
    for p, q in zip(cpu, gpu, strict=True):
        assert st.allclose(q.cpu().float(), p.float(), bound, bound), p.shape


def test_gaps_stay_zero(cp: Any) -> None:
    """New memory may hold anything, which must not become a part of a parameter's block."""
    _, gpu = models(15, st.float32)
    optimizer = optim.Adam(gpu, lr=0.1)
    for step in range(2):
        full = [st.full((n,), float("nan"), device="cuda") for n in range(64, 1024, 64)]
        del full
        set_gradients(gpu, step, "plain")
        optimizer.step()
    (flat,) = optimizer.flats
    inside = cp.zeros(flat.parameter.shape, bool)
    for start, stop in zip(flat.starts, flat.stops, strict=True):
        inside[start:stop] = True
    for array in (flat.parameter, *flat.state.values()):
        assert not cp.isnan(array).any()
        assert (array[~inside] == 0).all()


def test_a_launch_copies_many_gradients(cp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor.ops.cuda import copies

    launches: list[str] = []
    kernel = copies.kernel

    def counting(function: str) -> Any:
        launches.append(function)
        return kernel(function)

    monkeypatch.setattr(copies, "kernel", counting)
    for count in (6, 64, 130):
        _, gpu = models(count, st.float32)
        optimizer = optim.SGD(gpu, lr=0.1)
        launches.clear()
        set_gradients(gpu, 0, "plain")
        optimizer.step()
        assert launches == ["gather"]
        assert len(optimizer.flats[0].copies.launches) == -(-count // 64)


def test_bytes_go_to_their_places(cp: Any) -> None:
    """More arrays than a launch takes; those without bytes and one more are left out."""
    from shmtensor.ops.cuda.copies import Gather

    arrays = [cp.full(i % 7 * 5, i, "u1") for i in range(150)]
    starts = [64 * i for i in range(150)]
    out = cp.full(64 * 150, 255, "u1")
    gather = Gather(starts, [x.nbytes for x in arrays], [s + 40 for s in starts])
    gather(out, [0 if i == 11 else x.data.ptr for i, x in enumerate(arrays)])
    wanted = cp.full(64 * 150, 255, "u1")
    for i, (x, start) in enumerate(zip(arrays, starts, strict=True)):
        if i != 11 and x.size:
            wanted[start : start + 40] = 0
            wanted[start : start + x.size] = x
    assert (out == wanted).all()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(3, 4), (5, 3), (2, 3, 1), (1, 130)])
def test_rows_are_filled(cp: Any, shape: Any, dtype: str) -> None:
    from shmtensor.ops.cuda.copies import fill_rows

    out, row = cp.zeros(shape, dtype), cp.arange(shape[-1]).astype(dtype) + 1
    fill_rows(out, row)
    assert (out == row).all()
    wide = cp.zeros(2 * shape[-1] + 1, dtype)
    wide[1::2] = row
    fill_rows(out, wide[1::2])
    assert (out == row).all()
    fill_rows(out, wide[1 : 1 + shape[-1]])
    assert (out == wide[1 : 1 + shape[-1]]).all()
