"""Copies and sums between the GPUs of one process, `torch.cuda.comm` by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..device import as_device
from ..functions import cat, split, tensor_split
from ..tensor import Tensor

__all__ = [
    "broadcast",
    "broadcast_coalesced",
    "gather",
    "reduce_add",
    "reduce_add_coalesced",
    "scatter",
]


def broadcast(
    tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """A tensor on each of the devices, or copied to the tensors `out`. Copies: one each, none where
    it is.

    Raises:
        RuntimeError: neither or both of `devices` and `out` are given.
        DeviceMissing: a device is not there.
    """
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"comm.broadcast: exactly one of devices and out is needed: {devices}, {out}"
        )
    if out is not None:
        return tuple(target.copy_(tensor) for target in out)
    return tuple(tensor.to(as_device(device)) for device in devices or ())


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760
) -> list[list[Tensor]]:
    """Several tensors on each of the devices; `buffer_size` has no effect."""
    return [[tensor.to(as_device(device)) for tensor in tensors] for device in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of one shape, on a device, by default the current GPU.

    Raises:
        RuntimeError: shapes differ.
        DeviceMissing: the device is not there.
    """
    if any(x.shape != inputs[0].shape for x in inputs):
        raise RuntimeError(f"comm.reduce_add: shapes differ: {[tuple(x.shape) for x in inputs]}")
    device = as_device("cuda" if destination is None else destination)
    total = inputs[0].to(device)
    for x in inputs[1:]:
        total = total + x.to(device)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """The sums of several tensors over the devices: `inputs[device][i]`."""
    return tuple(reduce_add(same, destination) for same in zip(*inputs, strict=True))


def scatter(
    tensor: Tensor,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Parts of a tensor along a dimension, one on each of the devices; or copied to the tensors
    `out`, by their sizes. Copies: one each.

    Raises:
        RuntimeError: neither or both of `devices` and `out` are given.
        DeviceMissing: a device is not there.
    """
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"comm.scatter: exactly one of devices and out is needed: {devices}, {out}"
        )
    if out is not None:
        sizes = [target.shape[dim] for target in out]
        parts = split(tensor, sizes, dim)
        return tuple(target.copy_(part) for target, part in zip(out, parts, strict=True))
    places = [as_device(device) for device in devices or ()]
    if chunk_sizes is None:
        parts = tensor_split(tensor, len(places), dim)
    else:
        parts = split(tensor, list(chunk_sizes), dim)
    return tuple(part.to(place) for part, place in zip(parts, places, strict=True))


def gather(
    tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None
) -> Tensor:
    """Tensors joined along a dimension, on a device, by default the current GPU; or copied to the
    tensor `out`.

    Raises:
        DeviceMissing: the device is not there.
    """
    place = out.device if out is not None else as_device(destination or "cuda")
    joined = cat([x.to(place) for x in tensors], dim)
    return joined if out is None else out.copy_(joined)
