"""Tensors that stand for one example each of a batch, inside `vmap`.

A `Batched` shows the shape of one example and keeps all of them in `value`, along its first
dimension. It is no plain class (Note [Plain classes] in autograd/dispatch/torch_function.py), so
every op on it comes to `rules.batched`. There is no array of one example: who asks for one meets a
`Ghost`, which knows shape and dtype, and raises `NoRule` for anything else; `vmap` then runs the
function anew, example by example.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from .. import native
from ..autograd import table
from ..tensor import Tensor

__all__ = ["Batched", "Level", "NoRule", "levels", "lifted", "shared", "spread", "wrapped"]

rules: Any = None  # batching_rules/find_rule.py, which vmap.py enters


class NoRule(BaseException):
    """Something that a batch cannot do at once. No error of the user's: `vmap` catches it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)


class Level:
    """One `vmap` that is running.

    Attributes:
        size: how many examples.
        randomness: what random ops may do: "error", or "any" where examples run one by one.
    """

    __slots__ = ("depth", "randomness", "size")

    def __init__(self, size: int, depth: int, randomness: str) -> None:
        self.size, self.depth, self.randomness = size, depth, randomness


class Levels(threading.local):
    """The vmaps that run in this thread, outermost first."""

    def __init__(self) -> None:
        self.now: list[Level] = []


levels = Levels()


class Ghost:
    """What stands for the array of one example: its shape and dtype, no numbers."""

    __slots__ = ("dtype", "shape")

    flags = SimpleNamespace(c_contiguous=True, f_contiguous=False, writeable=True)
    base = None

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

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

    def refused(self, *args: Any, **named: Any) -> NoReturn:
        raise NoRule("the numbers of one example were asked for")

    def __getattr__(self, name: str) -> NoReturn:
        raise NoRule(f"the numbers of one example were asked for: {name}")

    __array__ = __int__ = __float__ = __index__ = __bool__ = __len__ = __iter__ = refused
    __getitem__ = __complex__ = refused


class Batched(Tensor):
    """One example of a batch.

    Attributes:
        value: all examples, along the first dimension.
        level: the vmap that it belongs to.
    """

    value: Any
    level: Level

    @property
    def array(self) -> Any:
        return Ghost(tuple(self.value.shape[1:]), self.value.dtype)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return rules.batched(func, args, kwargs or {})

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
        return wrapped(self.value.detach(), self.level)

    def clone(self, *, memory_format: Any = None) -> Any:
        return wrapped(self.value.clone(), self.level)

    def contiguous(self, memory_format: Any = None) -> Any:
        return wrapped(self.value.contiguous(), self.level)

    def numpy(self, *, force: bool = False) -> Any:
        raise NoRule("numpy() of one example")

    def backward(self, *args: Any, **named: Any) -> Any:
        raise RuntimeError("backward: not inside vmap: use func.grad or func.vjp")

    def __setitem__(self, index: Any, value: Any) -> None:
        rules.assigned(self, index, value)

    def __repr__(self) -> str:
        return f"Batched(shape={tuple(self.shape)}, of {self.level.size}, value={self.value!r})"


def wrapped(value: Any, level: Level) -> Any:
    """An example of the batch `value`."""
    made: Any = native.TensorBase.__new__(Batched)
    made.value, made.level = value, level
    return made


def shared(value: Any, level: Level) -> Any:
    """One value for all examples, as a batch (a view)."""
    return table.expand(table.unsqueeze(value, 0), (level.size, *tuple(value.shape)))


def lifted(x: Any, level: Level) -> Any:
    """All examples of x, along the first dimension."""
    return x.value if isinstance(x, Batched) and x.level is level else shared(x, level)


def spread(x: Any, stack: list[Level]) -> Any:
    """A plain tensor with a leading dimension for each level, outermost first."""
    for level in reversed(stack):
        x = lifted(x, level)
    if isinstance(x, Batched):
        raise NoRule("an example of a vmap that is not running here")
    return x


def unstack(x: Any, stack: list[Level]) -> Any:
    """The reverse of `spread`."""
    for level in stack:
        x = wrapped(x, level)
    return x
