"""Counts what the ops of a block compute and allocate, with an observer.

It counts the products that layers consist of: linear layers, attention and recurrent layers call
`linear`, `matmul`, `bmm`, `_attention` and, if all steps are one op, `_rnn_layer`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import native
from ..autograd.dispatch import observers


def size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def count_matmul(operands: tuple[Any, ...], out: Any) -> int:
    return size(out.shape) * int(operands[0].shape[-1])


def count_convolution(operands: tuple[Any, ...], out: Any) -> int:
    return size(out.shape) * size(operands[1].shape[1:])


def count_transposed_convolution(operands: tuple[Any, ...], out: Any) -> int:
    return size(operands[0].shape) * size(operands[1].shape[1:])


def count_attention(operands: tuple[Any, ...], out: Any) -> int:
    """Scores and results; with is_causal all of them, as in PyTorch."""
    query, key, value = operands[0][:3]
    return size(query.shape[:-1]) * int(key.shape[-2]) * int(query.shape[-1] + value.shape[-1])


def count_recurrent_layer(operands: tuple[Any, ...], out: Any) -> int:
    """Each row of the packed input times the hidden weight, and the projection if there is one. The
    product with the input weight is a `linear` of its own.
    """
    x, _, *weights = operands[0]
    return int(x.shape[0]) * sum(size(w.shape) for w in (weights[0], *weights[2:]))


# The number of multiply-adds of an op, from its operands and its result.
MULTIPLY_ADDS: dict[str, Callable[[tuple[Any, ...], Any], int]] = {
    "bmm": count_matmul,
    "_vdot": count_matmul,
    "_convolution": count_convolution,
    "dot": count_matmul,
    "linear": count_matmul,
    "matmul": count_matmul,
    "_attention": count_attention,
    "_rnn_layer": count_recurrent_layer,
    "_conv_transpose": count_transposed_convolution,
}


class Call(NamedTuple):
    """An open call of an op, with its operands."""

    multiply_adds: Callable[[tuple[Any, ...], Any], int] | None
    operands: tuple[Any, ...]


class OpCounter:
    """In a `with`, calls `callback(multiply_adds, nbytes)` for each op of this thread.

    `nbytes` counts results with their own memory, of ops that are not part of another op.
    """

    def __init__(self, callback: Callable[[int, int], None]) -> None:
        self.callback = callback
        self.thread = threading.get_ident()
        self.calls: list[Call] = []

    def __enter__(self) -> OpCounter:
        observers.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        observers.remove(self)

    def enter(self, event: str, operands: tuple[Any, ...]) -> None:
        """An op is called."""
        if threading.get_ident() == self.thread:
            self.calls.append(Call(MULTIPLY_ADDS.get(event), operands))

    def leave(self, result: Any) -> None:
        """An op has returned."""
        if threading.get_ident() != self.thread:
            return
        call = self.calls.pop()
        if result is None:  # it raised
            return
        is_part = any(outer.multiply_adds is not None for outer in self.calls)
        count = 0
        if call.multiply_adds is not None and not is_part:
            count = call.multiply_adds(call.operands, result)
        self.callback(count, 0 if self.calls else new_bytes(result, call.operands))


def new_bytes(result: Any, operands: tuple[Any, ...]) -> int:
    """The bytes of results that are not views of operands."""
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
