"""Every row on the device "meta": the shapes, dtypes and strides of the CPU, without computing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from draws import Call, every, families

import shmtensor as st
import shmtensor.nn.functional as F
from shmtensor.ops import ROWS, Row

# Rows whose gradients read values: whether a factor is 0, which elements a mask selects.
REFUSED_GRADIENTS = {"_prod", "cumprod", "_masked_scatter", "_scatter_reduce", "det"}
# Rows that take integers on the CPU, unlike PyTorch's, and then compute in floats.
FLOATS_ONLY = {"_pdist", "_glu", "_native_layer_norm_backward", "_avg_pool", "_avg_pool_backward"}
# LAPACK's results are in column order, here and of `linalg.svd`.
ANY_STRIDES = {"_linalg_ldl_solve"}


def on_meta(value: Any) -> Any:
    """Tensors in `value`, also in lists, without their data."""
    if isinstance(value, st.Tensor):
        return value.detach().to("meta").requires_grad_(value.requires_grad)
    return [on_meta(v) for v in value] if isinstance(value, list) else value


def layout(x: Any, strides: bool = True) -> Any:
    """Shape, dtype and strides, where these have a meaning."""
    steps = [step for n, step in zip(x.shape, x.stride()) if n > 1 and x.numel()]
    return tuple(x.shape), str(x.dtype), steps if strides else None


def computed(call: Call, tensors: Any) -> Any:
    """What a row gives on the CPU; None if it does not take the dtype."""
    try:
        return call.public(*tensors)
    except (TypeError, RuntimeError, ValueError, Warning):
        return None


@pytest.mark.parametrize(**families())
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "complex64"])
def test_rows_have_the_layouts_of_the_cpu(family: list[Row], dtype: str) -> None:
    for call in every(family, dtype):
        name = call.row.name
        expected = computed(call, call.tensors())
        if expected is None or (name in FLOATS_ONLY and dtype in ("int64", "complex64")):
            continue
        if call.row.sized_by_values or (name == "_one_hot" and call.attributes == [-1]):
            with pytest.raises(NotImplementedError, match="meta tensors have no data"):
                call.public(*on_meta(call.tensors()))
            continue
        results = call.public(*on_meta(call.tensors()))
        assert all(x.is_meta for x in results), str(call)
        strides = name not in ANY_STRIDES
        layouts = [layout(x, strides) for x in results]
        assert layouts == [layout(x, strides) for x in expected], str(call)


def test_rows_that_refuse_are_rows() -> None:
    assert ROWS.keys() >= REFUSED_GRADIENTS | FLOATS_ONLY | ANY_STRIDES


def gradients(call: Call, tensors: Any) -> Any:
    """The layouts of a row's gradients; None if it has none."""
    leaves = call.differentiable(tensors)
    outputs = [x for x in call.public(*tensors) if x.requires_grad]
    if not (outputs and leaves):
        return None
    ones = [st.ones_like(x) for x in outputs]
    found = st.autograd.grad(outputs, leaves, ones, allow_unused=True)
    return [None if g is None else layout(g, False) for g in found]


@pytest.mark.parametrize(**families())
def test_gradients_have_the_layouts_of_the_cpu(family: list[Row]) -> None:
    for call in every(family, "float32"):
        if not call.row.pullbacks or computed(call, call.tensors()) is None:
            continue
        expected = gradients(call, call.tensors(True))
        if not call.row.sized_by_values and call.row.name not in REFUSED_GRADIENTS:
            assert gradients(call, on_meta(call.tensors(True))) == expected, str(call)


# Calls whose sizes and attributes are larger than the stand-ins.
LARGE: list[Callable[[Callable[..., Any]], Any]] = [
    lambda x: F.conv2d(x(5, 6, 67, 131), x(8, 3, 5, 7), x(8), 2, 3, 2, 2),
    lambda x: F.conv_transpose2d(x(5, 6, 33, 40), x(6, 4, 5, 3), None, 3, 1, 2),
    lambda x: F.conv1d(x(2, 3, 1001), x(4, 3, 64), stride=16),
    lambda x: F.max_pool2d(x(2, 3, 101, 77), 3, 2, 1, ceil_mode=True),
    lambda x: F.max_pool1d(x(2, 3, 101), 50, 7, return_indices=True),
    lambda x: F.avg_pool2d(x(2, 3, 101, 77), 5, 3, 2),
    lambda x: F.adaptive_avg_pool2d(x(2, 3, 101, 77), (60, 50)),
    lambda x: F.adaptive_max_pool2d(x(2, 3, 101, 77), 60),
    lambda x: F.unfold(x(2, 3, 101, 77), 7, 2, 3),
    lambda x: F.interpolate(x(2, 3, 101, 77), size=(50, 200), mode="bilinear"),
    lambda x: F.pad(x(2, 3, 50, 77), (20, 30, 40, 5), mode="reflect"),
    lambda x: F.glu(x(100, 66)),
    lambda x: F.layer_norm(x(10, 50, 66), (50, 66)),
    lambda x: F.group_norm(x(10, 48, 66), 16),
    lambda x: F.embedding(st.zeros_like(x(40, 50), dtype=st.int64), x(1000, 66)),
    lambda x: F.one_hot(st.zeros_like(x(40, 50), dtype=st.int64), 200),
    lambda x: F.cross_entropy(x(100, 50), st.zeros_like(x(100), dtype=st.int64), reduction="none"),
    lambda x: F.scaled_dot_product_attention(*[x(2, 8, 77, 32)] * 3, is_causal=True),
    lambda x: x(100, 50).topk(40, 0),
    lambda x: x(100, 50).kthvalue(40),
    lambda x: x(100, 50).repeat(2, 3, 40),
    lambda x: x(100, 50).repeat_interleave(30, 1),
    lambda x: x(100, 50)[:, [40, 41, 42]],
    lambda x: x(100, 50, 60)[[1, 99], :, [40, 41]],
    lambda x: x(100, 50, 60)[:, None, [1, 49], ..., 3],
    lambda x: x(100, 50).roll(60, 0),
    lambda x: x(100, 50).tril(40),
    lambda x: x(100).diag(20),
    lambda x: st.cat([x(100, 50), x(30, 50), x(0)], 0),
    lambda x: st.stack([x(100, 50)] * 60, 2),
    lambda x: st.einsum("bij,bkj->bik", x(4, 50, 60), x(4, 70, 60)),
    lambda x: st.tensordot(x(10, 20, 30), x(30, 20, 5), ([1, 2], [1, 0])),
    lambda x: st.linalg.svd(x(50, 30), full_matrices=False),
    lambda x: st.linalg.qr(x(4, 30, 50)),
    lambda x: st.linalg.solve(x(50, 50), x(50, 70)),
    lambda x: st.fft.rfft(x(10, 101)),
    lambda x: st.fft.fft(x(10, 101), 300),
    lambda x: st.cdist(x(100, 50), x(70, 50)),
    lambda x: st.quantile(x(100, 50), st.ones_like(x(3)) / 2, 1),
    lambda x: x(100, 50).histc(70),
    lambda x: x(100, 50).var(0, keepdim=True),
    lambda x: x(100, 50).max(1),
    lambda x: x(100, 50).norm(),
    lambda x: x(100, 50).softmax(1).argmax(1),
    lambda x: x(100, 50).gather(1, st.zeros_like(x(100, 70), dtype=st.int64)),
    lambda x: x(100, 50).index_select(1, st.zeros_like(x(70), dtype=st.int64)),
    lambda x: x(100, 50).to(memory_format=st.contiguous_format).half() * 2,
    lambda x: x(100, 1) * x(50) + x(100, 50).double() ** 2,
    lambda x: st.where(x(100, 50) > 0, x(50), 1.0),
    lambda x: x(100, 50).multinomial(40),
    lambda x: st.nn.utils.rnn.pad_sequence([x(100, 3), x(50, 3)], batch_first=True),
]

# Views and memory formats, whose strides matter, too.
STRIDED: list[Callable[[Callable[..., Any]], Any]] = [
    lambda x: x(100, 50)[10:90:3, -1],
    lambda x: x(100, 50).flip(0)[::7],
    lambda x: x(100, 50).t().reshape(-1, 25),
    lambda x: x(100, 50).unfold(0, 30, 7),
    lambda x: x(100, 50).split(30),
    lambda x: x(100, 50).chunk(7, 1),
    lambda x: x(100, 50).diagonal(20),
    lambda x: x(100, 1, 50).expand(100, 30, 50).permute(2, 0, 1),
    lambda x: x(100, 50).as_strided((20, 30), (3, 7), 5),
    lambda x: x(100, 50).t() * 2 + 1,
    lambda x: x(100, 50).t().clone(),
    lambda x: x(4, 3, 50, 60).to(memory_format=st.channels_last).relu() + 1,
    lambda x: F.conv2d(x(4, 3, 50, 60).to(memory_format=st.channels_last), x(8, 3, 3, 3)),
    lambda x: F.max_pool2d(x(4, 3, 50, 60).to(memory_format=st.channels_last), 2),
]


def layouts(result: Any, strides: bool) -> Any:
    if isinstance(result, (list, tuple)):
        return [layout(x, strides) for x in result]
    return layout(result, strides)


@pytest.mark.parametrize("call", LARGE + STRIDED, ids=range(len(LARGE + STRIDED)))
def test_large_sizes_have_the_layouts_of_the_cpu(call: Callable[..., Any]) -> None:
    st.manual_seed(0)
    expected = call(lambda *shape: st.rand(shape))
    result = call(lambda *shape: st.empty(shape, device="meta"))
    assert layouts(result, call in STRIDED) == layouts(expected, call in STRIDED)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x(100, 50) @ x(40, 30),
        lambda x: x(100, 50) + x(40),
        lambda x: x(100, 50).view(7, 9),
        lambda x: x(100, 50).t().view(-1),
        lambda x: x(100, 50).topk(60),
        lambda x: x(100, 50)[:, 70],
        lambda x: x(100, 50).sum(2),
        lambda x: st.cat([x(100, 50), x(100, 60)]),
        lambda x: st.stack([x(100, 50), x(100, 60)]),
        lambda x: F.conv2d(x(2, 3, 8, 8), x(4, 5, 3, 3)),
        lambda x: F.conv2d(x(2, 3, 8, 8), x(4, 3, 9, 9)),
        lambda x: F.linear(x(2, 3), x(4, 5)),
        lambda x: F.cross_entropy(x(10, 5), st.zeros_like(x(11), dtype=st.int64)),
        lambda x: x(100, 50).gather(2, st.zeros_like(x(100, 50), dtype=st.int64)),
        lambda x: x(100, 50).add_(x(3, 100, 50)),
        lambda x: x(100, 50).expand(40, 50),
        lambda x: x(100, 50).copy_(x(40, 50)),
        lambda x: x(100, 50).__setitem__(0, x(40)),
    ],
)
def test_wrong_shapes_are_the_cpus_errors(call: Callable[..., Any]) -> None:
    with pytest.raises(Exception) as expected:
        call(lambda *shape: st.rand(shape))
    with pytest.raises(type(expected.value)):
        call(lambda *shape: st.empty(shape, device="meta"))


def test_nothing_is_allocated() -> None:
    st.empty(1, device="meta")
    before = st.memory.statistics().committed_bytes
    x = st.empty(10**6, 10**6, device="meta")
    y = ((x + 1).T @ x.relu()).softmax(0)[:, ::2].contiguous()
    assert y.shape == (10**6, 10**6 // 2)
    assert y.nbytes == 2 * 10**12
    assert math.isqrt(x.numel()) == 10**6
    assert st.memory.statistics().committed_bytes == before
