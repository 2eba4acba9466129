"""A second device, whose arrays are not NumPy's: ops run there, mixed operands are errors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.autograd.dispatch import devices
from shmtensor.autograd.dispatch.op_function import rule_of


class FarDevice(st.device):
    @property
    def xp(self) -> Any:
        return Module()

    def __str__(self) -> str:
        return "far:0"


class Far:
    """An array in memory that only this class can access."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        result = getattr(ufunc, method)(*near(inputs), **kwargs)
        if out is None:
            return far(result)
        out[0][...] = result
        return out[0]

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    device = FarDevice("cuda", 0)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Far: NumPy cannot read this memory")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return far(getattr(self._values, name))

    def __getitem__(self, index: Any) -> Any:
        return far(self._values[near(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._values[near(index)] = near(value)

    def __neg__(self) -> Any:
        return far(-self._values)


def binary(function: Callable[[Any, Any], Any], reflected: bool) -> Any:
    def method(self: Far, other: Any) -> Any:
        operands = (near(other), near(self)) if reflected else (near(self), near(other))
        return far(function(*operands))

    return method


NAMES = "add sub mul truediv floordiv mod pow matmul lt le gt ge eq ne and or xor"
for name in NAMES.split():
    function = getattr(operator, f"{name}_" if name in ("and", "or") else name)
    setattr(Far, f"__{name}__", binary(function, False))
    setattr(Far, f"__r{name}__", binary(function, True))


def near(value: Any) -> Any:
    if isinstance(value, Far):
        return value._values
    if isinstance(value, (list, tuple)):
        return type(value)(near(v) for v in value)
    return value


def far(value: Any) -> Any:
    """NumPy's arrays and functions, moved to the device."""
    if isinstance(value, (np.ndarray, np.generic)):
        return Far(value)
    if isinstance(value, list):
        return [far(v) for v in value]
    if isinstance(value, tuple) and any(isinstance(v, np.ndarray) for v in value):
        return tuple(far(v) for v in value)
    if isinstance(value, np.ufunc) or (callable(value) and not isinstance(value, type)):
        return lambda *args, **kwargs: far(
            value(*near(args), **{k: near(v) for k, v in kwargs.items()})
        )
    return value


class Module:
    """The device's array module."""

    cuda = SimpleNamespace(Device=nullcontext)

    def __getattr__(self, name: str) -> Any:
        return far(getattr(np, name))


FAR = devices.DeviceType("far", Far, Module(), lambda array: array.device)


@pytest.fixture(autouse=True, scope="module")
def _device() -> Iterator[None]:
    """The device stays registered: no other test makes its arrays."""
    devices.register(FAR)
    cast = rule_of("_to_copy").row  # its forward is native; the device has its own form
    cast.on("far")(lambda xp, x, dtype: x.astype(dtype))
    yield
    del cast.device_forwards["far"]


def on_device(values: Any) -> Any:
    return native.wrap(Far(np.array(values, np.float32)))


A = np.array([[0.5, -1.25, 2.0], [3.0, 0.25, -0.75]], np.float32)
B = np.array([[2.0, 0.5, -1.5], [1.0, 4.0, 0.5]], np.float32)

CASES: list[tuple[str, Callable[..., Any]]] = [
    ("add", lambda x, y: x + y),
    ("sub", lambda x, y: x - y),
    ("mul", lambda x, y: x * y),
    ("div", lambda x, y: x / y),
    ("numbers", lambda x, y: 2 * x + 1 - y / 4),
    ("reflected", lambda x, y: 1 - x),
    ("pow", lambda x, y: x**2),
    ("neg", lambda x, y: -x),
    ("exp", lambda x, y: x.exp()),
    ("log", lambda x, y: st.log(x * x)),
    ("sqrt", lambda x, y: (x * x).sqrt()),
    ("sin", lambda x, y: x.sin()),
    ("cos", lambda x, y: st.cos(y)),
    ("tanh", lambda x, y: x.tanh()),
    ("abs", lambda x, y: x.abs()),
    ("square", lambda x, y: x.square()),
    ("floor", lambda x, y: x.floor()),
    ("ceil", lambda x, y: x.ceil()),
    ("sign", lambda x, y: x.sign()),
    ("maximum", lambda x, y: st.maximum(x, y)),
    ("minimum", lambda x, y: st.minimum(x, y)),
    ("eq", lambda x, y: x == y),
    ("lt", lambda x, y: x < y),
    ("ge", lambda x, y: x >= y),
    ("isnan", lambda x, y: x.isnan()),
    ("sum", lambda x, y: x.sum()),
    ("sum dim", lambda x, y: x.sum(dim=1, keepdim=True)),
    ("mean", lambda x, y: x.mean(0)),
    ("amax", lambda x, y: x.amax(1)),
    ("matmul", lambda x, y: x @ y.permute(1, 0)),
    ("reshape", lambda x, y: x.reshape(3, 2)),
    ("permute", lambda x, y: x.permute(1, 0)),
    ("cat", lambda x, y: st.cat([x, y], 1)),
    ("stack", lambda x, y: st.stack([x, y])),
    ("cast", lambda x, y: x.double()),
    ("mixed dtypes", lambda x, y: x.double() * y),
    ("bool sum", lambda x, y: (x > y).sum()),
]


@pytest.mark.parametrize(("name", "call"), CASES, ids=[name for name, _ in CASES])
def test_ops_run_on_the_device(name: str, call: Callable[..., Any]) -> None:
    result = call(on_device(A), on_device(B)).array
    expected = call(st.from_numpy(A), st.from_numpy(B))
    assert isinstance(result, Far)
    assert near(result).dtype == expected.dtype
    np.testing.assert_allclose(near(result), expected.numpy(), rtol=1e-6)


def test_in_place() -> None:
    x = on_device(A)
    assert x.add_(on_device(B)) is x
    np.testing.assert_array_equal(near(x.array), A + B)
    x.mul_(2)
    np.testing.assert_array_equal(near(x.array), (A + B) * 2)
    assert x._version == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y,
        lambda x, y: y + x,
        lambda x, y: st.matmul(x, y),
        lambda x, y: st.cat([x, y]),
        lambda x, y: x.add_(y),
    ],
)
def test_operands_on_two_devices_are_refused_by_name(call: Callable[..., Any]) -> None:
    message = (
        r"Expected all tensors to be on the same device: one operand is on far:0, \w+ of shape"
    )
    with pytest.raises(RuntimeError, match=message):
        call(on_device(A), st.from_numpy(B))


def test_a_forward_of_the_device() -> None:
    row = rule_of("expm1").row
    row.on("far")(lambda xp, x: Far(np.full(x.shape, 7.0, np.float32)))
    try:
        assert near(on_device(A).expm1().array).tolist() == [[7.0] * 3] * 2
        assert st.ones(1).expm1().item() == pytest.approx(np.e - 1)
    finally:
        del row.device_forwards["far"]


def test_another_device_is_refused() -> None:
    class Other(Far):
        pass

    with pytest.raises(RuntimeError, match="one device can be registered: far, other"):
        devices.register(FAR._replace(name="other", array_class=Other))


GRADIENTS: list[tuple[str, Callable[..., Any]]] = [
    ("mul", lambda x, y: x * y),
    ("exp", lambda x, y: (x * y).exp()),
    ("sum dim", lambda x, y: (x * x).sum(1)),
    ("broadcast", lambda x, y: x * y[0]),
    ("matmul", lambda x, y: x @ y.permute(1, 0)),
    ("reshape", lambda x, y: x.reshape(3, 2) * 2),
    ("cat", lambda x, y: st.cat([x, y * y], 1)),
    ("twice", lambda x, y: x * y + x),
    ("in place", lambda x, y: (x * 1).mul_(y)),
]


@pytest.mark.parametrize(("name", "call"), GRADIENTS, ids=[name for name, _ in GRADIENTS])
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_are_made_on_the_device(
    name: str, call: Callable[..., Any], create_graph: bool
) -> None:
    def gradients(make: Callable[[Any], Any]) -> tuple[Any, ...]:
        x, y = make(A).requires_grad_(), make(B).requires_grad_()
        loss = call(x, y).sum()
        return st.autograd.grad(loss, (x, y), create_graph=create_graph, allow_unused=True)

    for ours, expected in zip(gradients(on_device), gradients(st.from_numpy)):
        if expected is None:
            assert ours is None
            continue
        assert isinstance(ours.array, Far)
        assert (ours.node is None) == (expected.node is None)
        np.testing.assert_allclose(near(ours.array), expected.detach().numpy(), rtol=1e-6)
