"""Writes the source of an op's functions from its row: dispatch, in-place form, backward, plain
form on arrays.

Dispatch on tiny tensors must cost less than PyTorch's, so nothing is decided at run time that the
row already says: a
generated function has its real public signature and no loops, dictionaries or isinstance chains on
the good path.
What is odd about a call (numbers in front, other dtypes, arrays, wrong types) leaves for
`operands.py`; what the kernel
refuses leaves for `explain.py`.

Locals have a leading underscore, so that attributes may have any name: `_a_x` is the array of input
x, `_n_x` its
node, `_o_out` an output. docs/design/ops.md shows a generated function.
"""

from __future__ import annotations

from ..ops.table import Row
from .writer import EMPTY, Writer

__all__ = [
    "array_source",
    "attribute_defaults",
    "backward_source",
    "inplace_source",
    "public_source",
]


def public_source(row: Row, name: str, variant: str) -> str:
    """The function that users call.

    Args:
        variant: "function", "method" (sizes one by one), "operator" (`x + y`: gives NotImplemented
            for what it does not
            know), "reflected" (`2 - x`: the operands come in the other order).
    """
    w = Writer(row)
    w.add(0, w.signature(name, variant))
    w.preamble(variant, name)
    w.operands(variant)
    kernel = w.kernel_call()
    many = row.listed or len(row.outputs) > 1
    view = row.view and not many
    x = row.inputs[0].public if row.inputs else ""
    attributes = f"({w.comma(a.name for a in row.attributes)})"
    w.add(1, "try:")
    depth = 2
    if w.differentiable:
        if view:
            node = f"_n_{row.inputs[0].name}"
            w.add(2, f"if {node} is None:")
            w.add(3, f"return _compute_view({x}, _rule, {attributes}, {kernel})")
            w.add(2, "if not _mode():")
            w.add(3, f"return _compute_view({x}, None, {attributes}, {kernel})")
        else:
            w.add(2, f"if {w.untracked()}:")
            depth = 3
    if view and not w.differentiable:
        w.add(2, f"return _compute_view({x}, _rule, {attributes}, {kernel})")
    elif not view:
        result = f"_compute({kernel})"
        if row.keeps:
            result = f"_first(_call({kernel}), {len(row.outputs)})"
        if many and row.view:
            result = f"_marked({result}, {x})"
        if not row.listed and len(row.outputs) > 1:
            result = f"_new(_Result, {result})"
        w.add(depth, f"return {result}")
    if w.differentiable:
        names = ["out"] if row.listed else [*row.outputs, *row.keeps]
        w.add(2, f"{', '.join(f'_o_{n}' for n in names)} = _call({kernel})")
    w.failed(variant)
    if w.differentiable:
        saved = "".join(f", {s}" for s in w.saved())
        if view:
            w.add(1, f"return _record_view(_o_out, _rule, {w.edges()}, {x}, {attributes}{saved})")
        elif not many:
            w.add(1, f"return _record(_o_{row.outputs[0]}, _rule, {w.edges()}{saved})")
        else:
            outputs = "_o_out" if row.listed else f"({', '.join(f'_o_{n}' for n in row.outputs)})"
            result = f"_record_many({outputs}, _rule, {w.edges()}{saved})"
            if row.view:
                result = f"_marked({result}, {x})"
            if not row.listed:
                result = f"_new(_Result, {result})"
            w.add(1, f"return {result}")
    return w.text()


def inplace_source(row: Row, name: str) -> str:
    """The in-place form: the same kernel with `out=`, or a copy of its result."""
    w = Writer(row)
    w.add(0, w.signature(name, "inplace"))
    w.preamble("inplace", name)
    w.operands("inplace")
    first = row.inputs[0]
    x, array = first.public, f"_a_{first.name}"
    kernel = w.kernel_call()
    if row.out:
        written = f"_write({x}, {kernel}, {array})"
        tracked = f"_call({kernel}, {array})"
    else:
        result = f"_call({kernel})" + ("[0]" if row.keeps else "")
        written = f"_write({x}, _copyto, {array}, {result})"
        names = ", ".join(f"_o_{n}" for n in [*row.outputs, *row.keeps])
        tracked = f"{names} = _call({kernel})"
    w.add(1, "try:")
    if not w.differentiable:
        given = ", ".join(
            [i.public for i in row.inputs] + [f"{a.name}={a.name}" for a in row.attributes]
        )
        w.add(2, f"if _n_{first.name} is not None and _mode():")  # nothing flows back through it
        w.add(3, f"return _stored({x}, _rule.public({given}))")
        w.add(2, f"_may_forget({x})", f"return {written}")
        w.failed("inplace")
        return w.text()
    w.add(2, f"if {w.untracked(first)}:")
    w.add(3, f"if {x}.base is not None:", f"    _may_forget({x})", f"return {written}")
    w.add(2, f"_may_write({x})")
    if first.name in w.needs:
        w.add(2, f"_old = {w.only_if_needed(first.name, f'{array}.copy()')}")
    w.add(2, tracked)
    if not row.out:
        w.add(2, f"_copyto({array}, _o_{row.outputs[0]})")
    w.failed("inplace")
    w.add(1, f"_o_{row.outputs[0]} = {array}")
    saved = "".join(f", {s}" for s in w.saved(inplace=True))
    w.add(1, f"return _written({x}, _rule, {w.edges()}{saved})")
    return w.text()


def backward_source(row: Row, tensors: bool) -> str:
    """The gradients of the inputs, aligned with the node's edges.

    Args:
        tensors: the saved arrays become tensors again, with their history, so that the gradient is
            itself recorded.
    """
    w = Writer(row)
    kind = "tensors" if tensors else "arrays"
    zeros = "_tensor_zeros" if tensors else "_zeros"
    w.add(0, f"def {row.name}_backward_{kind}(_node, g):")
    names = w.unpacked()
    if names:
        w.add(1, f"{w.comma(names)} = _node.saved")
    else:
        w.add(1, "_node.saved")
    w.add(
        1,
        f"{w.comma(f'*_e_{x.name}' if x.listed else f'_e_{x.name}' for x in w.differentiable)} = "
        f"_node.edges",
    )
    if row.listed:
        w.add(1, "g = [*g, *[None] * (len(_z_out) - len(g))]")
        w.add(1, f"g = [{zeros}(_z) if _t is None else _t for _t, _z in zip(g, _z_out)]")
    elif len(row.outputs) > 1:
        w.add(
            1, f"{', '.join(f'_g_{n}' for n in row.outputs)}, *_ = *g, *[None] * {len(row.outputs)}"
        )
        for n in w.gradients:
            if len(w.gradients) > 1:
                w.add(1, f"if _g_{w.output(n)} is None:", f"    _g_{w.output(n)} = {zeros}(_z_{n})")
            w.add(1, f"{n} = _g_{w.output(n)}")
    elif w.gradients and w.gradients != ["g"]:
        w.add(1, f"{w.gradients[-1]} = g")
    if tensors:
        tracked = {x.name for x in w.differentiable}
        for x in row.inputs:
            if x.name not in w.needs:
                continue
            if x.listed:
                edges = f"_e_{x.name}" if x.name in tracked else f"[None] * len({x.name})"
                w.add(1, f"{x.name} = [_again(_t, _e) for _t, _e in zip({x.name}, {edges})]")
            else:
                edge = f"_e_{x.name}" if x.name in tracked else "None"
                w.add(1, f"{x.name} = _again({x.name}, {edge})")
        for i, n in enumerate(row.outputs):
            if n in w.needs:
                edge = "_node" if len(row.outputs) == 1 else f"_port(_node, {i}, {n})"
                w.add(1, f"{n} = _again({n}, {edge})")
        for n in row.keeps:
            if n in w.needs:
                w.add(1, f"{n} = _again({n}, None)")
    results = []
    for x in w.differentiable:
        needs = row.pullbacks[x.name].needs
        given = {
            "ops": "_ops" if tensors else "_array_ops",
            "into": "None" if tensors or x.listed else f"_into(_e_{x.name})",
        }
        call = f"_p_{x.name}({', '.join(given.get(n, n) for n in needs)})"
        if len(w.differentiable) == 1 and not x.listed:
            results.append(call)
        elif x.listed:
            results.append(f"*([None] * len(_e_{x.name}) if not any(_e_{x.name}) else {call})")
        else:
            results.append(f"None if _e_{x.name} is None else {call}")
    w.add(1, "return (")
    w.add(2, *(f"{r}," for r in results))
    w.add(1, ")")
    return w.text()


def array_source(row: Row) -> str:
    """The op on plain arrays, with the public signature: what `ops.<name>` is inside a walk."""
    w = Writer(row)
    w.add(0, w.signature(row.name, "array"))
    w.preamble("array", row.name)
    for x in row.inputs:
        if x.listed:
            w.add(1, f"_a_{x.name} = [_array(_t) for _t in {x.public}]")
        else:
            w.add(1, f"_a_{x.name} = {x.public}")
            w.add(1, f"if _a_{x.name}.__class__ is not _ndarray:")
            w.add(2, f"_a_{x.name} = _array(_a_{x.name})")
    call = f"_call({w.kernel_call()})"
    if row.keeps:
        call = f"_first_arrays({call}, {len(row.outputs)})"
    w.add(1, f"return {call}")
    return w.text()


def attribute_defaults(row: Row) -> dict[str, object]:
    """The globals that signatures refer to."""
    found = {f"_d_{a.name}": a.default for a in row.attributes if a.default is not EMPTY}
    found.update({f"_d_{k}": v for k, v in row.rarely.items()})
    return found
