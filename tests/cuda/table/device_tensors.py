"""Calls of ops on CUDA Tensors beside the same calls on the CPU: results and gradients."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import shmtensor as st

OPS = str(Path(__file__).resolve().parents[2] / "ops")
if OPS not in sys.path:  # with --import-mode=importlib the cases are not in the path
    sys.path.append(OPS)


def as_float32(value: Any) -> Any:
    """Arrays of 64-bit floats, also in lists, in single precision: the kernels of one dtype."""
    if isinstance(value, np.ndarray):
        narrow = {"f": np.float32, "c": np.complex64}.get(value.dtype.kind)
        return value if narrow is None else value.astype(narrow)
    if isinstance(value, (list, tuple)):
        return type(value)(as_float32(v) for v in value)
    return value


def on(device: str, value: Any, requires_grad: bool = False) -> Any:
    """Arrays in a value, also in lists, as Tensors on a device; those of floats require grad."""
    if isinstance(value, (np.ndarray, np.generic)):
        x = st.tensor(value).to(device)
        return x.requires_grad_(requires_grad and value.dtype.kind in "fc")
    if isinstance(value, (list, tuple)):
        return type(value)(on(device, v, requires_grad) for v in value)
    return value


def tensors_in(value: Any) -> Iterator[Any]:
    """The Tensors in a value, also in lists."""
    if isinstance(value, st.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors_in(v)


def compare(ours: Any, expected: Any, what: str, close: float = 2e-5, where: str = "cuda") -> None:
    """Checks a result on a device: values, dtype, shape, device; numbers and lists, too."""
    if isinstance(expected, (list, tuple)):
        assert len(ours) == len(expected), what
        for x, y in zip(ours, expected, strict=True):
            compare(x, y, what, close, where)
        return
    if not isinstance(expected, st.Tensor):
        assert type(ours) is type(expected), what
        assert ours == expected or ours is expected or ours != ours, what
        return
    assert isinstance(ours, st.Tensor), what
    assert ours.device.type == where, what
    assert tuple(ours.shape) == tuple(expected.shape), what
    assert ours.dtype == expected.dtype, what
    assert ours.requires_grad == expected.requires_grad, what
    x, y = (v.detach().cpu().numpy() for v in (ours, expected))
    if y.dtype.kind in "fc":
        np.testing.assert_allclose(x, y, close, close, err_msg=what)
    else:
        np.testing.assert_array_equal(x, y, err_msg=what)


def upstream(outputs: list[Any], seed: str) -> list[Any]:
    """Random gradients for outputs, as arrays, the same for the same seed."""
    random = np.random.default_rng(zlib.crc32(seed.encode()))
    gradients = []
    for out in outputs:
        g = random.standard_normal(tuple(out.shape))
        if out.dtype.kind == "c":
            g = g + 1j * random.standard_normal(tuple(out.shape))
        gradients.append(np.asarray(g).astype(out.dtype))
    return gradients


def gradients(call: Callable[..., Any], operands: Any, device: str, orders: int) -> list[Any]:
    """Gradients by all leaves, of each order, with random upstream gradients."""
    leaves = [x for x in tensors_in(operands) if x.requires_grad]
    outputs = [x for x in tensors_in(call(*operands)) if x.requires_grad]
    results: list[Any] = []
    for order in range(orders):
        if not (leaves and outputs):
            break
        found = st.autograd.grad(
            outputs,
            leaves,
            on(device, upstream(outputs, str(order))),
            create_graph=order + 1 < orders,
            allow_unused=True,
        )
        results += found
        outputs = [x for x in found if x is not None and x.requires_grad]
    return results


def compare_calls(
    call: Callable[..., Any], operands: Any, what: str, orders: int = 1, close: float = 1e-4
) -> None:
    """Compares a call on CUDA with the call on the CPU: results, and gradients of some orders."""
    with np.errstate(all="ignore"):
        expected = call(*on("cpu", operands, orders > 0))
        compare(call(*on("cuda", operands, orders > 0)), expected, what, close)
        if not orders:
            return
        slopes = gradients(call, on("cpu", operands, True), "cpu", orders)
        ours = gradients(call, on("cuda", operands, True), "cuda", orders)
    assert len(ours) == len(slopes), what
    for i, (x, y) in enumerate(zip(ours, slopes, strict=True)):
        assert (x is None) == (y is None), f"{what}: gradient {i}"
        if y is not None:
            compare(x.detach(), y.detach(), f"{what}: gradient {i}", close)


def cases_of_composites() -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of composites by name."""
    from test_composites import CASES

    return {name: (args, kwargs) for name, (args, kwargs, _) in CASES.items()}


def cases_of_functions() -> list[str]:
    """The names of differentiable functions that have a case."""
    from gradient_cases import SLOPES

    return sorted(SLOPES)
