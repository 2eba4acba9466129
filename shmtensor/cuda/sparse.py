"""The old types of sparse tensors on GPUs, `torch.cuda.sparse`: refused, functions make them."""

from __future__ import annotations

from typing import Any

from .absent import refused_class

__all__ = [
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]

REASON = "old types of sparse tensors are not there, hint: sparse_coo_tensor(..., device='cuda')"


ByteTensor: Any = refused_class("sparse.ByteTensor", REASON)
CharTensor: Any = refused_class("sparse.CharTensor", REASON)
DoubleTensor: Any = refused_class("sparse.DoubleTensor", REASON)
FloatTensor: Any = refused_class("sparse.FloatTensor", REASON)
HalfTensor: Any = refused_class("sparse.HalfTensor", REASON)
IntTensor: Any = refused_class("sparse.IntTensor", REASON)
LongTensor: Any = refused_class("sparse.LongTensor", REASON)
ShortTensor: Any = refused_class("sparse.ShortTensor", REASON)
