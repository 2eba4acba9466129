"""Backward: the walk over the graph, from results to leaves.

Edges are counted first; then a node runs once all gradients that come to it are summed. Iterative,
so depth does not matter. All state is in local dictionaries: several threads, and hooks that walk
again, may use one graph.

Gradients are plain arrays, and the heap is open; under `create_graph` they are Tensors, and
everything is recorded.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import native
from ...errors import OutOfSharedMemory
from .. import anomaly_mode
from ..dispatch.no_warnings import no_warnings
from ..dispatch.op_function import table
from ..grad_mode import recording
from . import hooks
from .accumulate_grad import AccumulateGrad
from .grad_buffer import in_grad_buffer
from .heap_gate import shut
from .node_hooks import is_tracing
from .running import BackwardRun, walks
from .sparse_grad import SparseGradient, added
from .sum_to_size import sum_to_size

__all__ = ["run_steps", "waiting_for"]

Node, Port = native.Node, native.Port
add_arrays = native.InFloat32(np.add)  # gradients of 16 bits are summed so, and stay of 16 bits

# `.grad` of one leaf may be added to by walks in several threads.
accumulating = threading.RLock()
os.register_at_fork(after_in_child=accumulating._at_fork_reinit)  # type: ignore[attr-defined]

# Note [Taking over a gradient]: what becomes `.grad` of a leaf that has none, native.steal_gradient
# decides. It takes the gradient out of the walk's dictionary, and the C code then holds the only
# reference that the walk has, so the count says whether anybody else (a hook, a node, the caller)
# has one:
#
#   born at home, and nobody else has it     the array itself: grad_buffer.py
#   elsewhere, and the home is free          the home, with a copy in it
#   nobody else has it, it owns its memory,  the array itself
#     and lies as the leaf does
#   else                                     a copy, which lies as the leaf does: PyTorch's contract
#
# So no variable here may refer to a gradient that is delivered. One that does costs a copy.


@no_warnings
def run_steps(
    roots: Sequence[tuple[Any, Any]],
    wanted: Sequence[Any] | None,
    keep: bool,
    create: bool,
    accumulate: bool,
) -> dict[Any, Any]:
    """`steps`, with the heap open: what pullbacks compute on plain arrays is born shared, too."""
    token = native.gate_open()
    walks.depth += 1
    ends: Sequence[Any] = ()
    try:
        found = steps(roots, wanted, keep, create, accumulate)
    except MemoryError as error:
        reason = native.take_allocation_failure()
        if reason is None or isinstance(error, OutOfSharedMemory):
            raise
        raise OutOfSharedMemory(f"backward: {reason}") from error
    finally:
        native.gate_close(token)
        walks.depth -= 1
        if walks.ends and not walks.depth:
            ends, walks.ends = walks.ends, []
    for end in ends:
        end()
    return found


def steps(
    roots: Sequence[tuple[Any, Any]],
    wanted: Sequence[Any] | None,
    keep: bool,
    create: bool,
    accumulate: bool,
) -> dict[Any, Any]:
    """Runs the graph backward.

    Args:
        roots: pairs (edge, gradient there).
        wanted: edges whose gradients are asked for; None for all leaves.
        keep: saved values are kept for another walk.
        create: gradients are Tensors with history.
        accumulate: leaves add to their `.grad`.

    Returns:
        The gradients of the wanted edges, without those that leaves added to their `.grad`: key
        (node, output number), or the AccumulateGrad.
    """
    starts = [e.node if e.__class__ is Port else e for e, _ in roots]
    needed: set[Any] | None = None
    captures: dict[Any, set[int]] = {}
    if wanted is None:
        waiting = waiting_for(starts)
    else:
        for e in wanted:
            node, index = (e.node, e.index) if e.__class__ is Port else (e, 0)
            captures.setdefault(node, set()).add(index)
        waiting, needed = leading_to(starts, list(captures))
    found: dict[Any, Any] = {}
    sums: dict[Any, Any] = {}
    made: set[Any] = set()  # edges whose sum this walk made, and may add to
    this = BackwardRun(waiting, needed, captures)
    if not accumulate:  # what only the caller gets must not be born at home
        this.held = [
            e.grad_buffer.take()
            for e in captures
            if e.__class__ is AccumulateGrad and e.grad_buffer is not None
        ]
    fit, call, anomalies = native.sum_to_size, native.call, is_tracing()
    for e, g in roots:
        if e.__class__ is Port:
            add_output(sums, e, g, create)
        else:
            add(sums, e, g, create)
    ready = [node for node in dict.fromkeys(starts) if not waiting[node]]
    while ready:
        node = ready.pop()
        if node.__class__ is AccumulateGrad:
            if node not in sums:
                continue
            if node.hooks:
                run = hooks.run_tensor_hooks
                sums[node] = guarded(this, create, run, node.hooks, sums[node])
            if accumulate and (needed is None or node in captures):
                if node.before:
                    run = hooks.run_tensor_hooks
                    sums[node] = guarded(this, create, run, node.before, sums[node])
                accumulate_gradient(node, sums, create, this)
            elif node in captures:
                found[node] = sums.pop(node)
            else:
                del sums[node]
            continue
        g = sums.pop(node, None)
        row = node.row
        if g is not None:
            own = node.hooks
            if own is not None:
                g = guarded(this, create, hooks.run_before, own, g)
            if node in captures:
                for index in captures[node]:
                    found[node, index] = g[index] if g.__class__ is list else g
            if needed is not None and node not in needed:
                continue
            if own is not None and own.before:
                g = guarded(this, create, hooks.run_prehooks, own.before, g)
            grads: Any
            if anomalies:
                grads = anomaly_mode.gradients(node, g, create)
            else:
                grads = row.tensors(node, g) if create else row.arrays(node, g)
            if own is not None and own.post:
                grads = guarded(this, create, hooks.run_after, own, grads, g)
            if not keep:
                node.release()
        elif needed is not None and node not in needed:
            continue
        else:
            grads = (None,) * len(node.edges)
        g = None
        for e, gx in zip(node.edges, grads):
            if e is None:
                continue
            if e.__class__ is Port:
                target = e.node
                if target not in waiting:
                    continue
                if gx is not None:
                    fitted = fit(gx, e)
                    if fitted is None:
                        fitted = sum_to_size(gx, e, node)
                    add_output(sums, e, fitted, create)
            else:
                target = e
                if target not in waiting:
                    continue
                if gx is not None:
                    fitted = fit(gx, e)
                    if fitted is None:
                        fitted = sum_to_size(gx, e, node)
                    old = sums.get(e)
                    if old is None:
                        sums[e] = fitted
                    elif isinstance(fitted, SparseGradient) or isinstance(old, SparseGradient):
                        sums[e] = added(old, fitted, create, e in made)
                        made.discard(e)
                    elif create:
                        sums[e] = table.add(old, fitted)
                    elif e in made:
                        call(add_arrays, old, fitted, old)
                    else:
                        sums[e] = call(add_arrays, old, fitted)
                        made.add(e)
            left = waiting[target] = waiting[target] - 1
            if not left:
                ready.append(target)
        grads = gx = fitted = old = None  # see Note [Taking over a gradient]
    return found


def users(roots: Sequence[Any]) -> dict[Any, list[Any]]:
    """For each node and leaf that the roots reach: the nodes with an edge to it, one entry per
    edge.
    """
    found: dict[Any, list[Any]] = {node: [] for node in roots}
    stack = list(found)
    while stack:
        node = stack.pop()
        if node.__class__ is AccumulateGrad:
            continue
        for e in node.edges:
            if e is None:
                continue
            if e.__class__ is Port:
                e = e.node
            known = found.get(e)
            if known is None:
                found[e] = [node]
                stack.append(e)
            else:
                known.append(node)
    return found


def waiting_for(roots: Sequence[Any]) -> dict[Any, int]:
    """How many edges lead to each node and leaf that the roots reach: the lengths of `users`,
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


def leading_to(roots: Sequence[Any], targets: Sequence[Any]) -> tuple[dict[Any, int], set[Any]]:
    """The same counts, only of nodes on a way to a target; and the nodes that must run for that."""
    found = users(roots)
    needed: set[Any] = set()
    stack = [t for t in targets if t in found]
    while stack:
        for user in found[stack.pop()]:
            if user not in needed:
                needed.add(user)
                stack.append(user)
    counts = {
        node: sum(user in needed for user in above)
        for node, above in found.items()
        if node in needed or node in targets
    }
    for node in roots:
        counts.setdefault(node, 0)
    return counts, needed


def add(sums: dict[Any, Any], edge: Any, g: Any, create: bool) -> None:
    """Adds a root's gradient."""
    old = sums.get(edge)
    if old is None:
        sums[edge] = g
    else:
        sums[edge] = table.add(old, g) if create else native.call(add_arrays, old, g)


def add_output(sums: dict[Any, Any], port: Any, g: Any, create: bool) -> None:
    """Adds to one output's gradient; a node with several has a list of them, None where none
    came.
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
        gs[index] = table.add(old, g) if create else native.call(add_arrays, old, g)


def guarded(this: Any, create: bool, run: Any, *given: Any) -> Any:
    """User code during the walk: the heap is shut, and history is recorded only under
    `create_graph`.
    """
    former, outer = recording.get(), walks.now
    recording.set(create)
    walks.now = this
    try:
        return shut(run, *given)
    finally:
        recording.set(former)
        walks.now = outer


def in_layout_of_leaf(leaf: Any, g: Any) -> Any:
    """A gradient with history, in the memory layout of its leaf. Copies: none or one."""
    like = native.in_layout_of_grad(g.array, leaf.tensor)
    if like is g.array:
        return g
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    back = sorted(range(like.ndim), key=order.__getitem__)
    return table.permute(table._contiguous(table.permute(g, order)), back)


def accumulate_gradient(leaf: Any, sums: dict[Any, Any], create: bool, this: Any = None) -> None:
    """Takes a leaf's gradient out of the sums, and adds it to `.grad`."""
    with accumulating:
        old = leaf.grad
        if old is None and not create:
            leaf.grad = native.steal_gradient(sums, leaf, leaf.tensor, leaf.grad_buffer)
        else:
            add_to_grad(leaf, old, sums.pop(leaf), create)
    post = leaf.post
    if post:
        tensor = leaf.tensor()
        for hook in list(post.values()):
            guarded(this, create, hook, tensor)


def add_to_grad(leaf: Any, old: Any, g: Any, create: bool) -> None:
    """Adds a gradient to what a leaf has, or gives it one with history."""
    if isinstance(g, SparseGradient) or isinstance(old, SparseGradient):
        leaf.grad = g if old is None else added(old, g, create, True)
    elif create:
        leaf.grad = in_layout_of_leaf(leaf, g) if old is None else table.add(old, g)
    elif leaf.grad_buffer is not None and in_grad_buffer(leaf, old.array):
        add_arrays(old.array, g, old.array)
    elif old.node is None:
        try:
            native.write(old, add_arrays, old.array, g, old.array)
        except ValueError as error:
            if old.array.flags.writeable:
                raise
            raise RuntimeError(
                f"backward: the .grad of a leaf cannot be written: shape {old.array.shape}, it "
                "is stretched (expand) or came read-only; set it to None or to a clone()"
            ) from error
    else:
        leaf.grad = native.wrap(native.call(add_arrays, old.array, g))
