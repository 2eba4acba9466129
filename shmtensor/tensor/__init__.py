"""Tensor, a class in storeys: each file adds what its name says to the one below it.

Lowest first: geometry, history (the graph), exchange (the memory in others' hands), casting,
writing, restriding, copying, language (Python's syntax), tensor. The slots are in C
(native/dispatch/autograd_node.h): array, node, version, base, leaf; the ops come from the table
(autograd/dispatch/tensor_methods.py).
"""

from .deepcopy_pickle import rebuilt, remade
from .setitem_copy import as_plain
from .tensor import Size, Tensor

__all__ = ["Size", "Tensor", "as_plain", "rebuilt", "remade"]
