"""CUDA tensors in the op table: results, gradients, writes and views stay on their device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st

A = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]

CASES: list[tuple[str, Callable[[Any], Any]]] = [
    ("operators", lambda x: 2 * x + 1 - x / 4),
    ("reflected", lambda x: 1 - x),
    ("matmul", lambda x: x @ x.T),
    ("mixed dtypes", lambda x: x.double() * x),
    ("integers and a number", lambda x: x.long() + 1),
    ("0-d of the CPU", lambda x: x * st.tensor(2.0)),
    ("0-d of the CPU first", lambda x: st.tensor(2.0) - x),
    ("row", lambda x: x[0]),
    ("list", lambda x: x[:, [0, 2]]),
    ("mask", lambda x: x[x > 2]),
    ("index of the CPU", lambda x: x[st.tensor([1, 0])]),
    ("number, then an index", lambda x: x[None, 1, :, None][:, [2, 0]]),
    ("cat", lambda x: st.cat([x, x], 1)),
    ("several outputs", lambda x: st.cat(list(x.max(1)))),
    ("where", lambda x: st.where(x > 3, x, 0)),
    ("out", lambda x: st.add(x, x, out=st.empty(0).to(x.device))),
]


@pytest.mark.parametrize(("name", "call"), CASES, ids=[name for name, _ in CASES])
def test_results_are_the_cpus(cp: Any, name: str, call: Callable[[Any], Any]) -> None:
    result, expected = call(st.tensor(A).cuda()), call(st.tensor(A))
    assert isinstance(result.array, cp.ndarray)
    assert result.device == st.device("cuda:0")
    assert result.dtype is expected.dtype
    np.testing.assert_allclose(result.cpu().numpy(), expected.numpy(), rtol=1e-6)


def test_a_gradient_crosses_devices(cp: Any, last_device: str) -> None:
    leaf = st.tensor(A, requires_grad=True)
    (leaf.to(last_device) ** 2).to("cuda:0").sum().backward()
    assert leaf.grad.device == st.device("cpu")
    assert leaf.grad.tolist() == [[2 * v for v in row] for row in A]


def test_copies_between_devices(cp: Any, last_device: str) -> None:
    x, c = st.tensor(A), st.zeros(2, 3).cuda()
    assert c.copy_(x) is c
    assert c.tolist() == A
    assert st.zeros(2, 3).copy_(c).tolist() == A
    other = c.to(last_device)
    assert other.device == st.device(last_device)
    assert c.copy_(other * 2).device == st.device("cuda:0")
    assert c.tolist() == [[2 * v for v in row] for row in A]
    assert c.to("cuda") is c
    assert c.cpu().cpu().tolist() == c.tolist()
    c[0] = x[1]
    assert c[0].tolist() == A[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda c, x: c + x,
        lambda c, x: x + c,
        lambda c, x: st.matmul(c, x.T),
        lambda c, x: st.cat([x, c]),
        lambda c, x: c.add_(x),
        lambda c, x: st.where(x > 0, c, c),
    ],
)
def test_two_devices_are_an_error_that_names_both(cp: Any, call: Callable[..., Any]) -> None:
    c, x = st.tensor(A).cuda(), st.tensor(A)
    with pytest.raises(RuntimeError, match="same device") as error:
        call(c, x)
    assert "cuda:0" in str(error.value)
    assert "cpu" in str(error.value)
    if cp.cuda.runtime.getDeviceCount() < 2:
        return
    with pytest.raises(RuntimeError, match="same device") as error:
        call(c, c.to("cuda:1"))
    assert "cuda:0" in str(error.value)
    assert "cuda:1" in str(error.value)


def test_out_on_another_device(cp: Any) -> None:
    c = st.tensor(A).cuda()
    with pytest.raises(RuntimeError, match=r"out is on cpu, the result .* is on cuda:0"):
        st.add(c, c, out=st.empty(2, 3))


def test_a_linear_layer_names_the_sizes_that_differ(cp: Any) -> None:
    x, weight = st.ones(3, 5, device="cuda"), st.ones(2, 4, device="cuda")
    with pytest.raises(RuntimeError, match=r"input \(3, 5\), weight \(2, 4\), 5 is not 4"):
        st.nn.functional.linear(x, weight)


def test_bfloat16_is_computed_in_float32(cp: Any) -> None:
    x = st.tensor([1.0, 2.0, 3.0], dtype=st.bfloat16).cuda().requires_grad_()
    ones = st.ones(400, dtype=st.bfloat16).cuda()
    assert (ones.sum().item(), ones.cumsum(0)[-1].item()) == (400, 400)  # 256 if each were rounded
    y = (x * 2 + 1).exp()
    y.sum().backward()
    assert (y.dtype, x.grad.dtype) == (st.bfloat16, st.bfloat16)
    assert x.grad.tolist() == (2 * y).tolist()
    out = st.empty(3, dtype=st.bfloat16, device="cuda")
    assert st.add(x.detach(), x.detach(), out=out) is out
    assert out.mul_(x.detach()).tolist() == [2, 8, 18]


def test_ops_run_on_the_device_of_their_operands(cp: Any, last_device: str) -> None:
    x = st.tensor(A).to(last_device).requires_grad_()
    with cp.cuda.Device(0):
        y = (x * 2).exp() @ x.T
        y.sum().backward()
    assert y.device == x.grad.device == st.device(last_device)
    reference = st.tensor(A, requires_grad=True)
    ((reference * 2).exp() @ reference.T).sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), reference.grad.numpy(), rtol=1e-5)
