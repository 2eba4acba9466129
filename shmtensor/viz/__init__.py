"""Views of models: the graph of a backward, and a table of the layers."""

from .graph import Graph as Graph
from .graph import GraphNode as GraphNode
from .graph import graph as graph
from .summary import Summary as Summary
from .summary import SummaryRow as SummaryRow
from .summary import summary as summary

__all__ = ["Graph", "GraphNode", "Summary", "SummaryRow", "graph", "summary"]
