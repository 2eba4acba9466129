"""viz.summary counts the floating-point operations that PyTorch's FlopCounterMode counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import flop_counter

import shmtensor as st
from shmtensor import nn, viz

pytestmark = pytest.mark.torch


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def mlp(m: Any, x: Any, w: Any) -> Any:
    return m.nn.functional.linear(m.nn.functional.linear(x, w).relu(), w)


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "mlp": (mlp, [(5, 4), (4, 4)]),
    "matmul": (lambda m, a, b: a @ b, [(2, 3, 4), (2, 4, 5)]),
    "addmm": (lambda m, a, b, c: m.addmm(a, b, c), [(3, 5), (3, 4), (4, 5)]),
    "conv2d": (
        lambda m, x, w: m.nn.functional.conv2d(x, w, stride=2, padding=1),
        [(2, 6, 9, 9), (8, 6, 3, 3)],
    ),
    "conv_transpose2d": (
        lambda m, x, w: m.nn.functional.conv_transpose2d(x, w, stride=2),
        [(2, 6, 5, 5), (6, 4, 3, 3)],
    ),
    "attention": (
        lambda m, q, k, v: m.nn.functional.scaled_dot_product_attention(q, k, v),
        [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operations_are_counted_as_pytorch_counts_them(name: str) -> None:
    function, shapes = CASES[name]
    ours = viz.summary(Calls(lambda *xs: function(st, *xs)), *(st.ones(*s) for s in shapes))
    attention = torch.nn.attention  # its fast kernels for the CPU are not counted there
    with (
        flop_counter.FlopCounterMode(display=False) as theirs,
        attention.sdpa_kernel(attention.SDPBackend.MATH),
        torch.no_grad(),
    ):
        function(torch, *(torch.ones(*s) for s in shapes))
    assert ours.total_flops == theirs.get_total_flops()
