"""`torch.types`: names of types, for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from .device import Device as _device
from .native import Size
from .native import dtype as _dtype
from .storage import TypedStorage, UntypedStorage
from .tensor import Tensor
from .tensor.torch_constants import layout as _layout

__all__ = ["Device", "FileLike", "Number", "Storage", "_device", "_dtype", "_layout"]

_bool: TypeAlias = builtins.bool
_bytes: TypeAlias = builtins.bytes
_complex: TypeAlias = builtins.complex
_float: TypeAlias = builtins.float
_int: TypeAlias = builtins.int
_str: TypeAlias = builtins.str

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_size: TypeAlias = Size | list[int] | tuple[int, ...]

Number: TypeAlias = int | float | bool
_Number = (int, float, bool)  # for isinstance
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Device: TypeAlias = _device | str | int | None
Storage: TypeAlias = UntypedStorage | TypedStorage
