"""Means of windows on a GPU, beside the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F
from tests.cuda.nn.comparison import compare, near

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 11), {"kernel_size": 2}),
    ((2, 3, 11), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ((2, 3, 8, 9), {"kernel_size": 2}),
    ((3, 8, 9), {"kernel_size": (3, 2), "stride": (2, 3), "padding": 1}),
    ((2, 3, 8, 9), {"kernel_size": 3, "padding": 1, "stride": 2, "count_include_pad": False}),
    ((2, 3, 8, 9), {"kernel_size": 3, "padding": 1, "stride": 2, "ceil_mode": True}),
    ((2, 3, 8, 9), {"kernel_size": 4, "stride": 3, "ceil_mode": True, "count_include_pad": False}),
    ((2, 3, 8, 9), {"kernel_size": 3, "padding": 1, "divisor_override": 7}),
    ((2, 3, 8, 9), {"kernel_size": 3, "padding": 1, "divisor_override": -2}),
    ((2, 3, 4, 5, 6), {"kernel_size": 2, "padding": 1, "count_include_pad": False}),
    ((0, 3, 8, 9), {"kernel_size": 3}),
]


def numbers(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize(("shape", "options"), CASES, ids=str)
def test_values_and_gradients(
    cp: Any, shape: tuple[int, ...], options: dict[str, Any], dtype: str
) -> None:
    n = max(1, len(shape) - 2)
    n = len(options["kernel_size"]) if isinstance(options["kernel_size"], tuple) else n
    pool = getattr(F, f"avg_pool{n}d")

    def run(device: str) -> list[Any]:
        x = st.tensor(numbers(*shape, dtype=dtype)).to(device).requires_grad_()
        out = pool(x, **options)
        (out * out).sum().backward()
        return [out, x.grad]

    compare(run, {"float32": 1e-5, "float16": 1e-2, "float64": 1e-12}[dtype])


@pytest.mark.parametrize("dtype", [st.int64, st.bfloat16], ids=str)
def test_other_dtypes(cp: Any, dtype: Any) -> None:
    x = st.tensor(numbers(2, 3, 8, 9) * 50).to(dtype)
    try:
        expected = F.avg_pool2d(x, 3, padding=1)
    except RuntimeError as error:
        with pytest.raises(type(error)):
            F.avg_pool2d(x.cuda(), 3, padding=1)
        return
    near(F.avg_pool2d(x.cuda(), 3, padding=1), expected, 1e-2)


@pytest.mark.parametrize("layout", ["channels_last", "strided", "expanded"])
def test_layouts(cp: Any, layout: str) -> None:
    def run(device: str) -> list[Any]:
        x = st.tensor(numbers(2, 3, 8, 10)).to(device)
        if layout == "channels_last":
            x = x.contiguous(memory_format=st.channels_last)
        x = {"strided": x[..., ::2], "expanded": x[:1].expand(4, 3, 8, 10)}.get(layout, x)
        return [F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, 1)]

    compare(run)


def test_gradients_of_gradients_and_vmap(cp: Any) -> None:
    def run(device: str) -> list[Any]:
        x = st.tensor(numbers(2, 3, 6, 6, dtype="float64")).to(device).requires_grad_()
        out = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        (g,) = st.autograd.grad((out**3).sum(), x, create_graph=True)
        (gg,) = st.autograd.grad((g * g).sum(), x)
        batched = st.func.vmap(lambda v: F.avg_pool2d(v, 2, 1, 1))(x.detach())
        return [g, gg, batched]

    compare(run, 1e-10)


def test_the_second_device(two_devices: Any) -> None:
    x = st.tensor(numbers(2, 3, 8, 8))
    out = F.avg_pool2d(x.to("cuda:1"), 3, 2, 1)
    assert str(out.device) == "cuda:1"
    near(out, F.avg_pool2d(x, 3, 2, 1), 1e-5)


def test_sizes_that_do_not_fit_are_refused(cp: Any) -> None:
    x = st.ones(2, 3, 8, 8).cuda()
    for options in ({"divisor_override": 0}, {"padding": 3}, {"stride": 0}):
        with pytest.raises(RuntimeError, match="avg_pool2d"):
            F.avg_pool2d(x, 3, **options)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("shape", [(2, 3, 7, 5), (3, 7, 5), (0, 3, 4, 4), (2, 3, 1, 1)], ids=str)
def test_adaptive_means(cp: Any, shape: tuple[int, ...], dtype: str) -> None:
    def run(device: str) -> list[Any]:
        x = st.tensor(numbers(*shape, dtype=dtype)).to(device).requires_grad_()
        results = []
        for size in (1, (1, 1), (None, 1), (2, 3)):
            out = F.adaptive_avg_pool2d(x, size)
            out.data_ptr()
            (out * out).sum().backward()
            results.append(out)
        return [*results, x.grad]

    compare(run, 1e-2 if dtype == "float16" else 1e-5)


def test_a_mean_of_one_element_is_a_copy(cp: Any) -> None:
    x = st.tensor(numbers(2, 3, 1, 1)).cuda()
    out = F.adaptive_avg_pool2d(x, 1)
    x.zero_()
    assert out.abs().sum().item() > 0
