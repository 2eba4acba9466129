"""A number among index arrays: PyTorch selects by it first, so the arrays' dimensions stay."""

import itertools
import re

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd.dispatch import convert_index
from shmtensor.autograd.dispatch.numpy_messages import translate

X = np.arange(2 * 3 * 4 * 5, dtype=np.float64).reshape(2, 3, 4, 5)
MASK = np.array([True, False, True, True])
ROWS = np.array([[2, 1], [0, 0]])

# index, and the same in two steps: the number, then the rest
CASES = {
    "slice between": ((0, slice(None), [2, 1]), lambda x: x[0][:, [2, 1]]),
    "negative": ((-1, slice(1, None), [3]), lambda x: x[-1][1:, [3]]),
    "ellipsis between": ((1, ..., [0, 4]), lambda x: x[1][..., [0, 4]]),
    "none between": ((0, None, [2, 1]), lambda x: x[0][None, [2, 1]]),
    "two dimensions": ((0, slice(None), ROWS), lambda x: x[0][:, ROWS]),
    "mask": ((0, slice(None), MASK), lambda x: x[0][:, MASK]),
    "number behind": ((slice(None), [0, 2], slice(None), 3), lambda x: x[..., 3][:, [0, 2]]),
    "step": ((0, slice(None, None, 2), [2, 1]), lambda x: x[0][::2, [2, 1]]),
    "rest": ((0, slice(None), [2, 1], slice(1, 3)), lambda x: x[0][:, [2, 1], 1:3]),
    "number between arrays": (
        (slice(None), [0, 2], 1, [3, 4]),
        lambda x: x[:, :, 1][:, [0, 2], [3, 4]],
    ),
    "arrays apart": (([0, 1], slice(None), 2, [3, 4]), lambda x: x[:, :, 2][[0, 1], :, [3, 4]]),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_select_first(case):
    index, steps = CASES[case]
    expected = steps(X)
    actual = st.tensor(X)[index]
    assert actual.shape == expected.shape
    assert np.array_equal(actual, expected)

    ours, theirs = st.tensor(X), X.copy()
    values = -np.arange(expected.size, dtype=np.float64).reshape(expected.shape)
    ours[index] = st.tensor(values)
    numbers = np.arange(X.size).reshape(X.shape)
    if (
        len(np.unique(steps(numbers))) == expected.size
    ):  # otherwise the remaining element is unspecified
        theirs.flat[steps(numbers)] = values
        assert np.array_equal(ours, theirs)

    x = st.tensor(X, requires_grad=True)
    (x[index] * st.tensor(values)).sum().backward()
    grad = np.zeros(X.size)
    np.add.at(grad, steps(numbers), values)
    assert np.array_equal(x.grad, grad.reshape(X.shape))


def test_tensors_of_no_dimension_are_numbers():
    result = st.tensor(X)[st.tensor(0), :, st.tensor([2, 1])]
    assert np.array_equal(result, X[0][:, [2, 1]])


@pytest.mark.parametrize(
    "index", [(2, slice(None), [0]), (0, slice(None), [4]), (0, slice(None), np.array([True] * 3))]
)
def test_beyond_the_end(index):
    with pytest.raises(IndexError):
        st.tensor(X)[index]
    with pytest.raises(IndexError):
        st.tensor(X)[index] = 0.0


def test_parts_without_arrays_are_as_numpy_has_them():
    """Every tuple of up to three parts: values, strides, memory, errors."""
    parts = [
        0,
        -1,
        2,
        None,
        ...,
        slice(None),
        slice(1, None, 2),
        slice(3, 1),
        slice(None, None, -1),
    ]
    parts += [slice(-1, -9, -3), 7]
    tensor, array = st.tensor(X), X.copy()
    for n in range(4):
        for index in itertools.product(parts, repeat=n):
            if index.count(...) > 1:
                continue
            try:
                expected = array[(*index, ...) if ... not in index else index]
            except IndexError as error:
                with pytest.raises(IndexError, match=re.escape(translate(str(error)))):
                    tensor[index]
                continue
            actual = tensor[index].array
            assert actual.strides == expected.strides, index
            assert actual.flags.writeable
            assert np.array_equal(actual, expected), index
            assert np.shares_memory(actual, tensor.array) or actual.size == 0, index


def test_parts_without_arrays_use_no_python(monkeypatch):
    calls = []
    monkeypatch.setattr(convert_index, "convert_part", calls.append)
    x = st.tensor(X)
    for index in [(slice(None), 1), (0, 1), (..., 0), (None, slice(1, None)), (0, 0, 0, 0)]:
        assert x[index].shape == X[(*index, ...)[: len(index) + (... not in index)]].shape
        x[index] = 1.0
        assert (x[index] == 1).all()
    assert calls == []
    monkeypatch.undo()
    assert x[:, st.tensor(1)].shape == (2, 4, 5)
    assert x[st.tensor(1) : st.tensor(2), 0].shape == (1, 4, 5)
    assert x[True, 0].shape == (1, 3, 4, 5)
    with pytest.raises(IndexError, match="too many indices"):
        x[0, 0, 0, 0, 0]


@pytest.mark.parametrize("index", [(0, slice(None), 1), (..., slice(None, None, 2)), (1, None, 2)])
def test_parts_without_arrays_have_gradients(index):
    leaf = st.tensor(X, requires_grad=True)
    x = leaf * 1.0
    part = x[index]
    part.mul_(3.0)
    x.sum().backward()
    expected = np.ones_like(X)
    expected[index] = 3.0
    assert np.array_equal(leaf.grad, expected)


def test_assigned_values_are_broadcast_as_in_numpy():
    x = st.zeros(2, 3)
    x[:, 1] = st.tensor([[1.0, 2.0]])  # one leading 1 too many
    x[0, 1:] = 5
    assert x.tolist() == [[0.0, 5.0, 5.0], [0.0, 2.0, 0.0]]
    x[:, :2] = x[:, 1:].clone()
    assert x.tolist() == [[5.0, 5.0, 5.0], [2.0, 0.0, 0.0]]
    x[:, 1:] = x[:, :-1]  # the same memory
    assert x.tolist() == [[5.0, 5.0, 5.0], [2.0, 2.0, 0.0]]
    with pytest.raises(RuntimeError, match=r"a value of shape \(3,\) cannot be broadcast"):
        x[:, 1] = st.ones(3)
    with pytest.raises(IndexError, match="index assignment: index 2 is out of bounds"):
        x[2, 0] = 1.0
    with pytest.raises(RuntimeError, match="the memory cannot be written"):
        st.ones(1).expand(3)[0] = 1.0


def test_values_of_another_dtype_are_refused_where_tensors_name_the_places():
    x, half = st.ones(5, dtype=st.int64), st.tensor([1.5])
    for index in (st.tensor([0]), [0, 1], np.array([0]), (None, st.tensor([0])), (True,)):
        with pytest.raises(RuntimeError, match="source and destination dtypes match, got int64"):
            x[index] = half
    with pytest.raises(RuntimeError, match="source and destination dtypes match, got int64"):
        x[x == 1] = half.expand(5)
    with pytest.raises(RuntimeError, match="got float32 for the destination and float64"):
        st.ones(5)[st.tensor([0])] = st.tensor(2.0, dtype=st.float64)
    assert x.tolist() == [1] * 5
    x[0], x[1:3], x[st.tensor(3)] = st.tensor(2.5), half * 2, half[0] * 3  # these are converted
    x[x == 1] = st.tensor(9.7)
    assert x.tolist() == [2, 3, 3, 4, 9]
    x[[0]], x[st.tensor([1])] = 5.9, [6.9]  # numbers and lists, too
    assert x.tolist() == [5, 6, 3, 4, 9]
