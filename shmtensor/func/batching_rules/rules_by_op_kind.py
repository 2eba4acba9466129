"""Batching rules of rows, by the column `vmap`. Each takes a `Call` and gives the op's result on
all examples; NotImplemented means example by example.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...autograd import table
from ...ops import Row
from ..batched_tensor import Batched, Level, lifted
from .losses import entropy, pointwise_loss_gradients, pointwise_losses

__all__ = ["Call", "alone", "rule_of"]


class Call:
    """An op that is called on examples: its row, the inputs, the attributes by name."""

    __slots__ = ("func", "level", "named", "row", "values")

    def __init__(self, level: Level, row: Row, func: Any, args: Any, named: dict[str, Any]) -> None:
        self.level, self.row, self.func, self.named = level, row, func, named
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
        at = self.names().index(name)
        return self.attributes[at] if at < len(self.attributes) else self.row.attributes[at].default

    def holds(self, x: Any) -> bool:
        """Whether x is a batch of this vmap."""
        return isinstance(x, Batched) and x.level is self.level

    def value(self, x: Any) -> Any:
        """All examples of x, which may be the same for all."""
        return lifted(x, self.level) if hasattr(x, "requires_grad") else x

    def with_attributes(self, inputs: list[Any], **changed: Any) -> Any:
        """The op on those inputs, with some attributes changed."""
        given = [changed.get(n, v) for n, v in zip(self.names(), self.attributes)]
        named = {k: changed.get(k, v) for k, v in self.named.items()}
        return self.func(*inputs, *given, **named)


Kind = Callable[[Call], Any]


def further(d: int) -> int:
    """A dimension of an example, in the batch."""
    return d + 1 if d >= 0 else d


def alone(call: Call) -> Any:
    """Works on each element, or on the last dimensions: with all inputs as batches."""
    return call.func(*(call.value(x) for x in call.inputs), *call.attributes, **call.named)


def along(call: Call) -> Any:
    """Works along dim; None is all dimensions of the example."""
    x = call.inputs[0]
    dim = call.attribute("dim")
    if not x.ndim:
        return NotImplemented
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        if call.row.name in ("argmax", "argmin"):
            if call.attribute("keepdim"):
                return NotImplemented
            flat = table.reshape(call.value(x), (call.level.size, -1))
            return call.with_attributes([flat], dim=1)
        new: Any = tuple(range(1, x.ndim + 1))
    elif isinstance(dim, int):
        if not -x.ndim <= dim < x.ndim:
            return NotImplemented  # which raises
        new = further(dim)
    else:
        new = tuple(further(d) for d in dim)
    return call.with_attributes([call.value(v) for v in call.inputs], dim=new)


def shaped_along(call: Call) -> Any:
    """As `along`, with the shape of one example's result as an attribute."""
    dim = call.attribute("dim")
    if not call.attribute("shape"):
        return NotImplemented
    return call.with_attributes(
        [call.value(v) for v in call.inputs],
        shape=(call.level.size, *call.attribute("shape")),
        dim=further(dim),
    )


def first_along(call: Call) -> Any:
    """As `along`, for an index that is the same for all examples."""
    if any(call.holds(v) for v in call.inputs[1:]) or not call.inputs[0].ndim:
        return NotImplemented
    inputs = [call.value(call.inputs[0]), *call.inputs[1:]]
    return call.with_attributes(inputs, dim=further(call.attribute("dim")))


def shaped(name: str) -> Kind:
    """The result's shape is an attribute."""

    def rule(call: Call) -> Any:
        given = call.attribute(name)
        sizes = (given,) if isinstance(given, int) else tuple(given)
        return call.with_attributes(
            [call.value(call.inputs[0])], **{name: (call.level.size, *sizes)}
        )

    return rule


def widened(call: Call) -> Any:
    """expand, broadcast_to: new dimensions come after the batch."""
    x = call.value(call.inputs[0])
    given = call.attribute("size")
    sizes = (given,) if isinstance(given, int) else tuple(given)
    missing = len(sizes) - (x.ndim - 1)
    if missing > 0:
        x = x[(slice(None), *(None,) * missing)]
    return call.with_attributes([x], size=(call.level.size, *sizes))


def repeated(call: Call) -> Any:
    x = call.value(call.inputs[0])
    times = tuple(call.attribute("repeats"))
    missing = len(times) - (x.ndim - 1)
    if missing > 0:
        x = x[(slice(None), *(None,) * missing)]
    return call.with_attributes([x], repeats=(1, *times))


def permuted(call: Call) -> Any:
    n = call.inputs[0].ndim
    dims = call.attribute("dims")
    if isinstance(dims, int):
        dims = (dims,)
    return call.with_attributes(
        [call.value(call.inputs[0])], dims=(0, *(d % max(n, 1) + 1 for d in dims))
    )


def moved(*names: str) -> Kind:
    """The attributes of those names are dimensions, or several."""

    def rule(call: Call) -> Any:
        if not call.inputs[0].ndim:
            return NotImplemented
        changed = {}
        for name in names:
            d = call.attribute(name)
            if d is None or (not isinstance(d, int) and not len(d)):
                return NotImplemented
            changed[name] = further(d) if isinstance(d, int) else tuple(further(i) for i in d)
        return call.with_attributes([call.value(call.inputs[0])], **changed)

    return rule


def squeezed(call: Call) -> Any:
    x = call.inputs[0]
    dim = call.attribute("dim") if call.attributes else None
    if dim is None:
        dims = tuple(i + 1 for i, n in enumerate(x.shape) if n == 1)
    elif not x.ndim:
        return NotImplemented
    else:
        given = (dim,) if isinstance(dim, int) else tuple(dim)
        dims = tuple(further(d) for d in given)
    return table.squeeze(call.value(x), dims)


def unsqueezed(call: Call) -> Any:
    x = call.inputs[0]
    return table.unsqueeze(call.value(x), call.attribute("dim") % (x.ndim + 1) + 1)


def diagonal_put(call: Call) -> Any:
    """The shape and two dimensions."""
    return call.with_attributes(
        [call.value(call.inputs[0])],
        shape=(call.level.size, *call.attribute("shape")),
        dim1=further(call.attribute("dim1")),
        dim2=further(call.attribute("dim2")),
    )


def item(call: Call) -> Any:
    """x[index] by numbers and slices, or by one array that is not behind others."""
    index = call.attribute("index")
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [p for p in parts if hasattr(p, "dtype") or isinstance(p, (list, bool))]
    if len(arrays) > 1 or (arrays and any(isinstance(p, int) for p in parts)):
        return NotImplemented
    x = call.inputs[0]
    if not call.holds(x):
        return NotImplemented
    return x.value[(slice(None), *parts)]


def joined(call: Call) -> Any:
    """cat and stack."""
    xs = [call.value(x) for x in call.inputs[0]]
    dim = call.attribute("dim")
    return call.with_attributes([xs], dim=further(dim))


def product(call: Call) -> Any:
    """matmul: the batch is one of its leading dimensions."""
    x, y = call.inputs
    if not x.ndim or not y.ndim:
        return NotImplemented
    if call.holds(x) and not call.holds(y) and x.ndim == 1 and y.ndim == 2:
        return table.matmul(x.value, y)
    row, column = x.ndim == 1, y.ndim == 1
    lead = max(x.ndim, y.ndim, 2) - 2

    def operand(v: Any, vector: bool, at: int) -> Any:
        if not call.holds(v):
            return table.unsqueeze(v, at) if vector else v
        value = table.unsqueeze(v.value, at) if vector else v.value
        missing = lead + 3 - value.ndim
        return value[(slice(None), *(None,) * missing)] if missing else value

    out = table.matmul(operand(x, row, -2), operand(y, column, -1))
    out = table.squeeze(out, -2) if row else out
    return table.squeeze(out, -1) if column else out


def apart(call: Call) -> Any:
    """distances: of pairs of rows, for each example."""
    x, y = call.inputs
    return table.cdist(call.value(x), call.value(y), call.attribute("p"))


def layer(call: Call) -> Any:
    """linear: the same weights for all, or as a product."""
    x, weight, bias = call.inputs
    if not call.holds(weight) and not call.holds(bias):
        return call.func(call.value(x), weight, bias)
    out = table.matmul(x, weight if weight.ndim == 1 else table.transpose(weight, -1, -2))
    out = out if bias is None else table.add(out, bias)
    return call.value(out)


def systems(call: Call) -> Any:
    """solved: both with the batch in front of their leading dimensions."""
    x, y = call.inputs
    lead = max(x.ndim, y.ndim) - 2

    def operand(v: Any) -> Any:
        value = call.value(v)
        missing = lead + 3 - value.ndim
        return value[(slice(None), *(None,) * missing)] if missing else value

    return table._solve(operand(x), operand(y))


def folded(call: Call) -> Any:
    """Images: the batch is part of theirs; the weights are the same for all."""
    x, *others = call.inputs
    if any(call.holds(v) for v in others):
        return NotImplemented
    value = x.value
    n = value.shape[1]
    made = call.func(
        table.reshape(value, (-1, *value.shape[2:])), *others, *call.attributes, **call.named
    )

    def back(v: Any) -> Any:
        return table.reshape(v, (call.level.size, n, *v.shape[1:]))

    if isinstance(made, tuple):
        return type(made)(*(back(v) for v in made))
    return back(made)


def normalised(call: Call) -> Any:
    """Norms over the last dimensions; the weights are the same for all."""
    x, *others = call.inputs
    if any(call.holds(v) for v in others) or call.attribute("groups"):
        return NotImplemented
    return call.func(x.value, *others, *call.attributes, **call.named)


def looked_up(call: Call) -> Any:
    """embedded: one table for all."""
    weight, index = call.inputs
    if call.holds(weight):
        return NotImplemented
    return call.func(weight, call.value(index), *call.attributes, **call.named)


def flattened(call: Call) -> Any:
    x = call.inputs[0]
    if not x.ndim:
        return NotImplemented
    start, end = (further(call.attribute(name)) for name in ("start_dim", "end_dim"))
    return call.with_attributes([call.value(x)], start_dim=start, end_dim=end)


def dotted(call: Call) -> Any:
    """dot, vdot: rows of a batch."""
    x, y = (call.value(v) for v in call.inputs)
    if x.shape != y.shape:
        return NotImplemented  # which raises
    return table.sum(table.mul(x, y), 1)


# The rules by the words of the column `vmap`; what follows the word is the rule's own arguments.
RULES: dict[str, Any] = {
    rule.__name__: rule
    for rule in (
        alone, along, shaped_along, first_along, shaped, widened, repeated, permuted, moved,
        squeezed, unsqueezed, diagonal_put, item, joined, product, layer, apart, systems, folded,
        normalised, looked_up, flattened, dotted, entropy,
        pointwise_losses, pointwise_loss_gradients,
    )
}  # fmt: skip


@functools.cache
def rule_of(column: str) -> Kind:
    """The batching rule that a row's column names."""
    word, *names = column.split()
    rule: Kind = RULES[word](*names) if names else RULES[word]
    return rule
