"""viz.graph: every node once, with its name, shape and kept bytes; valid DOT and SVG."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import shmtensor as st
from shmtensor import nn, viz
from shmtensor.viz import Graph, GraphNode

from .networks import ResNet

F = nn.functional


def weight(*shape: int) -> Any:
    return st.ones(*shape).requires_grad_()


def named(graph: Graph) -> list[tuple[str, str]]:
    return [(graph.nodes[a].name, graph.nodes[b].name) for a, b in graph.edges]


def test_nodes_edges_shapes_and_names() -> None:
    w, b, x = weight(5, 4), weight(5), st.ones(3, 4)
    drawing = viz.graph(F.linear(x, w, b).exp().sum(), {"w": w, "b": b})
    assert [(n.kind, n.name, n.shape) for n in drawing.nodes] == [
        ("parameter", "w", (5, 4)),
        ("parameter", "b", (5,)),
        ("operation", "LinearBackward0", (3, 5)),
        ("operation", "ExpBackward0", (3, 5)),
        ("operation", "SumBackward0", ()),
        ("output", "output", ()),
    ]
    assert drawing.nodes[0] == GraphNode("parameter", "w", (5, 4), w.dtype)
    chain = ["LinearBackward0", "ExpBackward0", "SumBackward0", "output"]
    assert named(drawing) == [
        ("w", "LinearBackward0"),
        ("b", "LinearBackward0"),
        *pairwise(chain),
    ]
    assert repr(drawing) == "Graph(6 nodes, 5 edges, 108 B kept for backward)"


def test_shared_nodes_are_drawn_once() -> None:
    w = weight(3)
    y = w.exp()
    drawing = viz.graph([y * y, y.sum()])
    assert [n.name for n in drawing.nodes if n.kind == "output"] == ["output 0", "output 1"]
    assert [n.name for n in drawing.nodes].count("ExpBackward0") == 1
    assert [n.name for n in drawing.nodes].count("leaf") == 1
    assert len(drawing.edges) == 5  # y * y leads twice to the same node


def test_kept_bytes_are_those_of_operands_and_results_without_leaves() -> None:
    w, x = weight(5, 4), st.ones(3, 4)
    drawing = viz.graph(F.linear(x, w).exp().square().sum())
    kept_bytes = {n.name: n.kept_bytes for n in drawing.nodes}
    assert kept_bytes["LinearBackward0"] == 3 * 4 * 4  # x; w is a leaf
    assert (
        kept_bytes["ExpBackward0"] == kept_bytes["SquareBackward0"] == 3 * 5 * 4
    )  # the same array
    assert drawing.kept_bytes == 3 * 4 * 4 + 3 * 5 * 4


def test_a_graph_that_was_walked_keeps_nothing() -> None:
    y = weight(3).exp().sum()
    assert viz.graph(y).kept_bytes == 12
    y.backward()
    assert viz.graph(y).kept_bytes == 0


def test_packed_values_are_counted_without_unpacking() -> None:
    def unpack(value: Any) -> Any:
        raise AssertionError("unpacked")

    with st.autograd.graph.saved_tensors_hooks(lambda x: (x.half(), 3), unpack):
        y = weight(1000).exp()
    assert viz.graph(y).kept_bytes == 2000


def test_memory_that_was_written_since_is_drawn_all_the_same() -> None:
    y = weight(3).exp()
    z = y * 2
    y.detach().add_(1)
    assert viz.graph(z.sum()).kept_bytes == 12


def test_functions_of_users_have_their_class_name() -> None:
    class Double(st.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x + 1)
            return 2 * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g

    node = viz.graph(Double.apply(weight(3))).nodes[1]
    assert "Double" in node.name
    assert node.kept_bytes == 12


def test_names_of_a_module() -> None:
    model = ResNet()
    loss = model(st.ones(2, 3, 8, 8)).sum()
    expected = {name for name, _ in model.named_parameters()}
    for params in (model, dict(model.named_parameters()), model.named_parameters()):
        drawing = viz.graph(loss, params)
        assert {n.name for n in drawing.nodes if n.kind == "parameter"} == expected


def test_an_output_may_be_a_leaf() -> None:
    drawing = viz.graph(weight(2))
    assert [n.kind for n in drawing.nodes] == ["parameter", "output"]
    assert drawing.edges == [(0, 1)]


def test_leaves_that_are_gone_are_drawn() -> None:
    y = weight(2) * 2
    assert [n.name for n in viz.graph(y).nodes] == ["leaf", "MulBackward0", "output"]


LABEL = r'"(?:[^"\\\n]|\\.)*"'
STATEMENT = re.compile(rf"  (?:n\d+ -> n\d+|(?:node|n\d+) \[\w+={LABEL}.*\]|label={LABEL});")


def test_dot_is_quoted_and_escaped() -> None:
    w = weight(2)
    drawing = viz.graph(w.sum(), {'a "quoted" \\ <name>\nof two lines': w})
    first, *statements, last = drawing.dot.splitlines()
    assert (first, last) == ("digraph {", "}")
    for line in statements:
        assert STATEMENT.fullmatch(line) or line.startswith("  node [shape=box, "), line
    assert r'label="a \"quoted\" \\ <name> of two lines\n(2,)"' in drawing.dot
    assert drawing.dot.count(" -> ") == len(drawing.edges)


def test_svg_is_one_file_with_all_boxes_and_arrows(tmp_path: Path) -> None:
    model = ResNet()
    drawing = viz.graph(model(st.ones(2, 3, 8, 8)).sum(), model)
    root = ElementTree.fromstring(drawing.svg)
    space = "{http://www.w3.org/2000/svg}"
    texts = [t.text for t in root.iter(f"{space}text")]
    assert all(name in texts for name, _ in model.named_parameters())
    assert len(root.findall(f".//{space}title")) == len(drawing.nodes)
    arrows = [p for p in root.iter(f"{space}path") if p.get("marker-end") == "url(#head)"]
    assert len(arrows) == len(drawing.edges)
    assert "href" not in drawing.svg
    assert drawing._repr_svg_() == drawing.svg
    for name, text in (("a.svg", drawing.svg), ("a.dot", drawing.dot), ("a.GV", drawing.dot)):
        drawing.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == text
    with pytest.raises(ValueError, match=r"expected a name in \.svg, \.dot or \.gv: a\.png"):
        drawing.save("a.png")


def test_names_are_escaped_in_svg() -> None:
    w = weight(2)
    name = "<b> & 'c'"
    root = ElementTree.fromstring(viz.graph(w.sum(), {name: w}).svg)
    assert name in [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]


def test_graphs_of_thousands_of_nodes() -> None:
    """Deeper than Python's stack, and a parameter that every step uses."""
    w = h = weight(2, 2)
    for _ in range(2000):
        h = (h @ w).tanh()
    began = time.process_time()
    drawing = viz.graph(h.sum())
    assert len(drawing.svg) > 100_000
    assert len(drawing.nodes) == 4003
    assert time.process_time() - began < 30  # it takes one


def test_errors_show_the_values() -> None:
    with pytest.raises(RuntimeError, match=r"has no graph: shape \(2,\), it does not require grad"):
        viz.graph(st.ones(2))
    with pytest.raises(TypeError, match="expected a tensor, or several: int"):
        viz.graph([weight(1), 3])
