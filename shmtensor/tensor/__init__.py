"""Tensor, a class in storeys: each file adds what its name says to the one below it.

Lowest first: geometry, history (the graph), exchange (the memory in others' hands), casting,
writing, restriding, copying, language (Python's syntax), tensor. The slots are in C
(native/call/graph.h): array, node, version, base, leaf; the ops come from the table
(autograd/methods.py).
"""

from .copying import rebuilt, remade
from .tensor import Size, Tensor
from .writing import as_plain

__all__ = ["Size", "Tensor", "as_plain", "rebuilt", "remade"]
