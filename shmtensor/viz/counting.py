"""What the ops of a block compute and allocate, found without their knowledge.

Counted are the products that every layer comes down to: linear layers, attention and recurrent
layers run `linear`, `matmul`, `bmm` and, where all steps are one op, `_rnn_layer`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import native
from ..autograd.dispatch import observers

__all__ = ["Watch", "tensors_in"]


def size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def of_product(operands: tuple[Any, ...], out: Any) -> int:
    return size(out.shape) * int(operands[0].shape[-1])


def of_convolution(operands: tuple[Any, ...], out: Any) -> int:
    return size(out.shape) * size(operands[1].shape[1:])


def of_transposed_convolution(operands: tuple[Any, ...], out: Any) -> int:
    return size(operands[0].shape) * size(operands[1].shape[1:])


def of_recurrent_layer(operands: tuple[Any, ...], out: Any) -> int:
    """Each row of the packed input times the state's weight, and the projection if there is one;
    the input's own weight is a `linear` before.
    """
    x, _, *rest = operands[0]
    return int(x.shape[0]) * sum(size(w.shape) for w in (rest[0], *rest[2:]))


# The multiply-adds of an op, by its operands and its result.
MULTIPLY_ADDS: dict[str, Callable[[tuple[Any, ...], Any], int]] = {
    "bmm": of_product,
    "_vdot": of_product,
    "_convolution": of_convolution,
    "dot": of_product,
    "linear": of_product,
    "matmul": of_product,
    "_rnn_layer": of_recurrent_layer,
    "_conv_transpose": of_transposed_convolution,
}


class Call(NamedTuple):
    """An op that has not returned; its operands as it was called with them."""

    multiply_adds: Callable[[tuple[Any, ...], Any], int] | None
    operands: tuple[Any, ...]


class Watch:
    """In a `with`, `tell(multiply_adds, nbytes)` is called for each op of this thread that counts.

    `nbytes` are those of results in memory of their own, of ops that are not part of another op.
    """

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self.tell = tell
        self.thread = threading.get_ident()
        self.calls: list[Call] = []

    def __enter__(self) -> Watch:
        observers.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        observers.remove(self)

    def enter(self, event: str, operands: tuple[Any, ...]) -> None:
        """An op is called."""
        if threading.get_ident() == self.thread:
            self.calls.append(Call(MULTIPLY_ADDS.get(event), operands))

    def leave(self, result: Any) -> None:
        """It has returned."""
        if threading.get_ident() != self.thread:
            return
        call = self.calls.pop()
        if result is None:  # it raised
            return
        is_part = any(outer.multiply_adds is not None for outer in self.calls)
        count = 0
        if call.multiply_adds is not None and not is_part:
            count = call.multiply_adds(call.operands, result)
        self.tell(count, 0 if self.calls else new_bytes(result, call.operands))


def new_bytes(result: Any, operands: tuple[Any, ...]) -> int:
    """The bytes of results that are no views of operands."""
    inputs = [x.array for x in tensors_in(operands)]
    return sum(
        out.array.nbytes
        for out in tensors_in(result)
        if not any(np.may_share_memory(out.array, x) for x in inputs)
    )


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in nested lists, tuples and dictionaries, in order."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, native.TensorBase):
            yield item
        elif isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        elif isinstance(item, Mapping):
            stack.extend(reversed(list(item.values())))
