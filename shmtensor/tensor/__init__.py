"""Tensor: the class (tensor.py), the bodies of its methods, and how tensors are made from data."""

from .deepcopy_pickle import rebuilt, remade
from .tensor import Size, Tensor

__all__ = ["Size", "Tensor", "rebuilt", "remade"]
