"""Batches of sequences of different lengths: padded to one length, or packed step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...autograd import table as ops
from ...device import CPU
from ...dtypes import as_dtype, int64
from ...functions import cat, full
from ...tensor import Tensor
from ...tensor.from_data import as_tensor, tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

Self = TypeVar("Self", bound="PackedSequence")


class PackedSequence_(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences of decreasing length, packed: the first elements of all, then the second ones, ...

    The functions of this file make them: `pack_sequence([a, b])` of a = (a0, a1) and b = (b0,) has
    data (a0, b0, a1) and batch_sizes (2, 1). Every recurrent layer accepts them.

    Parameters
    ----------
    data : Tensor
        All elements, `(sum of lengths, ...)`.
    batch_sizes : Tensor, optional
        For each step the number of sequences that have it: int64, in main memory.
    sorted_indices : Tensor, optional
        The order that sorts the sequences by length, None if they were sorted.
    unsorted_indices : Tensor, optional
        Its inverse.

    See Also
    --------
    pack_sequence, pack_padded_sequence

    Examples
    --------
    >>> from shmtensor.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([st.tensor([1, 2]), st.tensor([3])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 3, 2]), tensor([2, 1]))
    """

    __slots__ = ()

    def __new__(
        cls: type[Self],
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:  # (data, batch_sizes) as one argument
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError(
                    "PackedSequence: Expected data to be a list or tuple of length 2: "
                    f"{type(data).__name__}, hint: give batch_sizes"
                )
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                f"PackedSequence: batch_sizes should always be on CPU: {batch_sizes.device}, "
                "hint: use pack_sequence or pack_padded_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self: Self, data: Tensor, move: Callable[[Tensor], Tensor]) -> Self:
        """Other data, with the indices moved in the same way; batch_sizes stay in main memory."""
        order = (None if t is None else move(t) for t in self[2:])
        return type(self)(data, self.batch_sizes, *order)

    def pin_memory(self: Self) -> Self:
        """Data and indices in memory that a GPU can read directly."""
        return self._with(self.data.pin_memory(), lambda t: t.pin_memory())

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Data in another dtype or on another device, with the arguments of `Tensor.to`.

        Copies: none if nothing changes (then this object itself is returned), else one.
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        return self._with(data, lambda t: t.to(data.device))

    def cuda(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Data and indices on a GPU."""
        return self._on("cuda", args, kwargs)

    def cpu(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Data and indices in main memory."""
        return self._on("cpu", args, kwargs)

    def _on(self: Self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        """On a device of this kind: the one that the arguments of `to` name, else the current."""
        probe = self.data[:0].to(*args, **kwargs)
        return self.to(
            *args, **(kwargs if probe.device.type == kind else {**kwargs, "device": kind})
        )

    def _cast(self: Self, name: str) -> Self:
        return self.to(as_dtype(name))

    def double(self: Self) -> Self:
        """Data in float64."""
        return self._cast("float64")

    def float(self: Self) -> Self:
        """Data in float32."""
        return self._cast("float32")

    def half(self: Self) -> Self:
        """Data in float16."""
        return self._cast("float16")

    def long(self: Self) -> Self:
        """Data in int64."""
        return self._cast("int64")

    def int(self: Self) -> Self:
        """Data in int32."""
        return self._cast("int32")

    def short(self: Self) -> Self:
        """Data in int16."""
        return self._cast("int16")

    def char(self: Self) -> Self:
        """Data in int8."""
        return self._cast("int8")

    def byte(self: Self) -> Self:
        """Data in uint8."""
        return self._cast("uint8")

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Whether a GPU can read the data directly."""
        return bool(self.data.is_pinned())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation.

    Parameters
    ----------
    permutation : Tensor or None
        `(n,)` int64.

    Returns
    -------
    Tensor or None
        None for None.

    Examples
    --------
    >>> nn.utils.rnn.invert_permutation(st.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else ops.argsort(permutation)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs a padded batch of sequences, so that recurrent layers do not compute the padding.

    Parameters
    ----------
    input : Tensor
        `(T, N, ...)`, or `(N, T, ...)` if `batch_first`; T is at least the longest length.
    lengths : Tensor or list of int
        Of the sequences: N, in main memory.
    batch_first : bool, optional
        Whether the input is `(N, T, ...)`.
    enforce_sorted : bool, optional
        Whether lengths must decrease; False sorts the sequences first.

    Returns
    -------
    PackedSequence
        Data of shape `(sum of lengths, ...)`.

    Raises
    ------
    RuntimeError
        lengths are not N numbers from 1 to T, or not sorted; input is empty.

    See Also
    --------
    pad_packed_sequence, nn.LSTM

    Examples
    --------
    >>> from shmtensor.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
    >>> padded = st.tensor([[1., 2.], [3., 0.]]).unsqueeze(2)
    >>> packed = pack_padded_sequence(padded, [2, 1], batch_first=True)
    >>> packed.data.flatten()
    tensor([1., 3., 2.])
    >>> output, h = nn.GRU(1, 4, batch_first=True)(packed)
    >>> padded, lengths = pad_packed_sequence(output, batch_first=True)
    >>> padded.shape, lengths
    (Size([2, 2, 4]), tensor([2, 1]))
    """
    where = "pack_padded_sequence"
    steps = _lengths(where, lengths)
    if input.ndim < 2:
        raise IndexError(f"{where}: input must have at least 2 dimensions: {tuple(input.shape)}")
    if not input.numel():
        raise RuntimeError(f"{where}: Cannot pack empty tensors: {tuple(input.shape)}")
    time, batch = 1 if batch_first else 0, 0 if batch_first else 1
    if len(steps) != input.shape[batch]:
        raise RuntimeError(
            f"{where}: Expected `len(lengths)` to be equal to batch_size, but got {len(steps)} "
            f"(batch_size={input.shape[batch]})"
        )
    order = None
    if not enforce_sorted:
        order = np.argsort(-steps, kind="stable")
        steps = steps[order]
    elif (rising := np.flatnonzero(steps[1:] > steps[:-1])).size:
        i = int(rising[0])
        raise RuntimeError(
            f"{where}: `lengths` array must be sorted in decreasing order when `enforce_sorted` is "
            f"True: lengths[{i}] = {steps[i]}, lengths[{i + 1}] = {steps[i + 1]}, "
            "hint: pass enforce_sorted=False"
        )
    if steps[-1] <= 0:
        raise RuntimeError(
            f"{where}: Length of all samples has to be greater than 0, but found an element in "
            f"'lengths' that is <= 0: {steps[-1]}"
        )
    if steps[0] > input.shape[time]:
        raise RuntimeError(
            f"{where}: a length exceeds the padded input: {steps[0]}, input has "
            f"{input.shape[time]} steps: {tuple(input.shape)}"
        )
    time_index, sequence = np.nonzero(np.arange(steps[0])[:, None] < steps)
    if order is not None:
        sequence = order[sequence]
    rows, columns = input.shape[:2]
    flat = ops.reshape(input, (rows * columns, *input.shape[2:]))
    places = sequence * columns + time_index if batch_first else time_index * columns + sequence
    data = ops.index_select(flat, 0, tensor(places, device=input.device))
    sorted_indices = None if order is None else tensor(order, device=input.device)
    return PackedSequence(data, tensor(np.bincount(time_index), device=CPU), sorted_indices)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The reverse of `pack_padded_sequence`.

    Parameters
    ----------
    sequence : PackedSequence
        The packed sequences.
    batch_first : bool, optional
        Whether the result is `(N, T, ...)` rather than `(T, N, ...)`.
    padding_value : float, optional
        Of elements after the end of a sequence.
    total_length : int, optional
        T, at least the longest length, which is the default.

    Returns
    -------
    (padded, lengths) : Tensor, Tensor
        lengths are `(N,)` int64, sequences are in the order before packing.

    Raises
    ------
    ValueError
        total_length is less than the longest length.
    RuntimeError
        The batch sizes increase, or do not sum to the size of the data.

    See Also
    --------
    pack_padded_sequence

    Examples
    --------
    >>> from shmtensor.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> packed = pack_sequence([st.tensor([1, 2]), st.tensor([3])])
    >>> pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    where = "pad_packed_sequence"
    data, sizes = sequence.data, np.asarray(sequence.batch_sizes.tolist(), np.int64)
    longest = len(sizes)
    if total_length is not None and total_length < longest:
        raise ValueError(
            f"{where}: Expected total_length to be at least the length of the longest sequence in "
            f"input, but got total_length={total_length} and max sequence length being {longest}"
        )
    if not longest or (np.diff(sizes) > 0).any() or sizes.sum() != data.shape[0]:
        raise RuntimeError(
            f"{where}: batch sizes must decrease and sum to the size of the data: "
            f"{sizes.tolist()}, data {tuple(data.shape)}"
        )
    batch, total = int(sizes[0]), longest if total_length is None else total_length
    time, sequence_index = np.nonzero(np.arange(batch) < sizes[:, None])
    lengths = np.bincount(sequence_index)
    if sequence.unsorted_indices is not None:
        unsorted = np.asarray(sequence.unsorted_indices.tolist(), np.int64)
        lengths = lengths[unsorted]
        sequence_index = np.argsort(unsorted)[sequence_index]
    indices = sequence_index * total + time if batch_first else time * batch + sequence_index
    lead = (batch, total) if batch_first else (total, batch)
    return _filled_except(data, indices, lead, padding_value), tensor(lengths, device=CPU)


def _filled_except(data: Tensor, indices: Any, lead: tuple[int, int], value: float) -> Tensor:
    """A tensor (*lead, *) with the rows of the data at `indices` and `value` elsewhere."""
    blank = full((lead[0] * lead[1], *data.shape[1:]), value, dtype=data.dtype, device=data.device)
    out = ops.index_copy(blank, 0, tensor(indices, device=data.device), data)
    return ops.reshape(out, (*lead, *data.shape[1:]))


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences of different lengths as one tensor.

    Parameters
    ----------
    sequences : sequence of Tensor
        N tensors `(L, ...)`, whose lengths L may differ.
    batch_first : bool, optional
        Whether the result is `(N, T, ...)` rather than `(T, N, ...)`, with T the largest L.
    padding_value : float, optional
        Of the padded elements.
    padding_side : str, optional
        "right" or "left".

    Returns
    -------
    Tensor
        `(T, N, ...)` or `(N, T, ...)`. Copies: one.

    Raises
    ------
    RuntimeError
        No sequences, shapes that differ after the length, another padding_side.

    See Also
    --------
    unpad_sequence, pack_sequence

    Examples
    --------
    >>> from shmtensor.nn.utils.rnn import pad_sequence
    >>> sequences = [st.tensor([1, 2]), st.tensor([3])]
    >>> pad_sequence(sequences, batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    >>> pad_sequence(sequences, batch_first=True, padding_value=-1, padding_side="left")
    tensor([[ 1,  2],
            [-1,  3]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            "pad_sequence: Expected padding_side to be one of left or right, but got "
            f"{padding_side!r}"
        )
    items = tuple(sequences)
    if not items:
        raise RuntimeError("pad_sequence: received an empty list of sequences: []")
    shapes = [tuple(s.shape) for s in items]
    if () in shapes or len({shape[1:] for shape in shapes}) > 1:
        raise RuntimeError(
            f"pad_sequence: sequences must be (L, *) and differ in L alone: {shapes[:4]}"
        )
    lengths = np.array([shape[0] for shape in shapes])
    batch, total = len(lengths), int(lengths.max())
    sequence_index = np.repeat(np.arange(batch), lengths)
    time = np.arange(len(sequence_index)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    if padding_side == "left":
        time += np.repeat(total - lengths, lengths)
    indices = sequence_index * total + time if batch_first else time * batch + sequence_index
    data = cat([s.to(items[0].dtype) for s in items])
    lead = (batch, total) if batch_first else (total, batch)
    return _filled_except(data, indices, lead, padding_value)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Any, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded batch.

    Parameters
    ----------
    padded_sequences : Tensor
        `(T, N, ...)`, or `(N, T, ...)` if `batch_first`. It is not changed (PyTorch transposes it
        in place).
    lengths : Tensor or list of int
        `(N,)`, of the sequences; more than T counts as T.
    batch_first : bool, optional
        Whether the batch is the first dimension.

    Returns
    -------
    list of Tensor
        N tensors `(length, ...)`.

    Raises
    ------
    ValueError
        There are not N lengths.

    See Also
    --------
    pad_sequence

    Examples
    --------
    >>> from shmtensor.nn.utils.rnn import unpad_sequence
    >>> unpad_sequence(st.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    batch, time = (0, 1) if batch_first else (1, 0)
    steps = _lengths("unpad_sequence", lengths)
    total = padded_sequences.shape[time]
    if len(steps) != padded_sequences.shape[batch]:
        raise ValueError(
            f"unpad_sequence: lengths and sequences differ in number: {len(steps)} lengths, padded "
            f"sequences {tuple(padded_sequences.shape)}"
        )
    steps = np.clip(steps, 0, total)
    sequence_index, step = np.nonzero(np.arange(total) < steps[:, None])
    indices = sequence_index * total + step if batch_first else step * len(steps) + sequence_index
    flat = ops.flatten(padded_sequences, 0, 1)
    data = ops.index_select(flat, 0, tensor(indices, device=flat.device))
    return list(ops.split(data, steps.tolist(), 0))


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Packs a list of sequences.

    Parameters
    ----------
    sequences : sequence of Tensor
        N tensors `(L, ...)`, whose lengths L may differ.
    enforce_sorted : bool, optional
        Whether lengths must decrease; False sorts the sequences first.

    Returns
    -------
    PackedSequence

    See Also
    --------
    unpack_sequence, pad_sequence

    Examples
    --------
    >>> from shmtensor.nn.utils.rnn import pack_sequence
    >>> pack_sequence([st.tensor([3]), st.tensor([1, 2])], enforce_sorted=False).data
    tensor([1, 3, 2])
    """
    items = list(sequences)
    lengths = [s.shape[0] for s in items]
    return pack_padded_sequence(pad_sequence(items), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The reverse of `pack_sequence`.

    Parameters
    ----------
    packed_sequences : PackedSequence
        The packed sequences.

    Returns
    -------
    list of Tensor
        N tensors `(length, ...)`.

    Examples
    --------
    >>> from shmtensor.nn.utils.rnn import pack_sequence, unpack_sequence
    >>> unpack_sequence(pack_sequence([st.tensor([1, 2]), st.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def _lengths(where: str, lengths: Any) -> Any:
    """Lengths as an int64 array."""
    tensor = as_tensor(lengths)
    if tensor.ndim != 1 or tensor.device.type != "cpu":
        raise RuntimeError(
            f"{where}: 'lengths' argument should be a 1D CPU int64 tensor, but got {tensor.ndim}D "
            f"{tensor.device.type} {tensor.dtype.name} tensor"
        )
    return tensor.to(int64).numpy()
