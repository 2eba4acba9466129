"""Batching rules of rows, by the column `vmap`. A rule takes a `Call` and returns the op's result
on all examples; NotImplemented means example by example.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...autograd import table
from ...ops import Row
from ..batched_tensor import Batched, Level, all_examples
from .losses import cross_entropy, pointwise_loss_gradients, pointwise_losses


class Call:
    """A call of an op on examples: its row, inputs and attributes."""

    __slots__ = ("func", "kwargs", "level", "row", "values")

    def __init__(
        self, level: Level, row: Row, func: Any, args: Any, kwargs: dict[str, Any]
    ) -> None:
        self.level, self.row, self.func, self.kwargs = level, row, func, kwargs
        self.values = list(args)

    @property
    def inputs(self) -> list[Any]:
        return self.values[: len(self.row.inputs)]

    @property
    def attributes(self) -> list[Any]:
        return self.values[len(self.row.inputs) :]

    def names(self) -> list[str]:
        return [a.name for a in self.row.attributes if not a.keyword_only]

    def attribute(self, name: str) -> Any:
        index = self.names().index(name)
        return (
            self.attributes[index]
            if index < len(self.attributes)
            else self.row.attributes[index].default
        )

    def is_batch(self, x: Any) -> bool:
        """Whether x is a batch of this vmap."""
        return isinstance(x, Batched) and x.level is self.level

    def value(self, x: Any) -> Any:
        """All examples of x; a shared value is expanded."""
        return all_examples(x, self.level) if hasattr(x, "requires_grad") else x

    def with_attributes(self, inputs: list[Any], **changes: Any) -> Any:
        """Calls the op on the inputs, with some attributes changed."""
        attributes = [changes.get(n, v) for n, v in zip(self.names(), self.attributes)]
        kwargs = {k: changes.get(k, v) for k, v in self.kwargs.items()}
        return self.func(*inputs, *attributes, **kwargs)


BatchingRule = Callable[[Call], Any]


def shift_dim(d: int) -> int:
    """The dimension of a batch for a dimension of an example."""
    return d + 1 if d >= 0 else d


def alone(call: Call) -> Any:
    """Elementwise ops, or ops on the last dimensions: all inputs become batches."""
    return call.func(*(call.value(x) for x in call.inputs), *call.attributes, **call.kwargs)


def along(call: Call) -> Any:
    """Ops along dim; None means all dimensions of the example."""
    x = call.inputs[0]
    dim = call.attribute("dim")
    if not x.ndim:
        return NotImplemented
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        dims: Any = tuple(range(1, x.ndim + 1))
    elif isinstance(dim, int):
        if not -x.ndim <= dim < x.ndim:
            return NotImplemented  # which raises
        dims = shift_dim(dim)
    else:
        dims = tuple(shift_dim(d) for d in dim)
    return call.with_attributes([call.value(v) for v in call.inputs], dim=dims)


def along_or_flat(call: Call) -> Any:
    """As `along`; without dim along the flattened example."""
    x = call.inputs[0]
    if not x.ndim or call.attribute("dim") is not None:
        return along(call)
    if call.attribute("keepdim"):
        return NotImplemented
    flat = table.reshape(call.value(x), (call.level.size, -1))
    return call.with_attributes([flat], dim=1)


def shaped_along(call: Call) -> Any:
    """As `along`, with the result's shape as an attribute."""
    dim = call.attribute("dim")
    if not call.attribute("shape"):
        return NotImplemented
    return call.with_attributes(
        [call.value(v) for v in call.inputs],
        shape=(call.level.size, *call.attribute("shape")),
        dim=shift_dim(dim),
    )


def first_along(call: Call) -> Any:
    """As `along`, with an index that all examples share."""
    if any(call.is_batch(v) for v in call.inputs[1:]) or not call.inputs[0].ndim:
        return NotImplemented
    inputs = [call.value(call.inputs[0]), *call.inputs[1:]]
    return call.with_attributes(inputs, dim=shift_dim(call.attribute("dim")))


def shaped(name: str) -> BatchingRule:
    """Ops with the result's shape as an attribute."""

    def rule(call: Call) -> Any:
        size = call.attribute(name)
        sizes = (size,) if isinstance(size, int) else tuple(size)
        return call.with_attributes(
            [call.value(call.inputs[0])], **{name: (call.level.size, *sizes)}
        )

    return rule


def expand(call: Call) -> Any:
    """expand, broadcast_to: new dimensions come after the batch dimension."""
    x = call.value(call.inputs[0])
    size = call.attribute("size")
    sizes = (size,) if isinstance(size, int) else tuple(size)
    missing = len(sizes) - (x.ndim - 1)
    if missing > 0:
        x = x[(slice(None), *(None,) * missing)]
    return call.with_attributes([x], size=(call.level.size, *sizes))


def repeat(call: Call) -> Any:
    x = call.value(call.inputs[0])
    times = tuple(call.attribute("repeats"))
    missing = len(times) - (x.ndim - 1)
    if missing > 0:
        x = x[(slice(None), *(None,) * missing)]
    return call.with_attributes([x], repeats=(1, *times))


def permute(call: Call) -> Any:
    n = call.inputs[0].ndim
    dims = call.attribute("dims")
    if isinstance(dims, int):
        dims = (dims,)
    return call.with_attributes(
        [call.value(call.inputs[0])], dims=(0, *(d % max(n, 1) + 1 for d in dims))
    )


def dim_attributes(*names: str) -> BatchingRule:
    """Ops whose named attributes are one or several dimensions."""

    def rule(call: Call) -> Any:
        if not call.inputs[0].ndim:
            return NotImplemented
        dims = {}
        for name in names:
            d = call.attribute(name)
            if d is None or (not isinstance(d, int) and not len(d)):
                return NotImplemented
            dims[name] = shift_dim(d) if isinstance(d, int) else tuple(shift_dim(i) for i in d)
        return call.with_attributes([call.value(call.inputs[0])], **dims)

    return rule


def squeeze(call: Call) -> Any:
    x = call.inputs[0]
    dim = call.attribute("dim") if call.attributes else None
    if dim is None:
        dims = tuple(i + 1 for i, n in enumerate(x.shape) if n == 1)
    elif not x.ndim:
        return NotImplemented
    else:
        dim_tuple = (dim,) if isinstance(dim, int) else tuple(dim)
        dims = tuple(shift_dim(d) for d in dim_tuple)
    return table.squeeze(call.value(x), dims)


def unsqueeze(call: Call) -> Any:
    x = call.inputs[0]
    return table.unsqueeze(call.value(x), call.attribute("dim") % (x.ndim + 1) + 1)


def diagonal_backward(call: Call) -> Any:
    """Ops with the attributes shape, dim1 and dim2."""
    return call.with_attributes(
        [call.value(call.inputs[0])],
        shape=(call.level.size, *call.attribute("shape")),
        dim1=shift_dim(call.attribute("dim1")),
        dim2=shift_dim(call.attribute("dim2")),
    )


def getitem(call: Call) -> Any:
    """x[index] by numbers and slices, or by slices and one array."""
    index = call.attribute("index")
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [p for p in parts if hasattr(p, "dtype") or isinstance(p, (list, bool))]
    if len(arrays) > 1 or (arrays and any(isinstance(p, int) for p in parts)):
        return NotImplemented
    x = call.inputs[0]
    if not call.is_batch(x):
        return NotImplemented
    return x.value[(slice(None), *parts)]


def cat_stack(call: Call) -> Any:
    """cat and stack."""
    xs = [call.value(x) for x in call.inputs[0]]
    dim = call.attribute("dim")
    return call.with_attributes([xs], dim=shift_dim(dim))


def matmul(call: Call) -> Any:
    """matmul: the batch is a leading dimension."""
    x, y = call.inputs
    if not x.ndim or not y.ndim:
        return NotImplemented
    if call.is_batch(x) and not call.is_batch(y) and x.ndim == 1 and y.ndim == 2:
        return table.matmul(x.value, y)
    x_is_vector, y_is_vector = x.ndim == 1, y.ndim == 1
    n_leading = max(x.ndim, y.ndim, 2) - 2

    def operand(v: Any, is_vector: bool, dim: int) -> Any:
        if not call.is_batch(v):
            return table.unsqueeze(v, dim) if is_vector else v
        value = table.unsqueeze(v.value, dim) if is_vector else v.value
        missing = n_leading + 3 - value.ndim
        return value[(slice(None), *(None,) * missing)] if missing else value

    out = table.matmul(operand(x, x_is_vector, -2), operand(y, y_is_vector, -1))
    out = table.squeeze(out, -2) if x_is_vector else out
    return table.squeeze(out, -1) if y_is_vector else out


def cdist(call: Call) -> Any:
    """cdist: distances of pairs of rows, for each example."""
    x, y = call.inputs
    return table.cdist(call.value(x), call.value(y), call.attribute("p"))


def linear(call: Call) -> Any:
    """linear: with shared weights, else as a matmul."""
    x, weight, bias = call.inputs
    if not call.is_batch(weight) and not call.is_batch(bias):
        return call.func(call.value(x), weight, bias)
    out = table.matmul(x, weight if weight.ndim == 1 else table.transpose(weight, -1, -2))
    out = out if bias is None else table.add(out, bias)
    return call.value(out)


def solve(call: Call) -> Any:
    """solve: the batch comes before the leading dimensions."""
    x, y = call.inputs
    n_leading = max(x.ndim, y.ndim) - 2

    def operand(v: Any) -> Any:
        value = call.value(v)
        missing = n_leading + 3 - value.ndim
        return value[(slice(None), *(None,) * missing)] if missing else value

    return table._solve(operand(x), operand(y))


def images(call: Call) -> Any:
    """Ops on images with shared weights: the batch is merged into the images' own."""
    x, *parameters = call.inputs
    if any(call.is_batch(v) for v in parameters):
        return NotImplemented
    value = x.value
    n = value.shape[1]
    result = call.func(
        table.reshape(value, (-1, *value.shape[2:])), *parameters, *call.attributes, **call.kwargs
    )

    def unflatten(v: Any) -> Any:
        return table.reshape(v, (call.level.size, n, *v.shape[1:]))

    if isinstance(result, tuple):
        return type(result)(*(unflatten(v) for v in result))
    return unflatten(result)


def layer_norm(call: Call) -> Any:
    """Norms over the last dimensions, with shared weights."""
    x, *parameters = call.inputs
    if any(call.is_batch(v) for v in parameters) or call.attribute("groups"):
        return NotImplemented
    return call.func(x.value, *parameters, *call.attributes, **call.kwargs)


def embedding(call: Call) -> Any:
    """embedding, with a shared table."""
    weight, index = call.inputs
    if call.is_batch(weight):
        return NotImplemented
    return call.func(weight, call.value(index), *call.attributes, **call.kwargs)


def flatten(call: Call) -> Any:
    x = call.inputs[0]
    if not x.ndim:
        return NotImplemented
    start, end = (shift_dim(call.attribute(name)) for name in ("start_dim", "end_dim"))
    return call.with_attributes([call.value(x)], start_dim=start, end_dim=end)


def dot(call: Call) -> Any:
    """dot: of each example's vectors."""
    x, y = (call.value(v) for v in call.inputs)
    if x.shape != y.shape:
        return NotImplemented  # which raises
    return table.sum(table.mul(x, y), 1)


# The rules by the first word of the column `vmap`; the words after it are the rule's arguments.
RULES: dict[str, Any] = {
    rule.__name__: rule
    for rule in (
        alone, along, along_or_flat, shaped_along, first_along, shaped, expand, repeat, permute,
        dim_attributes, squeeze, unsqueeze, diagonal_backward, getitem, cat_stack, matmul,
        linear, cdist, solve, images, layer_norm, embedding, flatten, dot, cross_entropy,
        pointwise_losses, pointwise_loss_gradients,
    )
}  # fmt: skip


@functools.cache
def rule_of(column: str) -> BatchingRule:
    """The batching rule of a row's column `vmap`."""
    word, *names = column.split()
    rule: BatchingRule = RULES[word](*names) if names else RULES[word]
    return rule
