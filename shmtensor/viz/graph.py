"""The graph of a backward as a picture: what was computed from which parameters, and what of it is
kept until then.

Gradients flow against the arrows. A leaf is one box, its AccumulateGrad is not drawn besides.
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

__all__ = ["Graph", "GraphNode", "graph"]

Span = tuple[int, int]


@dataclass(frozen=True)
class GraphNode:
    """A box of the picture.

    Attributes:
        kind: "parameter" (a leaf that requires grad), "operation" or "output".
        name: a parameter's, the operation's as `grad_fn.name()` has it, or "output".
        shape: of the tensor, of an operation its first output.
        dtype: its dtype.
        kept_bytes: what the operation keeps for backward, besides leaves.
    """

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: Any
    kept_bytes: int = 0


class Graph:
    """Nodes and edges of an autograd graph, as DOT and as SVG.

    Attributes:
        nodes: of type `GraphNode`.
        edges: pairs of places in `nodes`, from operand to result, each once.
        kept_bytes: what all nodes keep for backward, each byte once, besides leaves: what a
            backward would free.
    """

    def __init__(
        self, nodes: Sequence[GraphNode], edges: Sequence[tuple[int, int]], kept_bytes: int
    ) -> None:
        self.nodes, self.edges, self.kept_bytes = list(nodes), list(edges), kept_bytes

    def __repr__(self) -> str:
        return f"Graph({self.title})"

    @property
    def title(self) -> str:
        """How large it is."""
        return (
            f"{len(self.nodes)} nodes, {len(self.edges)} edges, "
            f"{in_bytes(self.kept_bytes)} kept for backward"
        )

    @property
    def dot(self) -> str:
        """The graph in Graphviz's language."""
        lines = [
            "digraph {",
            f"  label={quoted([self.title])};",
            '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11];',
        ]
        for i, node in enumerate(self.nodes):
            fill, outline, _ = COLORS[node.kind]
            label = quoted(lines_of(node))
            lines.append(f'  n{i} [label={label}, fillcolor="{fill}", color="{outline}"];')
        lines += [f"  n{a} -> n{b};" for a, b in self.edges]
        return "\n".join([*lines, "}", ""])

    @cached_property
    def svg(self) -> str:
        """The picture: one file without references, which every browser shows."""
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
    """Draws what a backward from a tensor would walk over: `shmtensor.viz.graph(loss, model)`.

    Args:
        outputs: a tensor that requires grad, or several.
        params: names for leaves: a Module, a dictionary of tensors by name, or pairs of both.

    Returns:
        A `Graph`: `.svg`, `.dot`, `.save("graph.svg")`, and a picture in a notebook.

    Raises:
        RuntimeError: a tensor has no graph.
        TypeError: an output is no tensor.

    Example:
        >>> import shmtensor as st
        >>> w = st.ones(3, requires_grad=True)
        >>> st.viz.graph((w * w).sum(), {"w": w})
        Graph(4 nodes, 3 edges, 0 B kept for backward)
    """
    several = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    roots = [root_of(tensor) for tensor in several]
    found = reached(roots)
    leaves = merged(span_of(leaf.variable.array) for leaf in found if has_tensor(leaf))
    names = names_of(params)
    place = {node: i for i, node in enumerate(found)}
    nodes, edges, spans = [], [], []
    for node in found:
        if isinstance(node, AccumulateGrad):
            name = names.get(id(node.variable), "leaf")
            nodes.append(GraphNode("parameter", name, node.shape, node.dtype))
            continue
        kept = [s for s in map(span_of, arrays_in(node.raw_saved)) if not lies_in(leaves, s)]
        spans += kept
        nodes.append(GraphNode("operation", node.name(), node.shape, node.dtype, length(kept)))
        edges += [(place[e], place[node]) for e, _ in node.next_functions if e is not None]
    for i, (tensor, root) in enumerate(zip(several, roots, strict=True)):
        edges.append((place[root], len(nodes)))
        name = "output" if len(several) == 1 else f"output {i}"
        nodes.append(GraphNode("output", name, tuple(tensor.shape), tensor.array.dtype))
    return Graph(nodes, list(dict.fromkeys(edges)), length(spans))


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


def reached(roots: Sequence[Any]) -> list[Any]:
    """All nodes and leaves that the roots lead to, operands before results."""
    found: dict[Any, None] = {}
    entered: set[Any] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            found[node] = None
        elif node not in entered:
            entered.add(node)
            stack.append((node, True))
            operands = [e for e, _ in node.next_functions if e is not None]
            stack.extend((e, False) for e in reversed(operands) if e not in entered)
    return list(found)


def has_tensor(node: Any) -> bool:
    return isinstance(node, AccumulateGrad) and node.variable is not None


def names_of(params: Any) -> dict[int, str]:
    """Names by the identity of the tensor."""
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


def quoted(lines: Sequence[str]) -> str:
    """A DOT string with line breaks; what is special in one is escaped."""
    clean = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(" ".join(line.splitlines()) for line in clean) + '"'


# ---------------------------------------------------------------- memory


def arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays among what a node keeps, also what a pack hook made of them."""
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
    """The addresses of its first byte and of the one after its last."""
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high if array.size else low


def merged(spans: Iterator[Span] | Sequence[Span]) -> list[Span]:
    """The same bytes in spans that do not touch, in order."""
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def length(spans: Sequence[Span]) -> int:
    """How many bytes lie in the spans, each counted once."""
    return sum(high - low for low, high in merged(spans))


def lies_in(spans: Sequence[Span], span: Span) -> bool:
    """Whether one of the merged spans holds it."""
    at = bisect_right(spans, (span[0], 1 << 64)) - 1
    return at >= 0 and span[1] <= spans[at][1]
