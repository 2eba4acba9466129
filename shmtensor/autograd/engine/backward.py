"""`backward` and `grad`: from results to gradients."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from ... import native
from ...cuda_arrays import device_of, new_array
from ...ops.table.sparse_gradient import SparseGradient
from ..dispatch.foreign_operands import refuse_foreign
from ..dispatch.op_function import table
from ..grad_mode import recording
from .accumulate_grad import AccumulateGrad, GradientEdge, node_of_edge
from .hooks import as_tensor
from .run_backward import run_backward
from .sparse_grad import sparse_or_dense
from .sum_to_size import sum_to_size
from .views_and_inplace import node_of, retain

if TYPE_CHECKING:
    from ...tensor import Tensor

K = TypeVar("K")


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
    return node_of(tensor)


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


def sparse_root(where: str, edge: Any, device: Any, g: Any, create_graph: bool) -> Any:
    """A sparse gradient of a result: it stays sparse if that is a leaf. Copies: one of the values.

    Raises:
        RuntimeError: it is of another shape or on another device, or only one of both is complex.
    """
    if (tuple(g.shape), g.device) != (tuple(edge.shape), device):
        raise RuntimeError(
            f"{where}: Mismatch in shape or device: the sparse gradient is {tuple(g.shape)} on "
            f"{g.device}, the output {tuple(edge.shape)} on {device}"
        )
    if (g.dtype.kind == "c") != (edge.dtype.kind == "c"):
        raise RuntimeError(
            f"{where}: For complex Tensors, both grad_output and output are required to have the "
            f"same dtype: the gradient is {g.dtype}, the output is {edge.dtype}"
        )
    g = sparse_or_dense(g if create_graph else g.detach().clone(), edge)
    return g if create_graph or isinstance(g, SparseGradient) else g.array


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
