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
    """A tensor on each of the devices, or copied to the tensors `out`.

    Parameters
    ----------
    tensor : Tensor
        On any device.
    devices : sequence of device, optional
        Numbers of GPUs, or devices.
    out : sequence of Tensor, optional
        Tensors of its shape, instead of `devices`.

    Returns
    -------
    tuple of Tensor
        One for each device, or `out`.

    Raises
    ------
    RuntimeError
        Neither or both of `devices` and `out` are given.
    DeviceMissing
        A device is not there.

    Notes
    -----
    Copies: one each, none where it is.

    Examples
    --------
    >>> st.cuda.comm.broadcast(st.ones(2), ["cpu"])
    (tensor([1., 1.]),)
    >>> st.cuda.comm.broadcast(st.ones(2), out=[st.zeros(2), st.zeros(2)])
    (tensor([1., 1.]), tensor([1., 1.]))
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
    """Several tensors on each of the devices.

    Parameters
    ----------
    tensors : sequence of Tensor
        On any device.
    devices : sequence of device
        Numbers of GPUs, or devices.
    buffer_size : int, optional
        Accepted; has no effect.

    Returns
    -------
    list of list of Tensor
        `result[device][i]`.

    Raises
    ------
    DeviceMissing
        A device is not there.

    Notes
    -----
    Copies: one each, none where it is.

    Examples
    --------
    >>> st.cuda.comm.broadcast_coalesced([st.ones(1), st.zeros(1)], ["cpu"])
    [[tensor([1.]), tensor([0.])]]
    """
    return [[tensor.to(as_device(device)) for tensor in tensors] for device in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of one shape, on one device.

    Parameters
    ----------
    inputs : sequence of Tensor
        On any devices.
    destination : device, optional
        By default the current GPU.

    Returns
    -------
    Tensor
        Of their shape.

    Raises
    ------
    RuntimeError
        Shapes differ.
    DeviceMissing
        The device is not there.

    Examples
    --------
    >>> st.cuda.comm.reduce_add([st.ones(2), st.ones(2)], "cpu")
    tensor([2., 2.])
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
    """The sums of several tensors over the devices.

    Parameters
    ----------
    inputs : sequence of sequence of Tensor
        `inputs[device][i]`.
    destination : device, optional
        By default the current GPU.
    buffer_size : int, optional
        Accepted; has no effect.

    Returns
    -------
    tuple of Tensor
        The sum of each `i`.

    Raises
    ------
    RuntimeError
        Shapes differ.
    DeviceMissing
        The device is not there.

    Examples
    --------
    >>> st.cuda.comm.reduce_add_coalesced([[st.ones(2)], [st.ones(2)]], "cpu")
    (tensor([2., 2.]),)
    """
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
    """Parts of a tensor along a dimension, one on each of the devices.

    Parameters
    ----------
    tensor : Tensor
        On any device.
    devices : sequence of device, optional
        Numbers of GPUs, or devices.
    chunk_sizes : sequence of int, optional
        The sizes of the parts; by default they are as equal as possible.
    dim : int, optional
        The dimension.
    streams : object, optional
        Accepted; has no effect.
    out : sequence of Tensor, optional
        Where the parts, of their sizes, are written, instead of `devices`.

    Returns
    -------
    tuple of Tensor
        One for each device, or `out`.

    Raises
    ------
    RuntimeError
        Neither or both of `devices` and `out` are given.
    DeviceMissing
        A device is not there.

    Notes
    -----
    Copies: one each, none of a part that is on its device.

    Examples
    --------
    >>> st.cuda.comm.scatter(st.arange(4), ["cpu", "cpu"])
    (tensor([0, 1]), tensor([2, 3]))
    >>> st.cuda.comm.scatter(st.arange(4), ["cpu", "cpu"], chunk_sizes=[1, 3])
    (tensor([0]), tensor([1, 2, 3]))
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
    """Tensors joined along a dimension, on one device.

    Parameters
    ----------
    tensors : sequence of Tensor
        On any devices; of one shape but for the dimension.
    dim : int, optional
        The dimension.
    destination : device, optional
        By default the current GPU.
    out : Tensor, optional
        Where the result is written, instead of `destination`.

    Returns
    -------
    Tensor
        On the device, or `out`.

    Raises
    ------
    DeviceMissing
        The device is not there.

    Examples
    --------
    >>> st.cuda.comm.gather([st.ones(2), st.zeros(1)], destination="cpu")
    tensor([1., 1., 0.])
    """
    place = out.device if out is not None else as_device(destination or "cuda")
    joined = cat([x.to(place) for x in tensors], dim)
    return joined if out is None else out.copy_(joined)
