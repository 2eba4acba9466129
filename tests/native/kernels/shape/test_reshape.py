"""Another shape of an array, beside NumPy's: the same elements, a view where NumPy has one."""

from __future__ import annotations

import numpy as np

from shmtensor import native


def random_array(random: np.random.Generator) -> np.ndarray:
    """Up to six dimensions, permuted, with steps, reversed or expanded."""
    shape = random.choice([1, 1, 2, 3, 4, 6], random.integers(0, 6)).tolist()
    steps = [0, slice(None), slice(0, 4, 2), slice(None, None, -1)]
    x = np.arange(np.prod(shape) * 4.0).reshape([*shape, 4])[..., steps[random.integers(4)]]
    x = x.transpose(random.permutation(x.ndim))
    return np.broadcast_to(x[:1], x.shape) if x.ndim and random.random() < 0.3 else x


def random_shape(random: np.random.Generator, size: int) -> tuple[int, ...]:
    """Sizes that multiply to `size`; one of them may be -1."""
    sizes = [1] * int(random.integers(3))
    while size > 1:
        sizes.append(int(random.choice([d for d in range(2, size + 1) if size % d == 0])))
        size //= sizes[-1]
    sizes = random.permutation(sizes).tolist()
    if sizes and random.random() < 0.2:
        sizes[random.integers(len(sizes))] = -1
    return tuple(map(int, sizes))


def test_random_shapes_of_random_strides() -> None:
    random = np.random.default_rng(0)
    views = 0
    for _ in range(5000):
        x = random_array(random)
        shape = random_shape(random, x.size)
        expected, out = x.reshape(shape), native.reshape(x, shape)
        what = (x.shape, x.strides, shape)
        assert out is not None, what
        assert out.shape == expected.shape, what
        assert (out == expected).all(), what
        is_view = np.may_share_memory(expected, x)
        assert np.may_share_memory(out, x) == is_view, what
        assert (native.reshape_view(x, shape) is not None) == is_view, what
        views += is_view
    assert 1000 < views < 4000


def test_sizes_that_do_not_fit_are_left_to_numpy() -> None:
    x = np.ones((4, 6)).T
    for shape in [(5, 5), (-1, 5), (-1, -1), (24, 0), (-24, -1), (2**62, 4)]:
        assert native.reshape(x, shape) is None
        assert native.reshape_view(x, shape) is None
    assert native.reshape(np.ones((0, 3)), (3, 0)) is None


def test_flatten_views_or_copies() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for y, start, end in ((x, 0, -1), (x[::-1], 1, 2), (x.T, 0, 1), (x.swapaxes(0, 1), 0, 2)):
        first, last = start % 3, end % 3
        shape = (*y.shape[:first], -1, *y.shape[last + 1 :])
        out = native.flatten(y, start, end)
        assert out is not None
        np.testing.assert_array_equal(out, y.reshape(shape), strict=True)
        assert np.may_share_memory(out, x) == np.may_share_memory(y.reshape(shape), x)


def test_other_dtypes_keep_their_values() -> None:
    for dtype in ("M8[s]", "U3", "O", ">f4", "c16"):
        x = np.arange(12).astype("i8").astype(dtype).reshape(3, 4).T
        np.testing.assert_array_equal(native.reshape(x, (12,)), x.reshape(12))
