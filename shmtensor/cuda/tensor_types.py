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


def on_cuda(name: str) -> OnCuda:
    """The type on GPUs of the same name as a type on the CPU."""
    dtype = getattr(legacy_types, name).dtype
    question = "is_bf16_supported" if dtype.name == "bfloat16" else "is_available"
    doc = f"""Tensors of {dtype.name} on a GPU: calling it makes one on the current GPU.

    Parameters
    ----------
    *args, **kwargs : object
        Sizes, or a sequence of numbers, as of `shmtensor.{name}`.

    Raises
    ------
    DeviceMissing
        There is no GPU.

    Examples
    --------
    >>> isinstance(st.ones(2), st.cuda.{name})
    False
    >>> if st.cuda.{question}():
    ...     x = st.cuda.{name}([1, 0])
    ...     assert isinstance(x, st.cuda.{name})
    """
    return OnCuda(name, (), {"__module__": "shmtensor.cuda", "__doc__": doc, "dtype": dtype})


FloatTensor = on_cuda("FloatTensor")
DoubleTensor = on_cuda("DoubleTensor")
HalfTensor = on_cuda("HalfTensor")
BFloat16Tensor = on_cuda("BFloat16Tensor")
LongTensor = on_cuda("LongTensor")
IntTensor = on_cuda("IntTensor")
ShortTensor = on_cuda("ShortTensor")
CharTensor = on_cuda("CharTensor")
ByteTensor = on_cuda("ByteTensor")
BoolTensor = on_cuda("BoolTensor")
