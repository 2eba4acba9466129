"""Classes of `torch.cuda` that are not there; making one says why."""

from __future__ import annotations

from typing import Any

from .absent import refused_class

__all__ = [
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CUDAPluggableAllocator",
    "CharStorage",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "FloatStorage",
    "GreenContext",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "MemPool",
    "ShortStorage",
]

STORAGE = "old types of storages are not there, hint: tensor.untyped_storage()"

GreenContext: Any = refused_class(
    "GreenContext", "a part of a GPU's processors cannot be chosen: CuPy has no such function"
)
MemPool: Any = refused_class(
    "MemPool", "there is one pool for each GPU, whose blocks other processes can receive"
)
CUDAPluggableAllocator: Any = refused_class(
    "CUDAPluggableAllocator",
    "memory comes from shmtensor's allocator, which can send it to other processes, hint: "
    "cupy.cuda.set_allocator",
)
BFloat16Storage: Any = refused_class("BFloat16Storage", STORAGE)
BoolStorage: Any = refused_class("BoolStorage", STORAGE)
ByteStorage: Any = refused_class("ByteStorage", STORAGE)
CharStorage: Any = refused_class("CharStorage", STORAGE)
ComplexDoubleStorage: Any = refused_class("ComplexDoubleStorage", STORAGE)
ComplexFloatStorage: Any = refused_class("ComplexFloatStorage", STORAGE)
DoubleStorage: Any = refused_class("DoubleStorage", STORAGE)
FloatStorage: Any = refused_class("FloatStorage", STORAGE)
HalfStorage: Any = refused_class("HalfStorage", STORAGE)
IntStorage: Any = refused_class("IntStorage", STORAGE)
LongStorage: Any = refused_class("LongStorage", STORAGE)
ShortStorage: Any = refused_class("ShortStorage", STORAGE)
