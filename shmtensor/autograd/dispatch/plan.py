"""Converts a row of the op table to the columns that `native.OpFunction` and `native.Gradients`
read.

A row names the arguments of its kernel, its saved values and its pullbacks. A plan has numbers for
the names: lists of (what, index, condition). It is made at an op's first call.

A node saves the values that the pullbacks name, in the order of the names: inputs, shapes and
dtypes of inputs, outputs, extra values of the kernel, attributes. Then come (shape, dtype) of
outputs whose gradient may be missing, and last the tensors of a listed input.
"""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import native
from ...ops import LATER
from ...ops.table import named_results
from ...ops.table.memory_format import format_of
from ...ops.table.op_table import EMPTY, Input, Pullback, Row
from .no_warnings import no_warnings

UNSAVED = {"ops": "ops", "into": "grad_buffer", "needed": "needed"}  # also names of a pullback

CONVERTED = ("index", "dtype")  # the attributes that a call converts, by their kind

NUMPY_NAMES = {"dim": "axis", "dims": "axes", "keepdim": "keepdims"}

# (what, index, condition); `what` is one of the names of native/dispatch/op_function.h.
Item = tuple[str, int, int]


# ---------------------------------------------------------------- properties of a row


def is_public(declared: Any) -> bool:
    """Whether a row or a composite is public, in `shmtensor` or in a namespace."""
    return bool(declared.function or declared.name.partition("_")[0] in LATER)


def takes_out(row: Row) -> bool:
    """Whether the function of a row has `out=`."""
    names = {a.name for a in row.attributes}
    has_out = is_public(row) if row.out_argument is None else row.out_argument
    return has_out and not row.view and not row.listed and "out" not in names


def numpy_names(row: Row) -> dict[str, str]:
    """NumPy's names of the attributes that callers may also name so: our name -> NumPy's."""
    if not (row.method or row.function):
        return {}
    names = {a.name for a in row.attributes}
    required = [a.name for a in row.attributes if a.default is EMPTY]
    return {
        n: other
        for n, other in NUMPY_NAMES.items()
        if n in names and other not in names and n not in required[:-1]
    }


def is_sized(row: Row, form: str, a: Any) -> bool:
    """Whether a form takes the attribute as `*sizes`."""
    return bool(a.kind == "sizes" and form in ("method", "inplace") and not a.keyword_only)


def is_operator(form: str) -> bool:
    return form in ("operator", "reflected")


def anchor_of(row: Row, form: str) -> Input | None:
    """The input that must be a tensor, and decides the dtype."""
    promoted = [x for x in row.inputs if x.name in row.promoted]
    if form == "reflected":
        promoted = promoted[1:]
    return promoted[0] if promoted else None


def kernel_of(row: Row) -> Any:
    """The row's kernel on arrays, or its forward, whose first argument is NumPy."""
    if isinstance(row.numpy, tuple):
        return row.numpy[0]
    if row.numpy is not None:
        return row.numpy
    forward = by_position(row)
    return forward if row.view else no_warnings(forward)


def by_position(row: Row, forward: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The row's forward, or another one, with all attributes by position."""
    forward = forward or row.forward
    names = [a.name for a in row.attributes if a.keyword_only]
    if not names or getattr(forward, "takes_out", False):
        return forward
    n = 1 + len(row.inputs) + len(row.attributes) - len(names)

    def positional(*args: Any) -> Any:
        return forward(*args[:n], **dict(zip(names, args[n:])))

    return positional


class SavedValues:
    """The values that the nodes of a row save.

    Attributes:
        differentiable: the inputs that have a pullback.
        gradients: the gradients that the pullbacks name, `g` or `g_<output>`.
        names: the names of the saved values, without a listed input; `<gradient> like` is the
            (shape, dtype) for zeros.
        listed: the listed input that is saved, or None.
    """

    def __init__(self, row: Row) -> None:
        self.row = row
        self.differentiable = [x for x in row.inputs if x.name in row.pullbacks]
        needs = {n for p in row.pullbacks.values() for n in p.needs} - UNSAVED.keys()
        self.gradients = sorted(n for n in needs if self.is_gradient(n))
        self.listed = next((x for x in row.inputs if x.listed and x.name in needs), None)
        names = sorted(needs.difference(self.gradients))
        self.names = [n for n in names if self.listed is None or n != self.listed.name]
        if row.listed:
            self.names.append("g like")
        elif len(self.gradients) > 1:
            self.names += [f"{n} like" for n in self.gradients]

    def is_gradient(self, name: str) -> bool:
        return name == "g" or (name.startswith("g_") and name[2:] in self.row.outputs)

    def output(self, gradient: str) -> int:
        """The index of a gradient's output."""
        return 0 if gradient == "g" else self.row.outputs.index(gradient[2:])

    def items(self) -> list[Item]:
        """The items that a call saves."""
        row = self.row
        inputs = {x.name: i for i, x in enumerate(row.inputs)}
        attributes = {a.name: len(inputs) + i for i, a in enumerate(row.attributes)}
        outputs = {n: i for i, n in enumerate((*row.outputs, *row.saves))}
        items = []
        for n in self.names:
            base, _, part = n.rpartition("_")
            if n.endswith(" like"):
                items.append(("zeros", self.output(n.removesuffix(" like")), 0))
            elif n in inputs:
                items.append(("input", inputs[n], self.users(n)))
            elif n in outputs:
                items.append(("output", outputs[n], 0))
            elif n in attributes:
                items.append(("attribute", attributes[n], 0))
            else:
                items.append(("shape" if part == "shape" else "dtype", inputs[base], 0))
        if self.listed is not None:
            items.append(("input", inputs[self.listed.name], 0))
        return items

    def users(self, name: str) -> int:
        """The inputs, as bits, of which one must have a node for the pullbacks to need this input;
        0 if they always need it.
        """
        users = [x for x in self.differentiable if name in self.row.pullbacks[x.name].needs]
        if len(users) == len(self.differentiable) or any(x.listed for x in users):
            return 0
        return sum(1 << i for i, x in enumerate(self.row.inputs) if x in users)


# ---------------------------------------------------------------- OpFunction


def kernel_items(row: Row, device: Any) -> tuple[list[Item], tuple[Any, ...]]:
    """The kernel's arguments, and the constants among them. A device's kernel is a forward."""
    inputs = {x.name: ("input", i, 0) for i, x in enumerate(row.inputs)}
    attributes = {a.name: ("attribute", len(inputs) + i, 0) for i, a in enumerate(row.attributes)}
    if device is not None:
        return [("constant", 0, 0), *inputs.values(), *attributes.values()], (device.xp,)
    if not isinstance(row.numpy, tuple):
        first: list[Item] = [("constant", 0, 0)] if row.numpy is None else []
        return [*first, *inputs.values(), *attributes.values()], (np,)
    by_name = inputs | attributes
    items: list[Item] = []
    constants: list[Any] = []
    for word in row.numpy[1].replace(" ", "").split(","):
        if word in by_name:
            items.append(by_name[word])
        else:
            items.append(("constant", len(constants), 0))
            constants.append(literal_eval(word))
    return items, tuple(constants)


def arguments(row: Row, form: str) -> list[tuple[Any, ...]]:
    """A column for each argument: name, NumPy's name, default, flags, kind."""
    anchor = anchor_of(row, form)
    names = [x.public for x in row.inputs]
    if form == "reflected":
        names[:2] = names[1::-1]  # the order of the call; the values are swapped later
    columns: list[tuple[Any, ...]] = []
    for x, name in zip(row.inputs, names):
        promoted = row.promote is not None and x.name in row.promoted
        number = row.broadcast and promoted and x.name not in row.tensors and x is not anchor
        flags = {
            "listed": x.listed,
            "optional": x.optional,
            "promoted": promoted,
            "differentiable": x.name in row.pullbacks,
            "number": number,
        }
        columns.append((name, None, (None,) if x.optional else None, flags, "plain"))
    spellings = {} if is_operator(form) else numpy_names(row)
    for a in row.attributes:
        default = None if a.default is EMPTY else (a.default,)
        kind = a.kind if a.kind in CONVERTED else "plain"
        columns.append((a.name, spellings.get(a.name), default, {}, kind))
    return columns


def rare_composite(row: Row, form: str) -> Any:
    """The composite for calls with a rare keyword, or None."""
    rare_form = row.rare_form
    if form != "inplace" or rare_form is None:
        return rare_form
    if row.rare_form_inplace is not None:
        return row.rare_form_inplace
    return lambda ops, x, *args, **kwargs: ops._overwrite_(x, rare_form(ops, x, *args, **kwargs))


def fill(op: Any) -> None:
    """Fills in the columns of an OpFunction."""
    rule, form = op.rule, op.form
    row: Row = rule.row
    is_on_cpu = rule.device is None
    sizes_position = next((i for i, a in enumerate(row.attributes) if is_sized(row, form, a)), None)
    n_inputs = len(row.inputs)
    plain = [a for a in row.attributes if not a.keyword_only]
    forward = None if is_on_cpu else row.forward_on(rule.device.name)
    writes = row.out if is_on_cpu else getattr(forward, "takes_out", False)
    writes_out = (
        writes
        and is_on_cpu
        and callable(row.numpy)
        and not (row.attributes or row.saves or row.listed or len(row.outputs) > 1)
        and not row.autocast
    )
    is_pair = (
        row.broadcast
        and row.promote is not None
        and n_inputs == len(row.promoted) == 2
        and not row.attributes
        and row.check_dtypes is None
        and form not in ("inplace", "array")
    )
    flags = {
        "listed": row.listed,
        "view": row.view,
        "writes": writes,
        "writes_out": writes_out,
        "takes_out": form == "function" and takes_out(row),
        "keeps": bool(row.saves),
        "pair": is_pair,
        "wraps": row.wraps,
    }
    items, constants = kernel_items(row, rule.device)
    widening = None
    if is_on_cpu and not row.view and not row.halves:  # computes 16-bit floats in float32
        widening = len(row.outputs), row.half
    result = None
    if len(row.outputs) > 1 and not row.listed and form != "array":
        result = named_results.shape_of(row.label, row.outputs)
    op.fill(
        arguments=tuple(arguments(row, form)),
        n_inputs=n_inputs,
        n_positional=n_inputs + len(plain) if sizes_position is None else 1 << 16,
        sizes_at=-1 if sizes_position is None else n_inputs + sizes_position,
        promotion=row.promote or "none",
        n_outputs=len(row.outputs),
        flags=flags,
        kernel=rule.kernel,
        kernel_items=tuple(items),
        constants=constants,
        saved_items=tuple(SavedValues(row).items()),
        rare=rare_composite(row, form),
        rare_defaults={} if is_operator(form) else row.rare_defaults,
        ops=rule.ops.arrays if form == "array" else rule.ops,
        result=result,
        widening=widening,
        format=format_of(row, rule.kernel) if is_on_cpu else None,
    )


def signature(op: Any) -> inspect.Signature:
    """The signature of a row's function, for `help` and `inspect`."""
    P = inspect.Parameter
    row, form = op.rule.row, op.form
    parameters = [
        P(x.public, P.POSITIONAL_OR_KEYWORD, default=None if x.optional else P.empty)
        for x in row.inputs
    ]
    if form == "reflected":
        parameters[:2] = parameters[1::-1]
    keywords = []
    for a in row.attributes:
        if is_sized(row, form, a):
            parameters.append(P(a.name, P.VAR_POSITIONAL))
        elif a.keyword_only or any(p.kind is P.VAR_POSITIONAL for p in parameters):
            keywords.append(P(a.name, P.KEYWORD_ONLY, default=a.default))
        else:
            parameters.append(P(a.name, P.POSITIONAL_OR_KEYWORD, default=a.default))
    if not is_operator(form):
        keywords += [P(k, P.KEYWORD_ONLY, default=v) for k, v in row.rare_defaults.items()]
    if form == "function" and takes_out(row):
        keywords.append(P("out", P.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters + keywords)


# ---------------------------------------------------------------- Gradients


def gradients(rule: Any, tensors: bool, take_buffer: Any, make_zeros: Any) -> Any:
    """The backward of a row's nodes, on arrays or on Tensors.

    Args:
        take_buffer: `take_buffer(edge)` returns an array that the gradient may be written to, or
            None.
        make_zeros: makes zeros from a (shape, dtype).
    """
    row: Row = rule.row
    saved_values = SavedValues(row)
    edges = {x.name: i for i, x in enumerate(saved_values.differentiable)}
    inputs = {x.name for x in row.inputs}

    def tensor_item(name: str) -> Item:
        if name in inputs:
            return "input", edges.get(name, -1), 0
        if name in row.outputs:
            return "output", row.outputs.index(name), 0
        return "constant" if name in row.saves else "attribute", 0, 0

    def argument(name: str) -> Item:
        if saved_values.is_gradient(name):
            return "gradient", saved_values.output(name), 0
        if name in UNSAVED:
            return UNSAVED[name], 0, 0
        if saved_values.listed is not None and name == saved_values.listed.name:
            return "saved", len(saved_values.names), 0
        return "saved", saved_values.names.index(name), 0

    def of_input(x: Input) -> Pullback:
        pullback = row.pullbacks[x.name]
        if rule.device is None or tensors:
            return pullback
        return pullback._replace(function=rule.device.pullback_of(row, x.name))

    differentiable = saved_values.differentiable
    pullbacks = [row.joint] if row.joint else [of_input(x) for x in differentiable]
    zeros = [
        ("zeros", i, saved_values.output(n.removesuffix(" like")))
        for i, n in enumerate(saved_values.names)
        if n.endswith(" like")
    ]
    listed_at = next((i for i, x in enumerate(saved_values.differentiable) if x.listed), -1)
    words = "".join(word.capitalize() for word in row.name.split("_"))
    return native.Gradients(
        f"{words}Backward0",
        tuple((p.function, tuple(argument(n) for n in p.needs)) for p in pullbacks),
        tuple(tensor_item(n) for n in saved_values.names),
        tuple(zeros),
        len(row.outputs),
        listed_at,
        len(differentiable) if row.joint else 0,
        {
            "tensors": tensors,
            "listed_outputs": row.listed,
            "listed_saved": saved_values.listed is not None,
        },
        rule.ops if tensors else rule.ops.arrays,
        take_buffer,
        make_zeros,
    )
