"""Backward: runs the nodes of the graph, from results to leaves.

Dependencies are counted first; then a node runs once all its gradients are summed. It is iterative,
so depth does not matter. All state is in local dictionaries, so several threads, and hooks that
call backward, may use one graph.

Gradients are plain arrays, and the heap's gate is open. Under `create_graph` they are Tensors, and
everything is recorded.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from ... import native
from ...cuda_arrays import device_of
from ...errors import OutOfSharedMemory
from ...ops.table.sparse_gradient import SparseGradient
from .. import anomaly_mode
from ..dispatch.devices import registered
from ..dispatch.explain_error import is_writable
from ..dispatch.no_warnings import no_warnings
from ..dispatch.op_function import table
from ..grad_mode import recording
from . import hooks
from .accumulate_grad import AccumulateGrad
from .current_backward import BackwardRun, backward_state
from .grad_buffer import in_grad_buffer
from .heap_gate import call_with_gate_shut
from .node_hooks import is_tracing
from .sparse_grad import add_sparse
from .sum_to_size import sum_to_size

Node, Port = native.Node, native.Port

# Backwards in several threads may add to `.grad` of one leaf.
accumulate_lock = threading.RLock()
os.register_at_fork(after_in_child=accumulate_lock._at_fork_reinit)  # type: ignore[attr-defined]

# Note [Taking over a gradient]: native.steal_gradient decides what becomes the first `.grad` of a
# leaf. It takes the gradient out of the dictionary of sums, so that the C code holds the only
# reference of this backward. The reference count then shows whether a hook, a node or the caller
# has another one:
#
#   in the grad buffer, not shared          the array itself: grad_buffer.py
#   elsewhere, and the grad buffer is free  a copy in the grad buffer
#   not shared, owns its memory,            the array itself
#     and has the leaf's strides
#   else                                    a copy with the leaf's strides: PyTorch's contract
#
# So no variable here may refer to a gradient that is accumulated. One that does costs a copy.


@no_warnings
def run_backward(
    roots: Sequence[tuple[Any, Any]],
    inputs: Sequence[Any] | None,
    retain_graph: bool,
    create_graph: bool,
    accumulate: bool,
) -> dict[Any, Any]:
    """`run_nodes` with the heap's gate open, so that pullbacks allocate their arrays as shared."""
    token = native.gate_open()
    backward_state.depth += 1
    callbacks: Sequence[Any] = ()
    try:
        gradients = run_nodes(roots, inputs, retain_graph, create_graph, accumulate)
    except MemoryError as error:
        reason = native.take_allocation_failure()
        if reason is None or isinstance(error, OutOfSharedMemory):
            raise
        raise OutOfSharedMemory(f"backward: {reason}") from error
    finally:
        native.gate_close(token)
        backward_state.depth -= 1
        if backward_state.callbacks and not backward_state.depth:
            callbacks, backward_state.callbacks = backward_state.callbacks, []
    for callback in callbacks:
        callback()
    return gradients


def run_nodes(
    roots: Sequence[tuple[Any, Any]],
    inputs: Sequence[Any] | None,
    retain_graph: bool,
    create_graph: bool,
    accumulate: bool,
) -> dict[Any, Any]:
    """Runs the graph backward.

    Args:
        roots: pairs (edge, gradient).
        inputs: edges whose gradients are computed; None for all leaves.
        retain_graph: saved values stay for another backward.
        create_graph: gradients are Tensors with history.
        accumulate: leaves add to their `.grad`.

    Returns:
        The gradients of the inputs, except those that leaves added to their `.grad`. The key is
        (node, output number), or the AccumulateGrad.
    """
    starts = [e.node if e.__class__ is Port else e for e, _ in roots]
    must_run: set[Any] | None = None
    captures: dict[Any, set[int]] = {}
    if inputs is None:
        dependencies = count_dependencies(starts)
    else:
        for e in inputs:
            node, index = (e.node, e.index) if e.__class__ is Port else (e, 0)
            captures.setdefault(node, set()).add(index)
        dependencies, must_run = count_dependencies_to(starts, list(captures))
    gradients: dict[Any, Any] = {}
    sums: dict[Any, Any] = {}
    writable: set[Any] = set()  # edges whose sum may be added to in place
    current = BackwardRun(dependencies, must_run, captures)
    if not accumulate:  # the caller's gradients must have memory of their own
        current.buffers = [
            e.grad_buffer.take()
            for e in captures
            if e.__class__ is AccumulateGrad and e.grad_buffer is not None
        ]
    sum_to_edge, call, is_anomaly_mode = native.sum_to_size, native.call, is_tracing()
    add_arrays = registered.add_arrays
    for e, g in roots:
        if e.__class__ is Port:
            add_output(sums, e, g, create_graph)
        else:
            add(sums, e, g, create_graph)
    ready = [node for node in dict.fromkeys(starts) if not dependencies[node]]
    while ready:
        node = ready.pop()
        if node.__class__ is AccumulateGrad:
            if node not in sums:
                continue
            if node.hooks:
                run_hooks = hooks.run_tensor_hooks
                sums[node] = call_hook(current, create_graph, run_hooks, node.hooks, sums[node])
            if accumulate and (must_run is None or node in captures):
                if node.prehooks:
                    run_hooks = hooks.run_tensor_hooks
                    sums[node] = call_hook(
                        current, create_graph, run_hooks, node.prehooks, sums[node]
                    )
                accumulate_gradient(node, sums, create_graph, current)
            elif node in captures:
                gradients[node] = sums.pop(node)
            else:
                del sums[node]
            continue
        g = sums.pop(node, None)
        row = node.row
        if g is not None:
            hooks_of_node = node.hooks
            if hooks_of_node is not None:
                g = call_hook(current, create_graph, hooks.run_tensor_prehooks, hooks_of_node, g)
            if node in captures:
                for index in captures[node]:
                    gradients[node, index] = g[index] if g.__class__ is list else g
            if must_run is not None and node not in must_run:
                continue
            if hooks_of_node is not None and hooks_of_node.prehooks:
                g = call_hook(current, create_graph, hooks.run_prehooks, hooks_of_node.prehooks, g)
            grads: Any
            if is_anomaly_mode:
                grads = anomaly_mode.gradients(node, g, create_graph)
            else:
                grads = row.tensors(node, g) if create_graph else row.arrays(node, g)
            if hooks_of_node is not None and hooks_of_node.posthooks:
                grads = call_hook(
                    current, create_graph, hooks.run_posthooks, hooks_of_node, grads, g
                )
            if not retain_graph:
                node.release()
        elif must_run is not None and node not in must_run:
            continue
        else:
            grads = (None,) * len(node.edges)
        g = None
        for e, gx in zip(node.edges, grads):
            if e is None:
                continue
            if e.__class__ is Port:
                target = e.node
                if target not in dependencies:
                    continue
                if gx is not None:
                    fitted = sum_to_edge(gx, e)
                    if fitted is None:
                        fitted = sum_to_size(gx, e, node)
                    add_output(sums, e, fitted, create_graph)
            else:
                target = e
                if target not in dependencies:
                    continue
                if gx is not None:
                    fitted = sum_to_edge(gx, e)
                    if fitted is None:
                        fitted = sum_to_size(gx, e, node)
                    old = sums.get(e)
                    if old is None:
                        sums[e] = fitted
                    elif isinstance(fitted, SparseGradient) or isinstance(old, SparseGradient):
                        sums[e] = add_sparse(old, fitted, create_graph, e in writable)
                        writable.discard(e)
                    elif create_graph:
                        sums[e] = table.add(old, fitted)
                    elif e in writable:
                        call(add_arrays, old, fitted, old)
                    else:
                        sums[e] = call(add_arrays, old, fitted)
                        writable.add(e)
            remaining = dependencies[target] = dependencies[target] - 1
            if not remaining:
                ready.append(target)
        grads = gx = fitted = old = None  # see Note [Taking over a gradient]
    return gradients


def users(roots: Sequence[Any]) -> dict[Any, list[Any]]:
    """For each node that is reachable from the roots: the nodes with an edge to it, one entry per
    edge.
    """
    users_of: dict[Any, list[Any]] = {node: [] for node in roots}
    stack = list(users_of)
    while stack:
        node = stack.pop()
        if node.__class__ is AccumulateGrad:
            continue
        for e in node.edges:
            if e is None:
                continue
            if e.__class__ is Port:
                e = e.node
            known_users = users_of.get(e)
            if known_users is None:
                users_of[e] = [node]
                stack.append(e)
            else:
                known_users.append(node)
    return users_of


def count_dependencies(roots: Sequence[Any]) -> dict[Any, int]:
    """The number of edges to each node that is reachable from the roots: the lengths of `users`,
    without the lists.
    """
    counts = dict.fromkeys(roots, 0)
    stack = list(counts)
    while stack:
        node = stack.pop()
        if node.__class__ is AccumulateGrad:
            continue
        for e in node.edges:
            if e is None:
                continue
            if e.__class__ is Port:
                e = e.node
            if e in counts:
                counts[e] += 1
            else:
                counts[e] = 1
                stack.append(e)
    return counts


def count_dependencies_to(
    roots: Sequence[Any], targets: Sequence[Any]
) -> tuple[dict[Any, int], set[Any]]:
    """The same counts for nodes on a path to a target, and the nodes that must run for them."""
    users_of = users(roots)
    must_run: set[Any] = set()
    stack = [t for t in targets if t in users_of]
    while stack:
        for user in users_of[stack.pop()]:
            if user not in must_run:
                must_run.add(user)
                stack.append(user)
    counts = {
        node: sum(user in must_run for user in node_users)
        for node, node_users in users_of.items()
        if node in must_run or node in targets
    }
    for node in roots:
        counts.setdefault(node, 0)
    return counts, must_run


def add(sums: dict[Any, Any], edge: Any, g: Any, create_graph: bool) -> None:
    """Adds the gradient of a root."""
    old = sums.get(edge)
    if old is None:
        sums[edge] = g
    elif isinstance(old, SparseGradient) or isinstance(g, SparseGradient):
        sums[edge] = add_sparse(old, g, create_graph)
    else:
        sums[edge] = (
            table.add(old, g) if create_graph else native.call(registered.add_arrays, old, g)
        )


def add_output(sums: dict[Any, Any], port: Any, g: Any, create_graph: bool) -> None:
    """Adds to the gradient of one output. A node with several outputs has a list, with None for a
    missing gradient.
    """
    node, index = port.node, port.index
    gs = sums.get(node)
    if gs is None:
        gs = sums[node] = []
    while len(gs) <= index:
        gs.append(None)
    old = gs[index]
    if old is None:
        gs[index] = g
    else:
        gs[index] = (
            table.add(old, g) if create_graph else native.call(registered.add_arrays, old, g)
        )


def call_hook(current: Any, create_graph: bool, function: Any, *args: Any) -> Any:
    """Calls user code during a backward: the heap's gate is shut, and history is recorded only
    under `create_graph`.
    """
    former, outer = recording.get(), backward_state.current
    recording.set(create_graph)
    backward_state.current = current
    try:
        return call_with_gate_shut(function, *args)
    finally:
        recording.set(former)
        backward_state.current = outer


def in_layout_of_grad(accumulate_grad: Any, g: Any) -> Any:
    """A gradient with history, in the layout that `.grad` needs. Copies: none or one."""
    like = native.in_layout_of_grad(g.array, accumulate_grad.tensor)
    if like is g.array:
        return g
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    inverse = sorted(range(like.ndim), key=order.__getitem__)
    return table.permute(table._contiguous(table.permute(g, order)), inverse)


def accumulate_gradient(
    accumulate_grad: Any, sums: dict[Any, Any], create_graph: bool, current: Any = None
) -> None:
    """Moves a leaf's gradient from the sums to its `.grad`."""
    with accumulate_lock:
        old = accumulate_grad.grad
        if old is None and not create_graph:
            accumulate_grad.grad = native.steal_gradient(
                sums, accumulate_grad, accumulate_grad.tensor, accumulate_grad.grad_buffer
            )
        else:
            add_to_grad(accumulate_grad, old, sums.pop(accumulate_grad), create_graph)
    posthooks = accumulate_grad.posthooks
    if posthooks:
        tensor = accumulate_grad.tensor()
        for hook in list(posthooks.values()):
            call_hook(current, create_graph, hook, tensor)


def add_to_grad(accumulate_grad: Any, old: Any, g: Any, create_graph: bool) -> None:
    """Adds a gradient to a leaf's `.grad`, or sets one with history."""
    if isinstance(g, SparseGradient) or isinstance(old, SparseGradient):
        accumulate_grad.grad = g if old is None else add_sparse(old, g, create_graph, True)
    elif create_graph:
        accumulate_grad.grad = (
            in_layout_of_grad(accumulate_grad, g) if old is None else table.add(old, g)
        )
    else:
        try:
            add_arrays_to_grad(accumulate_grad, old, g)
        except (TypeError, ValueError, RuntimeError) as error:
            explain_grad(old.array, g, error)
            raise


def add_arrays_to_grad(accumulate_grad: Any, old: Any, g: Any) -> None:
    """Adds a gradient without history: in place, unless `.grad` has a history."""
    if accumulate_grad.grad_buffer is not None and in_grad_buffer(accumulate_grad, old.array):
        registered.add_arrays(old.array, g, old.array)
    elif old.node is None:
        native.write(old, registered.add_arrays, old.array, g, old.array)
    else:
        accumulate_grad.grad = native.wrap(native.call(registered.add_arrays, old.array, g))


def explain_grad(old: Any, g: Any, error: Exception) -> None:
    """Raises RuntimeError if `.grad` is on another device than the gradient, or if it cannot be
    written.
    """
    if device_of(old) != device_of(g):
        raise RuntimeError(
            f"backward: the .grad is on {device_of(old)}, the gradient on {device_of(g)}: shape "
            f"{old.shape}, set .grad to None or move it"
        ) from error
    if isinstance(error, ValueError) and not is_writable(old):
        raise RuntimeError(
            f"backward: the .grad of a leaf cannot be written: shape {old.shape}, it is expanded "
            "or read-only; set it to None or to a clone()"
        ) from error
