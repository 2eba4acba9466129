"""Models to look at: the graph of a backward, and what each layer holds and computes."""

from .graph import Graph as Graph
from .graph import GraphNode as GraphNode
from .graph import graph as graph
from .summary import Summary as Summary
from .summary import SummaryRow as SummaryRow
from .summary import summary as summary

__all__ = ["Graph", "GraphNode", "Summary", "SummaryRow", "graph", "summary"]
