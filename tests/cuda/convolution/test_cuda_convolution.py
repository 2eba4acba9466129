"""Convolutions by cuDNN: the CPU's values, and gradients of two orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F
from tests.cuda.convolution.fixtures import dtypes_of


class Case(NamedTuple):
    """A convolution, or a transposed one if `extra`, its output padding, is not None."""

    image: tuple[int, ...]
    filters: tuple[int, ...]
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: int = 1
    extra: Any = None

    @property
    def rank(self) -> int:
        return len(self.image) - 2

    @property
    def channels(self) -> int:
        """Of the result."""
        return self.filters[0] if self.extra is None else self.filters[1] * self.groups

    def __call__(self, x: Any, weight: Any, bias: Any = None) -> Any:
        if self.extra is None:
            call: Callable[..., Any] = getattr(F, f"conv{self.rank}d")
            return call(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        call = getattr(F, f"conv_transpose{self.rank}d")
        options = self.stride, self.padding, self.extra, self.groups, self.dilation
        return call(x, weight, bias, *options)


CASES = {
    "1d": Case((2, 3, 9), (4, 3, 3)),
    "1d, all": Case((3, 4, 11), (6, 2, 3), 2, 2, 2, 2),
    "1d, same": Case((2, 3, 8), (4, 3, 3), padding="same"),
    "1d, same, even": Case((2, 3, 8), (4, 3, 4), padding="same"),
    "2d": Case((2, 3, 7, 6), (4, 3, 3, 3)),
    "2d, 1x1": Case((2, 4, 5, 5), (6, 4, 1, 1)),
    "2d, stride": Case((2, 3, 8, 7), (4, 3, 3, 2), (2, 3)),
    "2d, padding": Case((1, 3, 5, 4), (4, 3, 3, 3), 1, (1, 2)),
    "2d, dilation": Case((2, 2, 9, 9), (3, 2, 3, 2), 1, 1, (2, 3)),
    "2d, groups": Case((2, 4, 6, 6), (6, 2, 3, 3), 1, 1, 1, 2),
    "2d, depthwise": Case((2, 4, 6, 6), (4, 1, 3, 3), 1, 1, 1, 4),
    "2d, all": Case((2, 4, 9, 8), (6, 2, 3, 2), (2, 1), (2, 1), (2, 1), 2),
    "2d, elements that no window reaches": Case((2, 2, 8, 8), (3, 2, 3, 3), 3),
    "2d, same": Case((1, 2, 6, 5), (3, 2, 4, 3), padding="same", dilation=2),
    "3d": Case((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), (1, 2, 1), (1, 1, 0)),
    "3d, groups": Case((2, 4, 3, 4, 4), (4, 2, 2, 2, 2), 1, 0, 1, 2),
    "transposed 1d": Case((2, 4, 5), (4, 3, 3), 2, 1, 1, 1, 1),
    "transposed 2d": Case((2, 4, 4, 3), (4, 3, 3, 2), (2, 1), (1, 0), 1, 1, 0),
    "transposed 2d, all": Case((2, 4, 4, 3), (4, 2, 3, 2), (3, 2), (1, 1), (1, 2), 2, (2, 1)),
    "transposed 2d, dilation": Case((1, 2, 4, 4), (2, 3, 2, 2), 1, 0, 3, 1, 2),
    "transposed 3d": Case((1, 2, 3, 3, 2), (2, 2, 2, 2, 2), 2, 1, 1, 1, 1),
}
TOLERANCES = {"float32": 2e-4, "float64": 1e-9, "float16": 2e-2}


def arrays_of(case: Case, dtype: str) -> list[Any]:
    random = np.random.default_rng(3)
    shapes = case.image, case.filters, (case.channels,)
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]


def seen(case: Case, arrays: list[Any], device: str, order: int) -> list[Any]:
    """The result, its gradients, and their gradients, on a device."""
    x, weight, bias = (st.tensor(a, device=device).requires_grad_() for a in arrays)
    out = case(x, weight, bias)
    results = [out]
    if order:
        grads = st.autograd.grad(out.square().sum(), (x, weight, bias), create_graph=order > 1)
        results += grads
    if order > 1:
        total = grads[0].square().sum() + grads[1].square().sum()
        results += st.autograd.grad(total, (x, weight))
    return [r.detach().cpu().numpy() for r in results]


def assert_near(results: list[Any], expected: list[Any], tolerance: float) -> None:
    for a, b in zip(results, expected, strict=True):
        assert a.dtype == b.dtype
        scale = max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a / scale, b / scale, 0, tolerance)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_of_two_orders(cudnn: Any, plans: list[Any], name: str) -> None:
    case = CASES[name]
    arrays = arrays_of(case, "float32")
    expected = seen(case, arrays, "cpu", 2)
    assert_near(seen(case, arrays, "cuda", 2), expected, TOLERANCES["float32"])
    used = len(plans)
    # An image of more windows than the result has is not cuDNN's.
    assert used >= (5 if name != "transposed 2d, dilation" else 1)
    with st.backends.cudnn.flags(enabled=False):
        assert_near(seen(case, arrays, "cuda", 2), expected, TOLERANCES["float32"])
    assert len(plans) == used


@pytest.mark.parametrize("name", ["1d, all", "2d, all", "transposed 2d, all"])
def test_bfloat16(cudnn: Any, plans: list[Any], name: str) -> None:
    case = CASES[name]
    arrays = [st.tensor(a).to(st.bfloat16) for a in arrays_of(case, "float32")]
    results = {}
    for device, enabled in (("cpu", True), ("cuda", True), ("cuda", False)):
        x, weight, bias = (a.to(device).requires_grad_() for a in arrays)
        with st.backends.cudnn.flags(enabled=enabled, allow_tf32=False):
            out = case(x, weight, bias)
            grads = st.autograd.grad(out.float().sum(), (x, weight, bias))
        assert out.dtype == grads[0].dtype == grads[1].dtype == st.bfloat16
        results[device, enabled] = [v.detach().cpu().float().numpy() for v in (out, *grads)]
    assert len(plans) == 3
    assert dtypes_of(plans) == {"BFLOAT16"}
    for enabled in (True, False):
        assert_near(results["cuda", enabled], results["cpu", True], 2e-2)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("name", ["1d, all", "2d, all", "3d, groups", "transposed 2d, all"])
def test_other_dtypes(cudnn: Any, plans: list[Any], name: str, dtype: str) -> None:
    case = CASES[name]
    arrays = arrays_of(case, dtype)
    order = 2 if dtype == "float64" else 1
    expected = seen(case, arrays, "cpu", order)
    assert_near(seen(case, arrays, "cuda", order), expected, TOLERANCES[dtype])
    assert plans or dtype == "float64"
    with st.backends.cudnn.flags(enabled=False):
        assert_near(seen(case, arrays, "cuda", order), expected, TOLERANCES[dtype])


def test_sums_of_float16_are_float32_s(cudnn: Any, plans: list[Any]) -> None:
    x = st.full((1, 4096, 1, 1), 1.0, dtype=st.float16, device="cuda")
    weight = st.full((1, 4096, 1, 1), 0.75, dtype=st.float16, device="cuda")
    assert F.conv2d(x, weight).item() == 3072  # in float16 the sum stops at 2048 times 0.75
    for enabled in (True, False):
        with st.backends.cudnn.flags(enabled=enabled):
            assert F.conv2d(x, weight + 0.25, groups=1).item() == 4096


@pytest.mark.parametrize("case", [CASES["1d"], CASES["2d"], CASES["transposed 2d"]])
def test_empty_batch(cudnn: Any, plans: list[Any], case: Case) -> None:
    case = case._replace(image=(0, *case.image[1:]))
    arrays = arrays_of(case, "float32")
    assert_near(seen(case, arrays, "cuda", 1), seen(case, arrays, "cpu", 1), 1e-6)
    assert not plans


def test_unbatched_image_and_one_without_bias(cudnn: Any, plans: list[Any]) -> None:
    x, weight = st.randn(3, 7, 6), st.randn(4, 3, 3, 3)
    out = F.conv2d(x.cuda(), weight.cuda())
    assert out.shape == (4, 5, 4)
    np.testing.assert_allclose(out.cpu(), F.conv2d(x, weight), 1e-4, 1e-4)
    assert len(plans) == 1


VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.transpose(2, 3),
    "every second element": lambda x: x[..., ::2],
    "flipped": lambda x: x.flip(2),
    "expanded": lambda x: x[:1].expand(3, *x.shape[1:]),
    "not aligned": lambda x: x.reshape(-1)[1 : 1 + 2 * 3 * 8 * 4].reshape(2, 3, 8, 4),
}


@pytest.mark.parametrize("name", VIEWS)
def test_images_that_are_views(cudnn: Any, plans: list[Any], name: str) -> None:
    x, weight = st.randn(2, 3, 8, 8), st.randn(4, 3, 3, 3)
    out = F.conv2d(VIEWS[name](x.cuda()), weight.cuda())
    np.testing.assert_allclose(out.cpu(), F.conv2d(VIEWS[name](x), weight), 1e-4, 1e-4)
    assert len(plans) == 1


@pytest.mark.parametrize("rank", [2, 3])
def test_channels_last(cudnn: Any, plans: list[Any], rank: int) -> None:
    last = st.channels_last if rank == 2 else st.channels_last_3d
    case = Case((2, 4, *(5, 6, 4)[:rank]), (6, 2, *(3,) * rank), 1, 1, 1, 2)
    expected = seen(case, arrays := arrays_of(case, "float32"), "cpu", 1)
    for image_last, filters_last in ((True, False), (False, True), (True, True)):
        x, weight, bias = (st.tensor(a, device="cuda") for a in arrays)
        x = x.contiguous(memory_format=last) if image_last else x
        weight = weight.contiguous(memory_format=last) if filters_last else weight
        operands = [v.requires_grad_() for v in (x, weight, bias)]
        out = case(*operands)
        assert out.is_contiguous(memory_format=last)
        assert not out.is_contiguous()
        grads = st.autograd.grad(out.square().sum(), operands)
        results = [v.detach().cpu().numpy() for v in (out, *grads)]
        assert_near(results, expected, TOLERANCES["float32"])
    assert len(plans) == 9


def test_other_dtypes_run_without_cudnn(cudnn: Any, plans: list[Any]) -> None:
    x, weight = np.arange(24).reshape(1, 2, 3, 4), np.arange(8).reshape(1, 2, 2, 2)
    for dtype in (st.int64, st.complex64):
        near = [st.tensor(a).to(dtype) for a in (x, weight)]
        far = [v.cuda() for v in near]
        np.testing.assert_allclose(F.conv2d(*far).cpu(), F.conv2d(*near))
    assert not plans
