"""`grad`: gradients with respect to tensors, which are returned."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ... import native
from ...cuda_arrays import new_array
from ..dispatch.op_function import table
from .accumulate_grad import AccumulateGrad, node_of_edge
from .backward import (
    as_list,
    check_inputs,
    device_of_edge,
    edge_of,
    root_gradients,
    run_in_grad_mode,
)
from .hooks import as_tensor

if TYPE_CHECKING:
    from ...tensor import Tensor

K = TypeVar("K")


@overload
def grad(
    outputs: Any,
    inputs: dict[K, Any],
    grad_outputs: Any = ...,
    retain_graph: bool | None = ...,
    create_graph: bool = ...,
    only_inputs: bool = ...,
    allow_unused: bool | None = ...,
    is_grads_batched: bool = ...,
    materialize_grads: bool = ...,
) -> dict[K, Tensor]: ...
@overload
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = ...,
    retain_graph: bool | None = ...,
    create_graph: bool = ...,
    only_inputs: bool = ...,
    allow_unused: bool | None = ...,
    is_grads_batched: bool = ...,
    materialize_grads: bool = ...,
) -> tuple[Tensor, ...]: ...
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of the outputs' sum with respect to the inputs; no `.grad` changes.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        A result or several.
    inputs : Tensor, iterable or dict of Tensor
        The tensors to differentiate by; they need not be leaves. Those of a dict give a dict of
        gradients.
    grad_outputs : Tensor or sequence of Tensor, optional
        The gradient of each output; a scalar's is 1 if not given.
    retain_graph : bool, optional
        Whether the saved values are kept; by default as `create_graph`.
    create_graph : bool, optional
        Whether the gradients are themselves recorded, for higher orders.
    only_inputs : bool, optional
        Deprecated in PyTorch, and without effect: no `.grad` changes in any case.
    allow_unused : bool, optional
        Whether an input that the outputs do not depend on gives None instead of an error.
    is_grads_batched : bool, optional
        Whether grad_outputs have one more dimension in front, and so have the gradients; they are
        computed one by one.
    materialize_grads : bool, optional
        Whether an input that the outputs do not depend on gives zeros instead.

    Returns
    -------
    tuple of Tensor, or dict
        One gradient for each input, of its shape.

    Raises
    ------
    RuntimeError
        As `backward`; no inputs, or one that was not used.

    See Also
    --------
    backward, func.grad

    Examples
    --------
    >>> x = st.tensor(3., requires_grad=True)
    >>> (slope,) = st.autograd.grad(x * x * x, x, create_graph=True)
    >>> (curvature,) = st.autograd.grad(slope, x)
    >>> slope.detach(), curvature
    (tensor(27.), tensor(18.))
    """
    if not isinstance(inputs, native.TensorBase):
        names = list(inputs) if isinstance(inputs, dict) else None
        inputs = as_list(inputs)  # a generator is read once
        if names is not None:
            gradients = grad(
                outputs, inputs, grad_outputs, retain_graph, create_graph, only_inputs,
                allow_unused, is_grads_batched, materialize_grads,
            )  # fmt: skip
            return dict(zip(names, gradients))
    if not only_inputs:
        warnings.warn(
            "grad: only_inputs=False has no effect, and is deprecated: use backward() for the "
            "gradients of other leaves",
            FutureWarning,
            stacklevel=2,
        )
    if is_grads_batched:
        return batched(
            outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused,
            materialize_grads,
        )  # fmt: skip
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "grad: Expected allow_unused to be True or not passed when materialize_grads=True"
        )
    retain_graph = create_graph if retain_graph is None else retain_graph
    xs: Sequence[Any] = as_list(inputs)
    if not xs:
        raise RuntimeError("grad: `inputs` argument to `grad()` cannot be empty: give the tensors")
    input_edges = check_inputs("grad", list(xs))
    roots = root_gradients("grad", as_list(outputs), grad_outputs, create_graph)
    gradients = run_in_grad_mode(roots, input_edges, retain_graph, create_graph, False)
    results = []
    for i, edge in enumerate(input_edges):
        node, index = node_of_edge(edge)
        g = gradients.get(node if node.__class__ is AccumulateGrad else (node, index))
        if g is None and materialize_grads:
            device = device_of_edge(xs[i])
            g = native.wrap(native.call(new_array, "zeros", edge.shape, edge.dtype, device))
            g = g.requires_grad_(create_graph)
        if g is None and not allow_unused:
            raise RuntimeError(
                f"grad: One of the differentiated Tensors appears to not have been used in the "
                f"graph: input {i}, shape {edge.shape}; set allow_unused=True if this is the "
                "desired behavior"
            )
        results.append(as_tensor(g))
    return tuple(results)


def batched(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Any, ...]:
    """`grad` for each of several gradients of the outputs, stacked. The last one frees the graph,
    unless it is retained.
    """
    retain_graph = create_graph if retain_graph is None else retain_graph
    outputs = as_list(outputs)  # a generator is read once
    gs = as_list(grad_outputs)
    sizes = {g.array.shape[0] if g.array.ndim else None for g in gs if g is not None}
    if len(sizes) != 1 or None in sizes:
        raise RuntimeError(
            "grad: is_grads_batched: the gradients need the same leading size: "
            f"{[None if g is None else g.array.shape for g in gs]}"
        )
    n = sizes.pop() or 0
    gradients = [
        grad(
            outputs, inputs, [None if g is None else g[i] for g in gs],
            retain_graph or i + 1 < n, create_graph, True, allow_unused, False, materialize_grads,
        )
        for i in range(n)
    ]  # fmt: skip
    if not gradients:
        empty = (
            new_array("zeros", (0, *edge_of(x).shape), edge_of(x).dtype, device_of_edge(x))
            for x in as_list(inputs)
        )
        return tuple(native.wrap(array) for array in empty)
    return tuple(None if column[0] is None else table.stack(column) for column in zip(*gradients))
