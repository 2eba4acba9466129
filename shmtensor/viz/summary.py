"""The layers of a model: shapes, parameters, floating-point operations and memory, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..autograd import no_grad
from ..nn import Module
from .counting import OpCounter, tensors_in
from .units import in_bytes, in_thousands

Shape = tuple[int, ...]
TITLES = ("Layer", "Input", "Output", "Parameters", "FLOPs", "Activations")
FOOTNOTE = (
    "FLOPs are two for each multiply-add of products and convolutions, those in linear layers,",
    "attention and recurrent layers among them; other operations are not counted. Activations are",
    "all results in memory of their own. Numbers of a layer hold those of its parts.",
)


@dataclass(frozen=True)
class SummaryRow:
    """A module of the model; its numbers include those of its submodules.

    Parameters
    ----------
    name : str
        Its name in `named_modules()`, "" for the model.
    kind : str
        The name of its class.
    depth : int
        0 for the model, 1 for its direct submodules, and so on.
    calls : int
        How often forward ran it.
    input_shapes, output_shapes : tuple of tuple of int
        Of the tensors in the first call.
    params, trainable_params : int
        The number of elements of all parameters, shared ones once; and of those that require grad.
    param_bytes : int
        The bytes of all its parameters.
    flops : int
        Floating-point operations of all calls: two for each multiply-add.
    activation_bytes : int
        The results with their own memory, of all calls.

    Examples
    --------
    >>> row = st.viz.summary(nn.Linear(3, 2), st.ones(4, 3)).rows[0]
    >>> row.kind, row.input_shapes, row.output_shapes
    ('Linear', ((4, 3),), ((4, 2),))
    >>> row.params, row.flops
    (8, 48)
    """

    name: str
    kind: str
    depth: int
    calls: int
    input_shapes: tuple[Shape, ...]
    output_shapes: tuple[Shape, ...]
    params: int
    trainable_params: int
    param_bytes: int
    flops: int
    activation_bytes: int


class Summary:
    """The layers of a model with their sizes and work; its `str` is the table.

    Parameters
    ----------
    rows : list of SummaryRow
        One for each module, the model first, each before its submodules.
    depth : int
        The table has rows down to this depth.

    See Also
    --------
    summary

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    >>> result = st.viz.summary(model, st.ones(4, 3))
    >>> [row.kind for row in result.rows]
    ['Sequential', 'Linear', 'ReLU']
    >>> result.param_bytes, result.activation_bytes
    (32, 64)
    """

    def __init__(self, rows: list[SummaryRow], depth: int) -> None:
        self.rows, self.depth = rows, depth

    @property
    def total_params(self) -> int:
        """The number of elements of all parameters, shared ones once."""
        return self.rows[0].params

    @property
    def trainable_params(self) -> int:
        """The number of elements of parameters that require grad."""
        return self.rows[0].trainable_params

    @property
    def total_flops(self) -> int:
        """The floating-point operations of a forward: two for each multiply-add."""
        return self.rows[0].flops

    @property
    def total_mult_adds(self) -> int:
        """The multiply-adds of a forward."""
        return self.rows[0].flops // 2

    @property
    def param_bytes(self) -> int:
        """The bytes of all parameters."""
        return self.rows[0].param_bytes

    @property
    def activation_bytes(self) -> int:
        """The bytes of all results of a forward with their own memory."""
        return self.rows[0].activation_bytes

    def __str__(self) -> str:
        rows = [row for row in self.rows if row.depth <= self.depth]
        lines = [TITLES] + [
            (
                prefix + label(row),
                shapes(row.input_shapes),
                shapes(row.output_shapes),
                f"{row.params:,}" if row.params else "-",
                in_thousands(row.flops) if row.flops else "-",
                in_bytes(row.activation_bytes) if row.activation_bytes else "-",
            )
            for row, prefix in zip(rows, tree_prefixes([row.depth for row in rows]), strict=True)
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [align(line, widths) for line in lines]
        rule = "─" * len(text[0])
        frozen = self.total_params - self.trainable_params
        return "\n".join(
            [
                text[0].rstrip(),
                rule,
                *(line.rstrip() for line in text[1:]),
                rule,
                f"Parameters   {self.total_params:,} ({self.trainable_params:,} trainable, "
                f"{frozen:,} not), {in_bytes(self.param_bytes)}",
                f"FLOPs        {self.total_flops:,}",
                f"Activations  {in_bytes(self.activation_bytes)}",
                *FOOTNOTE,
            ]
        )

    __repr__ = __str__


class Record:
    """The counts of a module during forward."""

    def __init__(self) -> None:
        self.calls = self.flops = self.activation_bytes = 0
        self.inputs: tuple[Shape, ...] = ()
        self.outputs: tuple[Shape, ...] = ()


def summary(model: Module, *inputs: Any, depth: int = 3) -> Summary:
    """Runs a model once, and lists the inputs, parameters and operations of its layers.

    Parameters
    ----------
    model : Module
        Any.
    *inputs : object
        The arguments of forward.
    depth : int, optional
        The depth of the table: 1 for the model and its direct submodules.

    Returns
    -------
    Summary
        Its `str` is the table, and its `rows`, `total_params`, `total_flops` and the like are the
        numbers.

    Raises
    ------
    TypeError
        The model is not a Module.

    Notes
    -----
    It runs in evaluation mode without recording history; afterwards it restores modes and hooks.

    Examples
    --------
    >>> result = st.viz.summary(nn.Linear(3, 2), st.ones(4, 3))
    >>> result.total_params, result.total_flops
    (8, 48)
    >>> print(str(result).splitlines()[2])
    Linear  (4, 3)  (4, 2)           8     48         32 B
    """
    if not isinstance(model, Module):
        raise TypeError(f"viz.summary: expected a Module: {type(model).__name__}")
    modules = dict(model.named_modules())
    records = {name: Record() for name in modules}
    with evaluation_mode(model), recording(modules, records), no_grad():
        model(*inputs)
    return Summary([row_of(name, modules[name], records[name]) for name in modules], depth)


@contextmanager
def evaluation_mode(model: Module) -> Iterator[None]:
    """In this block the model is in evaluation mode; afterwards each module has its former mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def recording(modules: dict[str, Module], records: dict[str, Record]) -> Iterator[None]:
    """Counts each module's calls, and what the ops in them compute and allocate."""
    active: list[frozenset[str]] = [frozenset()]

    def add(multiply_adds: int, nbytes: int) -> None:
        for name in active[-1]:
            records[name].flops += 2 * multiply_adds
            records[name].activation_bytes += nbytes

    handles = []
    for name, module in modules.items():

        def enter(_: Module, args: Any, kwargs: Any, name: str = name) -> None:
            # a container that is not called itself counts its submodules' ops
            active.append(active[-1] | {name, *parents(name)})
            record = records[name]
            record.calls += 1
            if record.calls == 1:
                record.inputs = shapes_in((args, kwargs))

        def leave(_: Module, args: Any, result: Any, name: str = name) -> None:
            active.pop()
            if records[name].calls == 1:
                records[name].outputs = shapes_in(result)

        handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        with OpCounter(add):
            yield
    finally:
        for handle in handles:
            handle.remove()


def parents(name: str) -> list[str]:
    """The names of a module's ancestors: "a.b", "a" and "" for "a.b.c"."""
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(len(parts))] if name else []


def shapes_in(value: Any) -> tuple[Shape, ...]:
    return tuple(tuple(tensor.shape) for tensor in tensors_in(value))


def row_of(name: str, module: Module, record: Record) -> SummaryRow:
    params = list(module.parameters())
    return SummaryRow(
        name=name,
        kind=type(module).__name__,
        depth=len(parents(name)),
        calls=record.calls,
        input_shapes=record.inputs,
        output_shapes=record.outputs,
        params=sum(p.numel() for p in params),
        trainable_params=sum(p.numel() for p in params if p.requires_grad),
        param_bytes=sum(p.numel() * p.itemsize for p in params),
        flops=record.flops,
        activation_bytes=record.activation_bytes,
    )


# ---------------------------------------------------------------- text


def label(row: SummaryRow) -> str:
    short_name = row.name.rpartition(".")[2]
    text = f"{short_name} ({row.kind})" if short_name else row.kind
    return text if row.calls < 2 else f"{text} x {row.calls}"


def shapes(all_shapes: tuple[Shape, ...]) -> str:
    """At most two shapes, and the number of others."""
    text = ", ".join("scalar" if not shape else str(shape) for shape in all_shapes[:2]) or "-"
    return text if len(all_shapes) <= 2 else f"{text}, {len(all_shapes) - 2} more"


def align(line: tuple[str, ...], widths: list[int]) -> str:
    """Left-aligns names and shapes, and right-aligns numbers."""
    texts = [cell.ljust(w) for cell, w in zip(line[:3], widths[:3], strict=True)]
    numbers = [cell.rjust(w) for cell, w in zip(line[3:], widths[3:], strict=True)]
    return "  ".join(texts + numbers)


def tree_prefixes(depths: list[int]) -> list[str]:
    """The prefix of each line of a tree, from the depths of the lines."""
    lines: list[str] = []
    continued: set[int] = set()  # depths with a later line, counted from the end
    for depth in reversed(depths):
        if depth:
            bars = ("│  " if d in continued else "   " for d in range(1, depth))
            lines.append("".join(bars) + ("├─ " if depth in continued else "└─ "))
        else:
            lines.append("")
        continued = {d for d in continued if d <= depth} | {depth}
    return lines[::-1]
