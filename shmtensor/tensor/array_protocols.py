"""Tensor's longer methods for NumPy and the array API standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tensor import Tensor

load_namespace: Callable[[], Any]  # returns `shmtensor.array_api`, which is in a higher layer


def set_array_namespace(load: Callable[[], Any]) -> None:
    """Sets the function that imports the namespace of the array API standard on first use."""
    global load_namespace
    load_namespace = load


def array_namespace(api_version: str | None) -> Any:
    """The namespace of a version of the array API standard."""
    namespace = load_namespace()
    if api_version not in (None, "2021.12", "2022.12", namespace.__array_api_version__):
        raise ValueError(
            f"__array_namespace__: version {api_version} is not supported, "
            f"{namespace.__array_api_version__} is"
        )
    return namespace


def needs_cpu(tensor: Tensor) -> TypeError:
    if tensor.is_meta:
        return TypeError(f"numpy: meta tensors have no data: shape {tuple(tensor.shape)}")
    return TypeError(
        f"numpy: can't convert {tensor.device} device type tensor to numpy: shape "
        f"{tuple(tensor.shape)}, use x.cpu().numpy() to copy the tensor to host memory first"
    )


def needs_detach(tensor: Tensor) -> RuntimeError:
    return RuntimeError(
        f"numpy: Can't call numpy() on Tensor that requires grad: shape {tuple(tensor.shape)}, use "
        "tensor.detach().numpy() instead"
    )


def needs_float(tensor: Tensor) -> TypeError:
    return TypeError(
        f"numpy: Got unsupported ScalarType BFloat16: shape {tuple(tensor.shape)}, use "
        "x.float().numpy() for the values, x.view(st.uint16).numpy() for the bits"
    )
