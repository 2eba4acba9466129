"""The old names of tensors on GPUs by dtype: `cuda.FloatTensor([1, 2])`."""

from __future__ import annotations

from ..tensor import legacy_types

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class OnCuda(legacy_types.Typed):
    """The metaclass of the old types on GPUs: calling one makes a tensor on the current GPU."""

    is_cuda = True


class FloatTensor(metaclass=OnCuda):
    """Tensors of float32 on a GPU."""

    __module__ = "shmtensor.cuda"
    dtype = legacy_types.FloatTensor.dtype


class DoubleTensor(metaclass=OnCuda):
    """Tensors of float64 on a GPU."""

    __module__ = "shmtensor.cuda"
    dtype = legacy_types.DoubleTensor.dtype


class HalfTensor(metaclass=OnCuda):
    """Tensors of float16 on a GPU."""

    __module__ = "shmtensor.cuda"
    dtype = legacy_types.HalfTensor.dtype


class BFloat16Tensor(metaclass=OnCuda):
    """Tensors of bfloat16 on a GPU."""

    __module__ = "shmtensor.cuda"
    dtype = legacy_types.BFloat16Tensor.dtype


class LongTensor(metaclass=OnCuda):
    """Tensors of int64 on a GPU."""

    __module__ = "shmtensor.cuda"
    dtype = legacy_types.LongTensor.dtype


class IntTensor(metaclass=OnCuda):
    """Tensors of int32 on a GPU."""

    __module__ = "shmtensor.cuda"
    dtype = legacy_types.IntTensor.dtype


class ShortTensor(metaclass=OnCuda):
    """Tensors of int16 on a GPU."""

    __module__ = "shmtensor.cuda"
    dtype = legacy_types.ShortTensor.dtype


class CharTensor(metaclass=OnCuda):
    """Tensors of int8 on a GPU."""

    __module__ = "shmtensor.cuda"
    dtype = legacy_types.CharTensor.dtype


class ByteTensor(metaclass=OnCuda):
    """Tensors of uint8 on a GPU."""

    __module__ = "shmtensor.cuda"
    dtype = legacy_types.ByteTensor.dtype


class BoolTensor(metaclass=OnCuda):
    """Tensors of bool on a GPU."""

    __module__ = "shmtensor.cuda"
    dtype = legacy_types.BoolTensor.dtype
