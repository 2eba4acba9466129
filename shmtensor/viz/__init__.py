"""Views of models and of memory: the graph of a backward, a table of the layers, and a picture of
who has how much shared memory.
"""

from .graph import Graph as Graph
from .graph import GraphNode as GraphNode
from .graph import graph as graph
from .memory import MemoryRecord as MemoryRecord
from .memory import MemorySample as MemorySample
from .memory import ProcessMemory as ProcessMemory
from .memory import memory as memory
from .summary import Summary as Summary
from .summary import SummaryRow as SummaryRow
from .summary import summary as summary

__all__ = [
    "Graph",
    "GraphNode",
    "MemoryRecord",
    "MemorySample",
    "ProcessMemory",
    "Summary",
    "SummaryRow",
    "graph",
    "memory",
    "summary",
]
