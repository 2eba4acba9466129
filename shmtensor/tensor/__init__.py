"""Tensor: the class (tensor.py), the bodies of its methods, and tensors from data."""

from .deepcopy_pickle import make_tensor, rebuilt
from .tensor import Size, Tensor

__all__ = ["Size", "Tensor", "make_tensor", "rebuilt"]
