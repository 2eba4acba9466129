"""Views and in-place writes: whose history changes when shared memory is written.

A view remembers (parent, version seen, rule, attributes). When memory has been written since, its
history is recorded again from the parent at the next look. A write to a view gives the root a new
node, `WrittenView`: the old root outside the written part, the written value inside.

    root --getitem--> v        v.mul_(w)        root.node = Embedded(old root, mul(old v, w))
                                                 v.node    = getitem(root)      (at the next look)

So there is one history, the root's, and a view holds no reference that its root holds back: no
cycle.

A view whose rule is None cannot be recorded again: it was made under `no_grad`, is one of several
outputs, or comes out of a custom Function, and has the reason in place of the attributes then.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ... import native
from ...ops.table.op_definition import op
from ..grad_mode import FROZEN, inferring, recording
from .accumulate_grad import AccumulateGrad, hooks_of, node_of_edge
from .unrecorded_views import ANY, is_unrecorded, node_of_unrecorded

__all__ = [
    "FROM_FUNCTION",
    "WrittenView",
    "history",
    "may_forget",
    "may_write",
    "retain",
    "rewrite_history",
]

ops: Any = None  # the table on Tensors, set by op_function.py
FROM_FUNCTION = ("made inside a custom Function (or an input that it returned as it is)",)


def history(view: Any) -> Any:
    """The node of a view, recorded again if its memory was written meanwhile."""
    parent, seen, rule, attributes = view.base
    count = view.version.count
    if seen == count:
        return view.node
    if parent.version is not view.version:  # the parent has other memory now (resize_, set_)
        view.base = None
        return view.node
    if seen < 0:
        if view.node is None and not recording.get():
            return ANY
        return node_of_unrecorded(view, chain_to(view)[0], ~seen == count)
    node = parent.node if parent.base is None else history(parent)
    if node is None or view.node.__class__ is AccumulateGrad:
        view.base = (parent, count, rule, attributes)
        return view.node
    if rule is None:
        if view.node is None:  # nothing required grad when it was made
            return None
        owner, _ = node_of_edge(view.node)
        reason = "that is one of several outputs"
        if attributes is FROM_FUNCTION:
            (reason,) = FROM_FUNCTION
        raise RuntimeError(
            f"{owner.row.name.lstrip('_')}: a view {reason} was read after its base was modified "
            f"inplace: shape {view.array.shape}, its history is lost; modify a clone() instead"
        )
    again, parent = recorded_again(view)
    former, view.node = view.node, again.node
    view.base = (parent, count, rule, attributes)
    if view.leaf is not None and former is not None:
        move_retained(view, former)
    return view.node


def recorded_again(view: Any) -> tuple[Any, Any]:
    """The same view of its base as that is now, and the base. A base that was given another
    geometry in place (t_, squeeze_) is a view of what it was before, which is the base then.

    Raises:
        RuntimeError: the base has another geometry, and is no such view.
    """
    parent, _, rule, attributes = view.base
    mode = recording.get()
    recording.set(True)
    try:
        while True:
            try:
                again = rule.again(parent, attributes)
            except (RuntimeError, IndexError, ValueError):  # the base has not these dimensions
                again = None
            if again is not None and is_same(again.array, view.array):
                return again, parent
            if parent.base is None:
                break
            parent = parent.base[0]
    finally:
        recording.set(mode)
    raise outdated(view)


def outdated(view: Any) -> RuntimeError:
    return RuntimeError(
        "view: its base was given another geometry in place (t_, squeeze_, resize_, set_): shape "
        f"{view.array.shape}, take the view anew"
    )


def is_same(a: Any, b: Any) -> bool:
    """Are these the same elements of memory, in the same order?"""
    return bool(
        a.shape == b.shape
        and a.ctypes.data == b.ctypes.data
        and (a.strides == b.strides or not a.size)
    )


def requires_grad(tensor: Any) -> bool:
    """Whether a tensor requires grad; also where its history is lost."""
    if tensor.base is None:
        return tensor.node is not None
    _, seen, rule, _ = tensor.base
    if rule is None:
        return tensor.node is not None or (seen < 0 and chain_to(tensor)[0].node is not None)
    return history(tensor) is not None


def node_of(tensor: Any) -> Any:
    """The current node of any tensor."""
    return tensor.node if tensor.base is None else history(tensor)


def chain_to(view: Any) -> tuple[Any, list[tuple[Any, tuple[Any, ...]]]]:
    """The root of a view, and the steps from there to it."""
    steps = []
    while view.base is not None:
        parent, _, rule, attributes = view.base
        if parent.version is not view.version:  # the parent has other memory now
            view.base = None
            break
        steps.append((rule, attributes))
        view = parent
    return view, steps[::-1]


def may_change(tensor: Any) -> None:
    """Checks that a tensor may be changed in place at all.

    Raises:
        RuntimeError: it was made in inference mode, and that is over.
    """
    if tensor.version is FROZEN and not inferring.get():
        raise RuntimeError(
            "in-place write: Inplace update to inference tensor outside InferenceMode is not "
            f"allowed: shape {tensor.array.shape}, make a clone() of it first"
        )


def may_write(tensor: Any) -> None:
    """Checks that a recorded in-place write to the tensor is allowed.

    Raises:
        RuntimeError: a leaf that requires grad, a view of one, or a view without a rule.
    """
    may_change(tensor)
    if tensor.node.__class__ is AccumulateGrad:
        raise RuntimeError(
            "in-place write: a leaf Variable that requires grad is being used in an in-place "
            "operation: "
            f"shape {tensor.array.shape}, write under no_grad() or to a clone()"
        )
    if tensor.base is None:
        return
    root, steps = chain_to(tensor)
    if root.node.__class__ is AccumulateGrad:
        raise RuntimeError(
            "in-place write: a view of a leaf Variable that requires grad is being used in an "
            "in-place operation: "
            f"shape {tensor.array.shape} of {root.array.shape}, write under no_grad() or to a "
            f"clone()"
        )
    if any(rule is None for rule, _ in steps):
        reason = "made under no_grad() or one of several outputs"
        if any(attributes is FROM_FUNCTION for _, attributes in steps):
            (reason,) = FROM_FUNCTION
        raise RuntimeError(
            f"in-place write: a view {reason} is being modified inplace with grad mode "
            f"enabled: shape {tensor.array.shape}, write to a clone()"
        )


def may_forget(tensor: Any) -> None:
    """Checks that an in-place write without history (a random fill, a view made under `no_grad`) is
    allowed.

    Raises:
        RuntimeError: grad mode is on, and the tensor or what it is a view of requires grad.
    """
    if (tensor.node is None and tensor.base is None) or not recording.get():
        return
    if tensor.node is None and chain_to(tensor)[0].node is None:
        return
    may_write(tensor)


def rewrite_history(tensor: Any, rule: Any, edges: tuple[Any, ...], *saved: Any) -> Any:
    """Gives a tensor that was just written its new history; `rule` computed what it now holds.

    The saved values are checked against the count of writes before this one: an operand that shares
    the written memory (`x.mul_(x)`) is refused at backward.
    """
    if tensor.array.dtype.kind not in "fc":
        return native.wrote(tensor)
    former = tensor.node
    if tensor.base is not None and former is not None and calls_hooks(former):
        edges = tuple(bare(e, tensor.array) if e is former else e for e in edges)
    native.rewrite(tensor, rule, edges, *saved)
    if tensor.base is not None:
        embed(tensor, tensor.node)
    if tensor.leaf is not None and former is not None:
        move_retained(tensor, former)
    return tensor


def calls_hooks(edge: Any) -> bool:
    """Has somebody registered hooks there?"""
    hooks = edge.hooks if isinstance(edge, native.Node) else None
    return hooks is not None and bool(hooks.outputs or hooks.before or hooks.post)


def bare(node: Any, array: Any) -> Any:
    """The node of a view once more, without hooks: those of a view that is written are not called,
    because a backward takes the way over its base.
    """
    return native.Node(node.row, node.edges, node.saved, array)


def embed(view: Any, value: Any) -> None:
    """The root of a written view gets the written value (a node) as part of its history."""
    root, steps = chain_to(view)
    if root.node is None and not is_same(root_part(root.array, steps), view.array):
        raise outdated(view)
    plant(root, root.node, value, steps)


def plant(root: Any, former: Any, value: Any, steps: list[Any]) -> None:
    """Gives a root its node after the part that the steps lead to was written."""
    root.node = native.Node(
        WrittenView, (former, value), (tuple(steps), order_of(root.array)), root.array
    )
    if root.leaf is not None and former is not None:
        move_retained(root, former)


def set_item(x: Any, index: Any, value: Any) -> None:
    """`x[index] = value`: the row of a written view with one more step."""
    rule = ops._getitem_rule
    node = node_of(value)
    untracked = (node is None and node_of(x) is None) or x.array.dtype.kind not in "fc"
    if untracked or not recording.get():
        native.write(x, native.assign, x.array, index, value.array)
        return
    may_write(x)
    root, steps = chain_to(x)
    edges = (node_of(root), node)
    native.write(x, native.assign, x.array, index, value.array)
    part = native.call(native.item, root_part(root.array, steps), index)
    stored = None if node is None else native.Node(Stored, (node,), (), part)
    steps.append((rule, (index,)))
    plant(root, edges[0], stored, steps)


def root_part(array: Any, steps: list[tuple[Any, tuple[Any, ...]]]) -> Any:
    for rule, attributes in steps:
        array = rule.on_array(array, *attributes)
    return array


def retain(tensor: Any) -> None:
    """The tensor, not a leaf, gets a `.grad` too."""
    node = node_of(tensor)
    if node is None:
        raise RuntimeError(
            f"retain_grad: can't retain_grad on Tensor that has requires_grad=False: shape "
            f"{tensor.array.shape}"
        )
    if node.__class__ is AccumulateGrad or is_unrecorded(node):
        return
    if tensor.leaf is None:
        tensor.leaf = AccumulateGrad(tensor)
    owner, index = node_of_edge(node)
    hooks_of(owner).retained[index] = weakref.ref(tensor)


def move_retained(tensor: Any, former: Any) -> None:
    """`retain_grad` follows the tensor to its new node."""
    if former.__class__ is AccumulateGrad or tensor.node is former:
        return
    owner, index = node_of_edge(former)
    if owner.hooks is not None and owner.hooks.retained.pop(index, None) is not None:
        retain(tensor)


def order_of(array: Any) -> tuple[int, ...] | None:
    """The order of dimensions in memory, slowest first; None if it is the usual one."""
    if array.flags.c_contiguous:
        return None
    return tuple(int(i) for i in np.argsort([-s for s in array.strides], kind="stable"))


def in_dim_order(g: Any, order: tuple[int, ...] | None) -> Any:
    """A copy of g with dimensions in that order in memory, so that the steps of a view apply to it
    as views.
    """
    if order is None:
        return np.array(g, order="C", copy=True)
    fresh = np.empty([g.shape[i] for i in order], g.dtype).transpose(np.argsort(order))
    fresh[...] = g
    return fresh


# ---------------------------------------------------------------- rows over a chain of view steps


@op(method=False, function=False, samples=(), halves="copies")
def _zero_view(xp, x, /, steps, order):  # type: ignore[no-untyped-def]
    """x with zeros in the part that the steps lead to."""
    fresh = in_dim_order(x, order)
    *before, (rule, attributes) = steps
    part = root_part(fresh, before)
    if rule.row.name == "_getitem":
        part[attributes[0]] = 0
    else:
        rule.on_array(part, *attributes)[...] = 0
    return fresh


@op(method=False, function=False, samples=(), halves="copies")
def _replay_view(xp, x, /, steps, order):  # type: ignore[no-untyped-def]
    """The part of x that the steps lead to."""
    return root_part(x if order is None else in_dim_order(x, order), list(steps)).copy()


@op(method=False, function=False, samples=(), halves="copies")
def _replay_view_backward(xp, x, /, shape, steps, order):  # type: ignore[no-untyped-def]
    """Zeros of that shape, with x in the part that the steps lead to."""
    fresh = in_dim_order(np.zeros(shape, x.dtype), order)
    *before, (rule, attributes) = steps
    part = root_part(fresh, before)
    if rule.row.name == "_getitem":
        part[attributes[0]] = x
    else:
        rule.on_array(part, *attributes)[...] = x
    return fresh


_zero_view.pullback(x=lambda ops, g, steps, order: ops._zero_view(g, steps, order))
_replay_view.pullback(
    x=lambda ops, g, x_shape, steps, order: ops._replay_view_backward(g, x_shape, steps, order)
)
_replay_view_backward.pullback(x=lambda ops, g, steps, order: ops._replay_view(g, steps, order))


class WrittenView:
    """The rule of a root whose view was written: edges (old root, written value)."""

    name = "copy_slices"
    shown = "CopySlices"

    @staticmethod
    def gradients(table: Any, node: Any, g: Any) -> tuple[Any, Any]:
        steps, order = node.saved
        root, value = node.edges
        return (
            None if root is None else table._zero_view(g, steps, order),
            None if value is None else table._replay_view(g, steps, order),
        )

    @staticmethod
    def arrays(node: Any, g: Any) -> tuple[Any, Any]:
        return WrittenView.gradients(ops.arrays, node, g)

    @staticmethod
    def tensors(node: Any, g: Any) -> tuple[Any, Any]:
        return WrittenView.gradients(ops, node, g)


class Stored:
    """The rule of a value on its way into `x[index]`: it may have been broadcast, and cast."""

    name = "stored"

    @staticmethod
    def arrays(node: Any, g: Any) -> tuple[Any]:
        return (g,)

    tensors = arrays
