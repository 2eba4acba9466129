"""A number among index arrays: PyTorch selects by it first, so the arrays' dimensions stay."""

import numpy as np
import pytest

import shmtensor as st

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
    got = st.tensor(X)[index]
    assert got.shape == expected.shape
    assert np.array_equal(got, expected)

    ours, theirs = st.tensor(X), X.copy()
    values = -np.arange(expected.size, dtype=np.float64).reshape(expected.shape)
    ours[index] = st.tensor(values)
    numbers = np.arange(X.size).reshape(X.shape)
    if len(np.unique(steps(numbers))) == expected.size:  # else: which one stays is not said
        theirs.flat[steps(numbers)] = values
        assert np.array_equal(ours, theirs)

    x = st.tensor(X, requires_grad=True)
    (x[index] * st.tensor(values)).sum().backward()
    grad = np.zeros(X.size)
    np.add.at(grad, steps(numbers), values)
    assert np.array_equal(x.grad, grad.reshape(X.shape))


def test_tensors_of_no_dimension_are_numbers():
    got = st.tensor(X)[st.tensor(0), :, st.tensor([2, 1])]
    assert np.array_equal(got, X[0][:, [2, 1]])


@pytest.mark.parametrize(
    "index",
    [(2, slice(None), [0]), (0, slice(None), [4]), (0, slice(None), np.array([True] * 3))],
)
def test_beyond_the_end(index):
    with pytest.raises(IndexError):
        st.tensor(X)[index]
    with pytest.raises(IndexError):
        st.tensor(X)[index] = 0.0
