"""Subclasses: results keep the class, and __torch_function__ sees every op."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


class Marked(st.Tensor):
    pass


class Logged(st.Tensor):
    calls: list[str]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


def test_results_keep_the_class() -> None:
    x, y = Marked(st.ones(2, 3)), st.ones(3)
    for result in (
        x + y, y + x, 2 * x, -x, st.add(y, x), x.sum(0), x[0], x.T, st.cat([y, x[0]]),
        x.reshape(6), x.double(), x.clone(), x.detach(), x.max(0).values,
        st.addmm(x, x, st.ones(3, 3)),
        x.add_(1),
    ):  # fmt: skip
        assert type(result) is Marked
    assert repr(Marked(st.ones(2))) == "Marked([1., 1.])"


def test_gradients_go_through() -> None:
    x = Marked(st.arange(3.0)).requires_grad_()
    y = (x * x).sum()
    assert type(y) is Marked
    y.backward()
    assert x.grad.tolist() == [0, 2, 4]
    z = x * 1
    view = z[0]
    view.mul_(5)
    assert view._base is z
    (g,) = st.autograd.grad(z.sum(), x)
    assert g.tolist() == [5, 1, 1]


def test_torch_function_sees_every_op() -> None:
    Logged.calls = []
    x = Logged(st.ones(3))
    result = (x * 2).sum() + 1
    assert Logged.calls == ["mul", "sum", "add"]
    assert type(result) is Logged
    Logged.calls.clear()
    x.mul_(2)
    assert Logged.calls == ["mul_"]


def test_a_class_may_override_ops() -> None:
    class Duck:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented if func.__name__ == "mul" else ("duck", func.__name__, len(args))

    assert st.add(st.ones(2), Duck()) == ("duck", "add", 2)
    assert st.cat([st.ones(2), Duck()]) == ("duck", "cat", 2)
    with pytest.raises(TypeError, match="no implementation found"):
        st.mul(st.ones(2), Duck())


def test_as_subclass() -> None:
    x = st.arange(3.0, requires_grad=True)
    y = x.as_subclass(Marked)
    assert type(y) is Marked
    (y * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert np.shares_memory(y.detach().numpy(), x.detach().numpy())
    assert type(Marked._make_subclass(Marked, st.ones(2), True)) is Marked


def test_parameters_give_plain_tensors() -> None:
    assert type(nn.Parameter(st.ones(2)) * 2) is st.Tensor
    assert type(nn.Buffer(st.ones(2)) * 2) is st.Tensor


def test_copies_and_pickles_keep_the_class() -> None:
    x = Marked(st.ones(2))
    x.label = "a"
    for result in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(result) is Marked
        assert result.tolist() == [1, 1]
    assert copy.deepcopy(x).label == pickle.loads(pickle.dumps(x)).label == "a"


def test_functions_of_others_are_refused_at_once() -> None:
    def stranger(*args: Any) -> Any:  # asks its operands first, as PyTorch's functions do
        result = type(args[0]).__torch_function__(stranger, (type(args[0]),), args)
        if result is NotImplemented:
            raise TypeError("no implementation found")
        return result

    for x in (st.ones(2), st.ones(2).as_subclass(Marked)):
        with pytest.raises(TypeError, match="no implementation found"):
            stranger(x)
    assert st.ones(2).__torch_function__(stranger, (int,), (1,)) is NotImplemented


def test_named_results_carry_the_functions_name() -> None:
    printed = repr(st.max(st.tensor([[1.0, 2.0]]), 0))
    text = "return_types.max(\nvalues=tensor([1., 2.]),\nindices=tensor([0, 0]))"
    assert printed == f"shmtensor.{text}"


class Taker:
    """No tensor, but it takes ops over."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func.__name__, len(args), kwargs


def test_objects_that_are_not_tensors_override_rows_and_composites() -> None:
    x: Any = Taker()
    assert st.exp(x) == ("exp", 1, {})
    for name in ("std", "unique", "median", "flatten", "nonzero", "clamp", "max"):
        assert getattr(st, name)(x)[0] == name
    assert st.nonzero(x, as_tuple=True)[2] == {"as_tuple": True}
    assert st.stack([st.ones(1), x], 1)[:2] == ("stack", 2)
    assert st.where(x, 1, 2) == ("where", 3, {})
    assert st.nn.functional.cross_entropy(x, st.ones(1))[0] == "cross_entropy"
    assert st.nn.Parameter(st.tensor([2.0, 1.0])).median().item() == 1
