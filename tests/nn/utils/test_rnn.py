"""Packed and padded sequences: hand-computed examples, round trips, wrong use."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn.utils.rnn import (
    PackedSequence,
    invert_permutation,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)

A, B, C = st.tensor([1, 2, 3]), st.tensor([4]), st.tensor([5, 6])


def test_packing_goes_step_by_step() -> None:
    sequence = pack_sequence([A, C, B])
    assert sequence.data.tolist() == [1, 5, 4, 2, 6, 3]
    assert sequence.batch_sizes.tolist() == [3, 2, 1]
    assert sequence.batch_sizes.dtype == st.int64
    assert sequence.sorted_indices is None
    assert sequence.unsorted_indices is None


def test_unsorted_sequences_are_sorted_and_come_back_in_their_order() -> None:
    sequence = pack_sequence([A, B, C], enforce_sorted=False)
    assert sequence.data.tolist() == [1, 5, 4, 2, 6, 3]
    assert sequence.sorted_indices is not None
    assert sequence.unsorted_indices is not None
    assert sequence.sorted_indices.tolist() == [0, 2, 1]
    assert sequence.unsorted_indices.tolist() == [0, 2, 1]
    assert [s.tolist() for s in unpack_sequence(sequence)] == [[1, 2, 3], [4], [5, 6]]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("sort", [False, True])
def test_padding_undoes_packing(batch_first: bool, sort: bool) -> None:
    lengths = [2, 4, 1, 4] if sort else [4, 4, 2, 1]
    x = st.randn(4, 4, 3)
    sequence = pack_padded_sequence(x, st.tensor(lengths), batch_first, enforce_sorted=not sort)
    assert sequence.data.shape == (sum(lengths), 3)
    padded, output_lengths = pad_packed_sequence(sequence, batch_first, -1.0, total_length=6)
    assert output_lengths.tolist() == lengths
    rows, before = padded.numpy(), x.numpy()
    if not batch_first:
        rows, before = rows.swapaxes(0, 1), before.swapaxes(0, 1)
    assert rows.shape == (4, 6, 3)
    for row, old, n in zip(rows, before, lengths):
        np.testing.assert_array_equal(row[:n], old[:n])
        assert (row[n:] == -1).all()


def test_padding_side() -> None:
    right = pad_sequence([A, B], batch_first=True, padding_value=9)
    left_padded = pad_sequence([A, B], batch_first=True, padding_side="left")
    assert right.tolist() == [[1, 2, 3], [4, 9, 9]]
    assert left_padded.tolist() == [[1, 2, 3], [0, 0, 4]]
    assert pad_sequence([A, B]).tolist() == [[1, 4], [2, 0], [3, 0]]
    assert pad_sequence([st.zeros(0, 2), st.ones(1, 2)], batch_first=True).tolist() == [
        [[0.0, 0.0]],
        [[1.0, 1.0]],
    ]


def test_unpadding_leaves_its_input() -> None:
    x = st.arange(6).reshape(3, 2)
    assert [s.tolist() for s in unpad_sequence(x, st.tensor([3, 1]))] == [[0, 2, 4], [1]]
    assert x.shape == (3, 2)
    assert [s.tolist() for s in unpad_sequence(x, [0, 9, 1], batch_first=True)] == [[], [2, 3], [4]]


def test_gradients_reach_the_elements_that_count() -> None:
    x = st.randn(3, 2, requires_grad=True)
    sequence = pack_padded_sequence(x, [3, 1])
    padded, _ = pad_packed_sequence(sequence)
    (padded * st.tensor([[1.0, 2], [3, 4], [5, 6]])).sum().backward()
    assert x.grad.tolist() == [[1, 2], [3, 0], [5, 0]]


def test_to_changes_the_data_alone() -> None:
    sequence = pack_sequence([st.ones(1), st.ones(2)], enforce_sorted=False)
    assert sequence.to(st.float32) is sequence
    assert sequence.cpu() is sequence
    for name, dtype in (
        ("double", st.float64),
        ("float", st.float32),
        ("half", st.float16),
        ("long", st.int64),
        ("int", st.int32),
        ("short", st.int16),
        ("char", st.int8),
        ("byte", st.uint8),
    ):
        converted = getattr(sequence, name)()
        assert converted.data.dtype == dtype
        assert converted.batch_sizes is sequence.batch_sizes
        assert converted.unsorted_indices.tolist() == [1, 0]
    assert not sequence.is_cuda
    assert not sequence.is_pinned()


def test_packed_sequence_is_a_named_tuple() -> None:
    sequence = pack_sequence([A, B])
    data, sizes, _, _ = sequence
    assert PackedSequence((data, sizes)).data is data
    clone = pickle.loads(pickle.dumps(sequence))
    assert isinstance(clone, PackedSequence)
    assert clone.data.tolist() == data.tolist()
    with pytest.raises(AssertionError, match="length 2: Tensor"):
        PackedSequence(data)


def test_invert_permutation() -> None:
    assert invert_permutation(None) is None
    inverse = invert_permutation(st.tensor([2, 0, 1]))
    assert inverse is not None
    assert inverse.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: pack_padded_sequence(x, [1, 3, 2]),
            RuntimeError,
            r"\[0\] = 1, lengths\[1\] = 3",
        ),
        (lambda x: pack_padded_sequence(x, [2, 1, 0]), RuntimeError, "<= 0: 0"),
        (lambda x: pack_padded_sequence(x, [2, 0, 1], False, False), RuntimeError, "<= 0: 0"),
        (lambda x: pack_padded_sequence(x, [2, 1]), RuntimeError, r"2 \(batch_size=3\)"),
        (lambda x: pack_padded_sequence(x, [5, 1, 1]), RuntimeError, "5, input has 4"),
        (lambda x: pack_padded_sequence(x, [[2, 1, 1]]), RuntimeError, "got 2D cpu int64"),
        (lambda x: pack_padded_sequence(x[:, :0], []), RuntimeError, r"empty tensors: \(4, 0, 2\)"),
        (lambda x: pack_padded_sequence(x[0, 0], [2]), IndexError, r"\(2,\)"),
        (lambda x: pad_sequence([]), RuntimeError, r"\[\]"),
        (lambda x: pad_sequence(3), RuntimeError, "int"),
        (lambda x: pad_sequence([x, x[0]]), RuntimeError, r"\(4, 3, 2\), \(3, 2\)"),
        (lambda x: pad_sequence([x], padding_side="top"), RuntimeError, "top"),
        (lambda x: unpad_sequence(x, [1, 2]), ValueError, "2 lengths"),
        (lambda x: pack_sequence([x[:1], x]), RuntimeError, r"lengths\[1\] = 4"),
        (lambda x: pad_packed_sequence(pack_sequence([x]), total_length=2), ValueError, "=2 and"),
        (
            lambda x: pad_packed_sequence(PackedSequence(x, st.tensor([1, 3]))),
            RuntimeError,
            r"\[1, 3\]",
        ),
    ],
)
def test_wrong_use_is_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(st.ones(4, 3, 2))
