"""Backward: from results to the `.grad` of leaves.

Dependencies of the nodes are counted first; then a node runs once all its gradients are summed. It
is iterative, so depth does not matter. All state is in local dictionaries, so several threads, and
hooks that call backward, may use one graph.

Gradients are plain arrays, and the heap's gate is open. Under `create_graph` they are Tensors, and
everything is recorded.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import device_of, new_array
from ...errors import OutOfSharedMemory
from ...ops.table.sparse_gradient import SparseGradient
from .. import anomaly_mode
from ..dispatch.devices import registered
from ..dispatch.foreign_operands import refuse_foreign
from ..dispatch.no_warnings import no_warnings
from ..dispatch.op_function import Rule, table
from ..grad_mode import recording
from . import hooks
from .accumulate_grad import AccumulateGrad, GradientEdge
from .add_to_grad import add_to_grad
from .current_backward import BackwardRun, backward_state
from .heap_gate import call_with_gate_shut
from .node_hooks import tracing
from .sparse_grad import add_sparse, sparse_root
from .sum_to_size import sum_to_size
from .views_and_inplace import node_of, retain

Node, Port = native.Node, native.Port

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


def as_list(value: Any) -> list[Any]:
    """One tensor, or several in any iterable, as a list: `model.parameters()`, a dict's values."""
    if value is None:
        return []
    if isinstance(value, (native.TensorBase, GradientEdge)):
        return [value]
    if isinstance(value, (tuple, list)):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    is_tensor = hasattr(value, "dtype")  # of another library
    return list(value) if isinstance(value, Iterable) and not is_tensor else [value]


def edge_of(tensor: Any) -> Any:
    """The edge of a tensor, or of a GradientEdge."""
    if isinstance(tensor, GradientEdge):
        return tensor.node if tensor.edge is None else tensor.edge
    return tensor.node if tensor.base is None else node_of(tensor)


def is_on_cpu(x: Any, g: Any) -> bool:
    """Whether a result and its gradient are tensors on the CPU, as far as their classes say."""
    return (
        g.array.__class__ is np.ndarray
        and not isinstance(x, GradientEdge)
        and x.array.__class__ is np.ndarray
    )


def device_of_edge(x: Any) -> Any:
    """The device of a tensor or of a GradientEdge."""
    return x.device if isinstance(x, GradientEdge) else device_of(x.array)


def root_gradients(
    where: str, tensors: list[Any], gradients: Any, create_graph: bool
) -> list[tuple[Any, Any]]:
    """The roots of a backward: each result's edge and gradient."""
    grads = as_list(gradients) if gradients is not None else [None] * len(tensors)
    if len(grads) != len(tensors):
        raise RuntimeError(
            f"{where}: got {len(tensors)} tensors and {len(grads)} gradients: give one for each, "
            f"or None"
        )
    roots = []
    for i, (tensor, g) in enumerate(zip(tensors, grads)):
        edge = edge_of(tensor)
        if edge is None:
            array = tensor.array
            raise RuntimeError(
                f"{where}: element {i} of tensors does not require grad and does not have a "
                f"grad_fn: shape {array.shape}, dtype {array.dtype}; call requires_grad_() on an "
                "input before it is used, and not under no_grad()"
            )
        shape, dtype = edge.shape, edge.dtype
        if g is None:
            if any(n != 1 for n in shape):
                raise RuntimeError(
                    f"{where}: grad can be implicitly created only for scalar outputs: shape "
                    f"{shape}, call sum() or mean() first, or give gradient="
                )
            if dtype.kind == "c":
                raise RuntimeError(
                    f"{where}: grad can be implicitly created only for real scalar outputs but got "
                    f"{dtype}"
                )
            g = native.wrap(native.call(new_array, "ones", shape, dtype, device_of_edge(tensor)))
        elif not isinstance(g, native.TensorBase):
            if isinstance(g, SparseGradient):
                g = sparse_root(where, edge, device_of_edge(tensor), g, create_graph)
                roots.append((edge, g))
                continue
            refuse_foreign(where, (g,))
            raise TypeError(f"{where}: gradients can be either Tensors or None: {type(g).__name__}")
        elif g.array.shape != shape:
            raise RuntimeError(
                f"{where}: Mismatch in shape: the gradient has {g.array.shape}, the output has "
                f"{shape}"
            )
        elif (g.array.dtype.kind == "c") != (dtype.kind == "c"):
            raise RuntimeError(
                f"{where}: For complex Tensors, both grad_output and output are required to have "
                f"the same dtype: the gradient is {g.array.dtype}, the output is {dtype}"
            )
        elif not is_on_cpu(tensor, g) and device_of(g.array) != (place := device_of_edge(tensor)):
            raise RuntimeError(
                f"{where}: Expected all tensors to be on the same device: the gradient of shape "
                f"{shape} is on {device_of(g.array)}, the output on {place}, hint: "
                f"gradient.to({str(place)!r})"
            )
        g = g if create_graph else g.array
        summed = native.sum_to_size(g, edge)
        roots.append((edge, sum_to_size(g, edge, edge) if summed is None else summed))
    return roots


def check_inputs(where: str, inputs: list[Any]) -> list[Any]:
    """The edges of the inputs."""
    edges = []
    for x in inputs:
        if not isinstance(x, (native.TensorBase, GradientEdge)):
            raise TypeError(f"{where}: inputs must be Tensors: {type(x).__name__}")
        edge = edge_of(x)
        if edge is None:
            description = (
                "" if isinstance(x, GradientEdge) else f": {x.array.shape} {x.array.dtype}"
            )
            raise RuntimeError(
                f"{where}: One of the differentiated Tensors does not require grad{description}"
            )
        edges.append(edge)
    return edges


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds to the `.grad` of all leaves that the tensors were computed from.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
        A result or several.
    grad_tensors : Tensor or sequence of Tensor, optional
        The gradient of each; a scalar's is 1 if not given.
    retain_graph : bool, optional
        Whether the saved values are kept for another backward; by default as `create_graph`.
    create_graph : bool, optional
        Whether the gradients are themselves recorded.
    inputs : Tensor or sequence of Tensor, optional
        Only these get a `.grad`; they need not be leaves. A GradientEdge that is not a leaf's
        cannot have one: only its hooks are called.

    Raises
    ------
    RuntimeError
        A result without history, or of several elements without its gradient; a second backward
        through a freed graph; a saved value that was written since.

    See Also
    --------
    grad, Tensor.backward

    Examples
    --------
    >>> x = st.tensor([1., 2.], requires_grad=True)
    >>> st.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    >>> st.autograd.backward([x * 3], [st.ones(2)])  # added
    >>> x.grad
    tensor([5., 7.])
    """
    retain_graph = create_graph if retain_graph is None else retain_graph
    roots = root_gradients("backward", as_list(tensors), grad_tensors, create_graph)
    input_edges: list[Any] | None = None
    if inputs is not None:
        xs = as_list(inputs)
        if not xs:
            raise RuntimeError(
                "backward: `inputs` argument to `backward()` cannot be empty: leave it out, or "
                "give the tensors"
            )
        input_edges = check_inputs("backward", xs)
        for x in xs:
            if not isinstance(x, GradientEdge) and x.node.__class__ is not AccumulateGrad:
                retain(x)
    run_in_grad_mode(roots, input_edges, retain_graph, create_graph, True)


def run_in_grad_mode(
    roots: Any, input_edges: Any, retain_graph: bool, create_graph: bool, accumulate: bool
) -> dict[Any, Any]:
    """`run_backward`, which records history under `create_graph`."""
    if not create_graph:
        return run_backward(roots, input_edges, retain_graph, False, accumulate)
    former = recording.get()
    recording.set(True)
    try:
        return run_backward(roots, input_edges, retain_graph, True, accumulate)
    finally:
        recording.set(former)


# ---------------------------------------------------------------- running the nodes


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
        inputs: edges whose gradients are computed, and what leads to them; None for all leaves.
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
    sum_to_edge, call, is_anomaly_mode = native.sum_to_size, native.call, tracing.value
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
            arguments: tuple[Any, ...] = (node, g)
            if must_run is not None and row.__class__ is Rule:  # an op computes what is asked for
                arguments = (node, g, dependencies)
            grads: Any
            if is_anomaly_mode:
                grads = anomaly_mode.gradients(create_graph, *arguments)
            else:
                grads = row.tensors(*arguments) if create_graph else row.arrays(*arguments)
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


# ---------------------------------------------------------------- leaves

# Backwards in several threads may add to `.grad` of one leaf.
accumulate_lock = threading.RLock()
os.register_at_fork(after_in_child=accumulate_lock._at_fork_reinit)  # type: ignore[attr-defined]


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
