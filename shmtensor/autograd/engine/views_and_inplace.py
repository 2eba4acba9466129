"""Views and in-place writes: how history follows writes to shared memory.

A view stores (parent, version, rule, attributes). If its memory was written since, its history is
recorded again from the parent at the next use. A write to a view gives the root a new node,
`CopySlices`: the old root outside the written part, the written value inside.

    root --getitem--> v        v.mul_(w)        root.node = CopySlices(old root, mul(old v, w))
                                                 v.node    = getitem(root)      (at the next use)

So there is one history, the root's, and a view holds no reference that its root holds, too: no
cycle.

A view whose rule is None cannot be recorded again: it was made under `no_grad`, is one of several
outputs, or comes out of a custom Function; then FROM_FUNCTION replaces the attributes. The version
of a view made under `no_grad` is the complement ~count: Note [Unrecorded views] in
native/dispatch/op_result.cc.
"""

from __future__ import annotations

import operator
import weakref
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import array_module, check_writable, device_of, guard, pointer
from ...ops.index.getitem_index_put_where import may_repeat
from ...ops.table.op_table import op
from ..grad_mode import FROZEN, inferring, recording
from .accumulate_grad import AccumulateGrad, hooks_of, node_of_edge
from .unrecorded_views import ANY, is_unrecorded, node_of_unrecorded

ops: Any = None  # the table on Tensors, set by op_function.py, and the function array -> table
array_ops: Any = None
rule_of_array: Any = None  # (a rule of the CPU, array) -> the rule of the array's device
FROM_FUNCTION = ("made inside a custom Function (or an input that it returned as it is)",)


def view_node(view: Any) -> Any:
    """The node of a view, recorded again if its memory was written since."""
    parent, version, rule, attributes = view.base
    count = view.version.count
    if version == count:
        return view.node
    if parent.version is not view.version:  # resize_ or set_ gave the parent other memory
        view.base = None
        return view.node
    if version < 0:
        if view.node is None and not recording.get():
            return ANY
        return node_of_unrecorded(view, root_and_steps(view)[0], ~version == count)
    node = parent.node if parent.base is None else view_node(parent)
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
    view_now, parent = regenerate_view(view)
    old_node, view.node = view.node, view_now.node
    view.base = (parent, count, rule, attributes)
    if view.accumulate_grad is not None and old_node is not None:
        move_retain_grad(view, old_node)
    return view.node


def regenerate_view(view: Any) -> tuple[Any, Any]:
    """The same view, recorded from the current base, and that base. If the base changed its
    geometry in place (t_, squeeze_), it is itself a view of its former self, which is then the
    base.

    Raises:
        RuntimeError: the base changed its geometry, and is not such a view.
    """
    parent, _, rule, attributes = view.base
    mode = recording.get()
    recording.set(True)
    try:
        while True:
            try:
                result = rule.replay(parent, attributes)
            except (RuntimeError, IndexError, ValueError):  # the base lacks these dimensions
                result = None
            if result is not None and is_same_memory(result.array, view.array):
                return result, parent
            if parent.base is None:
                break
            parent = parent.base[0]
    finally:
        recording.set(mode)
    raise geometry_error(view)


def geometry_error(view: Any) -> RuntimeError:
    return RuntimeError(
        "view: its base was given another geometry in place (t_, squeeze_, resize_, set_): shape "
        f"{view.array.shape}, take the view anew"
    )


def is_same_memory(a: Any, b: Any) -> bool:
    """Are these the same elements of memory, in the same order?"""
    return bool(
        a.shape == b.shape and pointer(a) == pointer(b) and (a.strides == b.strides or not a.size)
    )


def requires_grad(tensor: Any) -> bool:
    """Whether a tensor requires grad, even if its history is lost."""
    if tensor.base is None:
        return tensor.node is not None
    _, version, rule, _ = tensor.base
    if rule is None:
        return tensor.node is not None or (
            version < 0 and root_and_steps(tensor)[0].node is not None
        )
    return view_node(tensor) is not None


def node_of(tensor: Any) -> Any:
    """The current node of any tensor."""
    return tensor.node if tensor.base is None else view_node(tensor)


def root_and_steps(view: Any) -> tuple[Any, list[tuple[Any, tuple[Any, ...]]]]:
    """The root of a view, and the steps from the root to the view."""
    steps = []
    while view.base is not None:
        parent, _, rule, attributes = view.base
        if parent.version is not view.version:  # the parent got other memory
            view.base = None
            break
        steps.append((rule, attributes))
        view = parent
    return view, steps[::-1]


def check_inference_write(tensor: Any) -> None:
    """Checks that a tensor may be changed in place at all."""
    if tensor.version is FROZEN and not inferring.get():
        raise RuntimeError(
            "in-place write: Inplace update to inference tensor outside InferenceMode is not "
            f"allowed: shape {tensor.array.shape}, make a clone() of it first"
        )


def check_recorded_write(tensor: Any) -> None:
    """Checks that a recorded in-place write to the tensor is allowed."""
    check_inference_write(tensor)
    if tensor.node.__class__ is AccumulateGrad:
        raise RuntimeError(
            "in-place write: a leaf Variable that requires grad is being used in an in-place "
            f"operation: shape {tensor.array.shape}, write under no_grad() or to a clone()"
        )
    if tensor.base is None:
        return
    root, steps = root_and_steps(tensor)
    if root.node.__class__ is AccumulateGrad:
        raise RuntimeError(
            "in-place write: a view of a leaf Variable that requires grad is being used in an "
            f"in-place operation: shape {tensor.array.shape} of {root.array.shape}, write under "
            "no_grad() or to a clone()"
        )
    if any(rule is None for rule, _ in steps):
        reason = "made under no_grad() or one of several outputs"
        if any(attributes is FROM_FUNCTION for _, attributes in steps):
            (reason,) = FROM_FUNCTION
        raise RuntimeError(
            f"in-place write: a view {reason} is being modified inplace with grad mode "
            f"enabled: shape {tensor.array.shape}, write to a clone()"
        )


def check_unrecorded_write(tensor: Any) -> None:
    """Checks that an in-place write without history (a random fill, a view made under `no_grad`) is
    allowed.

    Raises:
        RuntimeError: grad mode is on, the tensor or its root requires grad, and
            `check_recorded_write` does not allow the write.
    """
    if (tensor.node is None and tensor.base is None) or not recording.get():
        return
    if tensor.node is None and root_and_steps(tensor)[0].node is None:
        return
    check_recorded_write(tensor)


def rewrite_history(tensor: Any, rule: Any, edges: tuple[Any, ...], *saved: Any) -> Any:
    """Gives a tensor that `rule` has just written its new history.

    The saved values are checked against the count of writes before this one, so an operand that
    shares the written memory (`x.mul_(x)`) is an error in backward.
    """
    if tensor.array.dtype.kind not in "fc":
        return native.wrote(tensor)
    old_node = tensor.node
    if tensor.base is not None and old_node is not None and calls_hooks(old_node):
        edges = tuple(without_hooks(e, tensor.array) if e is old_node else e for e in edges)
    native.rewrite(tensor, rule, edges, *saved)
    if tensor.base is not None:
        write_to_root(tensor, tensor.node)
    if tensor.accumulate_grad is not None and old_node is not None:
        move_retain_grad(tensor, old_node)
    return tensor


def calls_hooks(edge: Any) -> bool:
    """Whether the node of an edge has hooks."""
    hooks = edge.hooks if isinstance(edge, native.Node) else None
    return hooks is not None and bool(hooks.tensor_hooks or hooks.prehooks or hooks.posthooks)


def without_hooks(node: Any, array: Any) -> Any:
    """A copy of a view's node without hooks. Hooks of a written view are not called, because
    backward goes through its base.
    """
    return native.Node(node.row, node.edges, node.saved, array)


def write_to_root(view: Any, node: Any) -> None:
    """Adds the node of the written value to the history of a view's root."""
    root, steps = root_and_steps(view)
    if root.node is None and not is_same_memory(root_part(root.array, steps), view.array):
        raise geometry_error(view)
    set_copy_slices(root, root.node, node, steps)


def set_copy_slices(root: Any, old_node: Any, node: Any, steps: list[Any]) -> None:
    """Gives a root its node after a write to the part that the steps select."""
    root.node = native.Node(
        CopySlices, (old_node, node), (tuple(steps), dim_order(root.array)), root.array
    )
    if root.accumulate_grad is not None and old_node is not None:
        move_retain_grad(root, old_node)


def set_item(x: Any, index: Any, value: Any) -> None:
    """`x[index] = value`: a write to a view, with the index as one more step."""
    is_on_cpu = isinstance(x.array, np.ndarray)
    assign = native.assign if is_on_cpu else guard(assign_on_device)
    node = node_of(value)
    is_number = not is_on_cpu and node is None and is_on_host(value.array) and not value.array.ndim
    if not is_number and device_of(value.array) != device_of(x.array):
        value = ops._to_device(value, device_of(x.array), device_of(value.array))
        node = node_of(value)
    untracked = (node is None and node_of(x) is None) or x.array.dtype.kind not in "fc"
    if untracked or not recording.get():
        native.write(x, assign, x.array, index, value.array)
        return
    check_recorded_write(x)
    root, steps = root_and_steps(x)
    edges = (node_of(root), node)
    native.write(x, assign, x.array, index, value.array)
    item = native.item if is_on_cpu else operator.getitem
    part = native.call(item, root_part(root.array, steps), index)
    value_node = None if node is None else native.Node(StoredValue, (node,), (), part)
    rule = ops._getitem_kept_rule if is_on_cpu and may_repeat(index) else ops._getitem_rule
    steps.append((rule_of_array(rule, x.array), (index,)))
    set_copy_slices(root, edges[0], value_node, steps)


def assign_on_device(array: Any, index: Any, values: Any) -> Any:
    """`array[index] = values`, on a device's array. Values are cast, complex ones to their real
    parts. A NumPy array without dimensions is one number, which the kernel takes by value.
    """
    check_writable(array)
    if values.dtype.kind == "c" and array.dtype.kind != "c":
        values = values.real
    array[index] = values[()].astype(array.dtype) if is_on_host(values) else values
    return array


def is_on_host(array: Any) -> bool:
    return isinstance(array, np.ndarray)


def root_part(array: Any, steps: list[tuple[Any, tuple[Any, ...]]]) -> Any:
    for rule, attributes in steps:
        array = rule.on_array(array, *attributes)
    return array


def retain(tensor: Any) -> None:
    """Gives a tensor that is not a leaf a `.grad`, too."""
    node = node_of(tensor)
    if node is None:
        raise RuntimeError(
            f"retain_grad: can't retain_grad on Tensor that has requires_grad=False: shape "
            f"{tensor.array.shape}"
        )
    if node.__class__ is AccumulateGrad or is_unrecorded(node):
        return
    if tensor.accumulate_grad is None:
        tensor.accumulate_grad = AccumulateGrad(tensor)
    owner, index = node_of_edge(node)
    hooks_of(owner).retains_grad[index] = weakref.ref(tensor)


def move_retain_grad(tensor: Any, old_node: Any) -> None:
    """Moves `retain_grad` to the tensor's new node."""
    if old_node.__class__ is AccumulateGrad or tensor.node is old_node:
        return
    owner, index = node_of_edge(old_node)
    if owner.hooks is not None and owner.hooks.retains_grad.pop(index, None) is not None:
        retain(tensor)


def dim_order(array: Any) -> tuple[int, ...] | None:
    """The order of dimensions in memory, outermost first; None if C-contiguous."""
    if array.flags.c_contiguous:
        return None
    return tuple(int(i) for i in np.argsort([-s for s in array.strides], kind="stable"))


def copy_in_dim_order(g: Any, order: tuple[int, ...] | None) -> Any:
    """A copy of g with that order of dimensions in memory, so that the steps of a view give views
    of it.
    """
    xp = array_module(g)
    if order is None:
        return xp.array(g, order="C", copy=True)
    inverse = sorted(range(len(order)), key=order.__getitem__)
    result = xp.empty([g.shape[i] for i in order], g.dtype).transpose(inverse)
    result[...] = g
    return result


# ---------------------------------------------------------------- rows that apply view steps


def is_indexing(rule: Any) -> bool:
    """Whether a step is an index, by which an assignment writes."""
    attributes = rule.row.attributes
    return bool(attributes) and attributes[0].kind == "index"


@op(method=False, function=False, samples=(), halves="copies")
def _zero_view(xp, x, /, steps, order):  # type: ignore[no-untyped-def]
    """x with zeros in the part that the steps select."""
    result = copy_in_dim_order(x, order)
    *outer_steps, (rule, attributes) = steps
    part = root_part(result, outer_steps)
    if is_indexing(rule):
        part[attributes[0]] = 0
    else:
        rule.on_array(part, *attributes)[...] = 0
    return result


@op(method=False, function=False, samples=(), halves="copies")
def _replay_view(xp, x, /, steps, order):  # type: ignore[no-untyped-def]
    """The part of x that the steps select."""
    return root_part(x if order is None else copy_in_dim_order(x, order), list(steps)).copy()


@op(method=False, function=False, samples=(), halves="copies")
def _replay_view_backward(xp, x, /, shape, steps, order):  # type: ignore[no-untyped-def]
    """Zeros of that shape, with x in the part that the steps select."""
    result = copy_in_dim_order(xp.zeros(shape, x.dtype), order)
    *outer_steps, (rule, attributes) = steps
    part = root_part(result, outer_steps)
    if is_indexing(rule):
        part[attributes[0]] = x
    else:
        rule.on_array(part, *attributes)[...] = x
    return result


_zero_view.pullback(x=lambda ops, g, steps, order: ops._zero_view(g, steps, order))
_replay_view.pullback(
    x=lambda ops, g, x_shape, steps, order: ops._replay_view_backward(g, x_shape, steps, order)
)
_replay_view_backward.pullback(x=lambda ops, g, steps, order: ops._replay_view(g, steps, order))


class CopySlices:
    """The rule of a root after a write to its view: edges (old root, written value)."""

    name = "copy_slices"
    display_name = "CopySlices"

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
        return CopySlices.gradients(array_ops(g), node, g)

    @staticmethod
    def tensors(node: Any, g: Any) -> tuple[Any, Any]:
        return CopySlices.gradients(ops, node, g)


class StoredValue:
    """The rule of a value in `x[index] = value`, which may be broadcast and cast."""

    name = "stored"

    @staticmethod
    def arrays(node: Any, g: Any) -> tuple[Any]:
        return (g,)

    tensors = arrays
