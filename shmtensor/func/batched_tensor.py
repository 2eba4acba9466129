"""Tensors that represent one example of a batch, inside `vmap`.

A `Batched` has the shape of one example and holds all of them in `value`, along its first
dimension. It is not a plain class (Note [Plain classes] in autograd/dispatch/torch_function.py), so
every op on it calls `rules.call_batched`. It has no array of one example but a `MetaArray`, which
knows shape and dtype, and raises `NoBatchingRule` for anything else; `vmap` then runs the function
again, example by example.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from .. import native
from ..autograd import table
from ..tensor import Tensor

rules: Any = None  # batching_rules/find_rule.py, set by vmap.py


class NoBatchingRule(BaseException):
    """A batch cannot do this at once. It is not an error of the user: `vmap` catches it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Level:
    """One running `vmap`.

    Attributes:
        size: the number of examples.
        randomness: "error" if random ops raise, or "any" if examples run one by one.
    """

    __slots__ = ("depth", "randomness", "size")

    def __init__(self, size: int, depth: int, randomness: str) -> None:
        self.size, self.depth, self.randomness = size, depth, randomness


class Levels(threading.local):
    """The running vmaps of this thread, outermost first."""

    def __init__(self) -> None:
        self.active: list[Level] = []


levels = Levels()


class MetaArray:
    """In place of the array of one example: its shape, dtype and device, without data.

    Attributes:
        device: as of an array: "cpu", or CuPy's device.
    """

    __slots__ = ("device", "dtype", "shape")

    flags = SimpleNamespace(c_contiguous=True, f_contiguous=False, writeable=True)
    base = None

    def __init__(self, shape: tuple[int, ...], dtype: Any, device: Any) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        steps = [self.itemsize]
        for n in self.shape[:0:-1]:
            steps.append(steps[-1] * n)
        return tuple(steps[::-1][: self.ndim])

    def refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NoBatchingRule("the data of one example is needed")

    def __getattr__(self, name: str) -> NoReturn:
        raise NoBatchingRule(f"the data of one example is needed: {name}")

    __array__ = __int__ = __float__ = __index__ = __bool__ = __len__ = __iter__ = refuse
    __getitem__ = __complex__ = refuse


class Batched(Tensor):
    """One example of a batch.

    Attributes:
        value: all examples, along the first dimension.
        level: its vmap.
    """

    value: Any
    level: Level

    @property
    def array(self) -> Any:
        array = self.value.array
        return MetaArray(tuple(array.shape[1:]), array.dtype, array.device)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return rules.call_batched(func, args, kwargs or {})

    @property
    def requires_grad(self) -> bool:
        return bool(self.value.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        self.value.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        return bool(self.value.is_leaf)

    @property
    def grad_fn(self) -> Any:
        return self.value.grad_fn

    def detach(self) -> Any:
        return add_batch_dim(self.value.detach(), self.level)

    def clone(self, *, memory_format: Any = None) -> Any:
        return add_batch_dim(self.value.clone(), self.level)

    def contiguous(self, memory_format: Any = None) -> Any:
        return add_batch_dim(self.value.contiguous(), self.level)

    def numpy(self, *, force: bool = False) -> Any:
        raise NoBatchingRule("numpy() of one example")

    def backward(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("backward: not inside vmap: use func.grad or func.vjp")

    def __setitem__(self, index: Any, value: Any) -> None:
        rules.setitem(self, index, value)

    def __repr__(self) -> str:
        return f"Batched(shape={tuple(self.shape)}, of {self.level.size}, value={self.value!r})"


def add_batch_dim(value: Any, level: Level) -> Any:
    """The tensor of one example of the batch `value`."""
    tensor: Any = native.TensorBase.__new__(Batched)
    tensor.value, tensor.level = value, level
    return tensor


def expand_to_batch(value: Any, level: Level) -> Any:
    """One value for all examples, as a batch (a view)."""
    return table.expand(table.unsqueeze(value, 0), (level.size, *tuple(value.shape)))


def all_examples(x: Any, level: Level) -> Any:
    """All examples of x, along the first dimension."""
    return x.value if isinstance(x, Batched) and x.level is level else expand_to_batch(x, level)


def unwrap_levels(x: Any, active_levels: list[Level]) -> Any:
    """A plain tensor with a leading dimension for each level, outermost first."""
    for level in reversed(active_levels):
        x = all_examples(x, level)
    if isinstance(x, Batched):
        raise NoBatchingRule("an example of a vmap that does not run here")
    return x


def wrap_levels(x: Any, active_levels: list[Level]) -> Any:
    """The inverse of `unwrap_levels`."""
    for level in active_levels:
        x = add_batch_dim(x, level)
    return x
