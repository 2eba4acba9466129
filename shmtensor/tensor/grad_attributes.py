"""Setters of `requires_grad`, `grad` and `data`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..autograd.engine.accumulate_grad import AccumulateGrad
from ..autograd.engine.unrecorded_views import is_unrecorded
from ..autograd.grad_mode import FROZEN, inferring
from ..cuda_arrays import device_of
from ..ops.table.sparse_gradient import SparseGradient

if TYPE_CHECKING:
    from .tensor import Tensor


def start_recording(tensor: Tensor) -> None:
    """Makes a tensor without history a leaf that requires grad."""
    if tensor.array.dtype.kind not in "fc":
        raise RuntimeError(
            "requires_grad_: only Tensors of floating point and complex dtype can require "
            f"gradients: {tensor.array.dtype}, convert it first: x.float()"
        )
    if tensor.version is FROZEN and not inferring.get():
        raise RuntimeError(
            "requires_grad_: Setting requires_grad=True on inference tensor outside InferenceMode "
            f"is not allowed: shape {tuple(tensor.shape)}, make a clone() first"
        )
    if tensor.accumulate_grad is None:
        tensor.accumulate_grad = AccumulateGrad(tensor)
    else:
        tensor.accumulate_grad.describe(tensor.array)
    tensor.node = tensor.accumulate_grad


def stop_recording(tensor: Tensor, node: Any) -> None:
    """Makes a leaf with that node stop requiring grad. A view made under `no_grad` requires grad as
    long as its base does.
    """
    if is_unrecorded(node):
        return
    if node.__class__ is not AccumulateGrad:
        raise RuntimeError(
            "requires_grad_: you can only change requires_grad flags of leaf variables: this "
            f"tensor was computed by {node_name(tensor)}, use detach() for one that does not "
            "require grad"
        )
    tensor.node = None


def warn_of_no_grad(tensor: Tensor) -> None:
    """Warns whoever reads `.grad` of a tensor that gets none."""
    warnings.warn(
        "grad: backward() keeps no .grad of a tensor that is not a leaf: shape "
        f"{tuple(tensor.shape)}, computed by {node_name(tensor)}, hint: call retain_grad() on it "
        "before backward(), or read the .grad of the leaf",
        UserWarning,
        stacklevel=3,
    )


def set_grad(tensor: Tensor, value: Any) -> None:
    """Sets `.grad` of a tensor: a tensor of its shape and dtype, or a sparse gradient."""
    if not isinstance(value, (native.TensorBase, SparseGradient)):
        raise TypeError(
            f"grad: assigned grad expected to be a Tensor or None: {type(value).__name__}"
        )
    if value is tensor:
        raise RuntimeError("grad: can't assign a Tensor as its own grad")
    array: Any = value.numbers.array if isinstance(value, SparseGradient) else value.array
    shape = value.shape if isinstance(value, SparseGradient) else array.shape
    if shape != tensor.array.shape or array.dtype is not tensor.array.dtype:
        raise RuntimeError(
            f"grad: assigned grad has data of a different shape or dtype: {shape} {array.dtype} "
            f"is not {tensor.array.shape} {tensor.array.dtype}"
        )
    is_on_cpu = isinstance(array, np.ndarray) and isinstance(tensor.array, np.ndarray)
    if not is_on_cpu and device_of(array) != device_of(tensor.array):
        raise RuntimeError(
            "grad: assigned grad has data located on a different device: "
            f"{device_of(array)} is not {device_of(tensor.array)}, shape {shape}"
        )
    if tensor.accumulate_grad is None:
        tensor.accumulate_grad = AccumulateGrad(tensor)
    tensor.accumulate_grad.grad = value


def set_data(tensor: Tensor, value: Any) -> None:
    """Makes a tensor use another one's memory; its history stays. Copies: none."""
    if not isinstance(value, native.TensorBase):
        raise TypeError(f"data: must be a Tensor, not {type(value).__name__}")
    if value.array.dtype.kind not in "fc" and tensor.requires_grad:
        raise RuntimeError(
            f"data: {value.array.dtype} cannot be set where gradients are required: it must be a "
            "floating point or complex dtype"
        )
    array = tensor.array = value.array
    accumulate_grad = tensor.accumulate_grad
    if accumulate_grad is not None:
        accumulate_grad.describe(array)
        grad_buffer = accumulate_grad.grad_buffer
        if grad_buffer is not None and (
            grad_buffer.dtype is not array.dtype
            or grad_buffer.shape != array.shape
            or not isinstance(array, np.ndarray)  # a grad buffer is in main memory
        ):
            accumulate_grad.grad_buffer = None


def node_name(tensor: Tensor) -> str:
    """The name of the node that computed a tensor."""
    fn = tensor.grad_fn
    return "a leaf" if fn is None else str(fn.name())
