"""Draws the graph of a backward: the parameters, the operations, and the memory that they save.

Gradients flow against the arrows. A leaf is one box; its AccumulateGrad is not drawn.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import native
from ..autograd.engine.accumulate_grad import AccumulateGrad, node_of_edge
from ..autograd.engine.node_hooks import HookResult
from ..autograd.engine.views_and_inplace import node_of
from .svg import COLORS, Box, render_svg
from .units import in_bytes

Span = tuple[int, int]


@dataclass(frozen=True)
class GraphNode:
    """A box of the picture of an autograd graph.

    Parameters
    ----------
    kind : str
        "parameter" (a leaf that requires grad), "operation" or "output".
    name : str
        Of the parameter, of the operation (`grad_fn.name()`), or "output".
    shape : tuple of int
        Of the tensor; for an operation, of its first output.
    dtype : dtype
        Its dtype.
    kept_bytes : int, optional
        The memory that the operation saves for backward, without leaves.

    Examples
    --------
    >>> w = st.ones(3, requires_grad=True)
    >>> for node in st.viz.graph((w * w).sum(), {"w": w}).nodes:
    ...     print(node.kind, node.name, node.shape)
    parameter w (3,)
    operation MulBackward0 (3,)
    operation SumBackward0 ()
    output output ()
    """

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: Any
    kept_bytes: int = 0


class Graph:
    """Nodes and edges of an autograd graph, as DOT and as SVG.

    Parameters
    ----------
    nodes : sequence of GraphNode
        The boxes of the picture.
    edges : sequence of (int, int)
        Unique pairs of indices into `nodes`, from operand to result.
    kept_bytes : int
        The memory that all nodes save for backward, each byte once, without leaves: what a backward
        frees.

    See Also
    --------
    graph

    Examples
    --------
    >>> a = st.viz.GraphNode("parameter", "w", (3,), st.float32)
    >>> b = st.viz.GraphNode("output", "output", (3,), st.float32)
    >>> picture = st.viz.Graph([a, b], [(0, 1)], 0)
    >>> picture.title
    '2 nodes, 1 edges, 0 B kept for backward'
    >>> picture.dot.splitlines()[-2]
    '  n0 -> n1;'
    """

    def __init__(
        self, nodes: Sequence[GraphNode], edges: Sequence[tuple[int, int]], kept_bytes: int
    ) -> None:
        self.nodes, self.edges, self.kept_bytes = list(nodes), list(edges), kept_bytes

    def __repr__(self) -> str:
        return f"Graph({self.title})"

    @property
    def title(self) -> str:
        """The numbers of nodes and edges, and the saved memory."""
        return (
            f"{len(self.nodes)} nodes, {len(self.edges)} edges, "
            f"{in_bytes(self.kept_bytes)} kept for backward"
        )

    @property
    def dot(self) -> str:
        """The graph in Graphviz's language."""
        lines = [
            "digraph {",
            f"  label={dot_string([self.title])};",
            '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11];',
        ]
        for i, node in enumerate(self.nodes):
            fill, outline, _ = COLORS[node.kind]
            label = dot_string(lines_of(node))
            lines.append(f'  n{i} [label={label}, fillcolor="{fill}", color="{outline}"];')
        lines += [f"  n{a} -> n{b};" for a, b in self.edges]
        return "\n".join([*lines, "}", ""])

    @cached_property
    def svg(self) -> str:
        """The picture, for any browser: one file without references."""
        boxes = [
            Box(n.kind, lines_of(n), f"{n.name} {n.shape} {n.dtype}, keeps {n.kept_bytes} bytes")
            for n in self.nodes
        ]
        return render_svg(boxes, self.edges, self.title)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SVG, or the DOT text if the name ends in .dot or .gv.

        Raises:
            ValueError: the name ends in something else.
        """
        ending = os.path.splitext(path)[1].lower()
        if ending not in (".svg", ".dot", ".gv"):
            raise ValueError(f"Graph.save: expected a name in .svg, .dot or .gv: {os.fspath(path)}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg if ending == ".svg" else self.dot)


def graph(outputs: Any, params: Any = None) -> Graph:
    """Draws the graph that a backward from a tensor runs: `shmtensor.viz.graph(loss, model)`.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        Each requires grad.
    params : Module, dict or iterable, optional
        Names for leaves: a Module, a dictionary of tensors by name, or pairs of both.

    Returns
    -------
    Graph
        It has `.svg`, `.dot`, `.save("graph.svg")`, and is a picture in a notebook.

    Raises
    ------
    RuntimeError
        A tensor has no graph.
    TypeError
        An output is not a tensor.

    Examples
    --------
    >>> w = st.ones(3, requires_grad=True)
    >>> st.viz.graph((w * w).sum(), {"w": w})
    Graph(4 nodes, 3 edges, 0 B kept for backward)
    >>> model = nn.Linear(3, 2)
    >>> result = st.viz.graph(model(st.ones(4, 3)).sum(), model)
    >>> [node.name for node in result.nodes if node.kind == "parameter"]
    ['weight', 'bias']
    """
    tensors = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    roots = [root_of(tensor) for tensor in tensors]
    graph_nodes = reachable_nodes(roots)
    leaves = merge_spans(span_of(leaf.variable.array) for leaf in graph_nodes if has_tensor(leaf))
    names = names_of(params)
    index = {node: i for i, node in enumerate(graph_nodes)}
    nodes, edges, spans = [], [], []
    for node in graph_nodes:
        if isinstance(node, AccumulateGrad):
            name = names.get(id(node.variable), "leaf")
            nodes.append(GraphNode("parameter", name, node.shape, node.dtype))
            continue
        saved_spans = [
            s for s in map(span_of, arrays_in(node.raw_saved)) if not is_within(leaves, s)
        ]
        spans += saved_spans
        nodes.append(
            GraphNode("operation", node.name(), node.shape, node.dtype, total_bytes(saved_spans))
        )
        edges += [(index[e], index[node]) for e, _ in node.next_functions if e is not None]
    for i, (tensor, root) in enumerate(zip(tensors, roots, strict=True)):
        edges.append((index[root], len(nodes)))
        name = "output" if len(tensors) == 1 else f"output {i}"
        nodes.append(GraphNode("output", name, tuple(tensor.shape), tensor.array.dtype))
    return Graph(nodes, list(dict.fromkeys(edges)), total_bytes(spans))


def root_of(tensor: Any) -> Any:
    if not isinstance(tensor, native.TensorBase):
        raise TypeError(f"viz.graph: expected a tensor, or several: {type(tensor).__name__}")
    edge = node_of(tensor)
    if edge is None:
        raise RuntimeError(
            f"viz.graph: the tensor has no graph: shape {tuple(tensor.shape)}, it does not require "
            "grad, or was computed under no_grad()"
        )
    return node_of_edge(edge)[0]


def reachable_nodes(roots: Sequence[Any]) -> list[Any]:
    """All nodes and leaves reachable from the roots, operands before results."""
    result: dict[Any, None] = {}
    visited: set[Any] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, is_finished = stack.pop()
        if is_finished:
            result[node] = None
        elif node not in visited:
            visited.add(node)
            stack.append((node, True))
            operands = [e for e, _ in node.next_functions if e is not None]
            stack.extend((e, False) for e in reversed(operands) if e not in visited)
    return list(result)


def has_tensor(node: Any) -> bool:
    return isinstance(node, AccumulateGrad) and node.variable is not None


def names_of(params: Any) -> dict[int, str]:
    """Names by the id of the tensor."""
    if params is None:
        return {}
    if hasattr(params, "named_parameters"):
        params = params.named_parameters()
    pairs = params.items() if isinstance(params, Mapping) else params
    return {id(tensor): str(name) for name, tensor in pairs}


def lines_of(node: GraphNode) -> list[str]:
    """The text of a box."""
    shape = "scalar" if not node.shape else str(node.shape)
    lines = [node.name.removesuffix("Backward0"), shape]
    return [*lines, f"keeps {in_bytes(node.kept_bytes)}"] if node.kept_bytes else lines


def dot_string(lines: Sequence[str]) -> str:
    """An escaped DOT string with line breaks."""
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(" ".join(line.splitlines()) for line in escaped) + '"'


# ---------------------------------------------------------------- memory


def arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays among a node's saved values, also in the results of pack hooks."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, native.TensorBase):
            item = item.array
        if isinstance(item, np.ndarray):
            yield item
        elif isinstance(item, HookResult):
            stack.append(item.value)
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
        elif isinstance(item, Mapping):
            stack.extend(item.values())


def span_of(array: np.ndarray[Any, Any]) -> Span:
    """The addresses of the first byte and of the byte after the last."""
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high if array.size else low


def merge_spans(spans: Iterator[Span] | Sequence[Span]) -> list[Span]:
    """The same bytes in disjoint spans, sorted."""
    merged: list[Span] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return merged


def total_bytes(spans: Sequence[Span]) -> int:
    """The number of bytes in the spans, each counted once."""
    return sum(high - low for low, high in merge_spans(spans))


def is_within(spans: Sequence[Span], span: Span) -> bool:
    """Whether one of the merged spans contains it."""
    index = bisect_right(spans, (span[0], 1 << 64)) - 1
    return index >= 0 and span[1] <= spans[index][1]
