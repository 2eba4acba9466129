"""fractional_max_pool2d and fractional_max_pool3d against loops, and beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional

random = np.random.default_rng(23)
IMAGE, VOLUME = random.normal(size=(2, 3, 9, 8)), random.normal(size=(2, 3, 6, 5, 7))
DRAWS = {n: random.uniform(size=(2, 3, n)) for n in (2, 3)}
SIZES: dict[int, tuple[Any, Any, Any]] = {2: (IMAGE, (2, 3), (5, 4)), 3: (VOLUME, 2, (3, 4, 2))}


def pool(n: int, *args: Any, **kwargs: Any) -> Any:
    return getattr(functional, f"fractional_max_pool{n}d")(*args, **kwargs)


def begins(u: float, n: int, out: int, k: int) -> list[int]:
    """Graham's intervals, as PyTorch has them: the last one ends with the image."""
    step = (n - k) / (out - 1) if out > 1 else 0
    return [*(int((i + u) * step) - int(u * step) for i in range(out - 1)), n - k]


def looped(x: Any, draws: Any, kernel: Any, size: Any) -> tuple[Any, Any]:
    n = x.ndim - 2
    values, indices = np.empty((*x.shape[:2], *size)), np.empty((*x.shape[:2], *size), np.int64)
    for i, j in np.ndindex(*x.shape[:2]):
        u = draws[i, j][::-1] if n == 2 else draws[i, j]
        at = [begins(u[d], x.shape[2 + d], size[d], kernel[d]) for d in range(n)]
        for out in np.ndindex(*size):
            first = [at[d][out[d]] for d in range(n)]
            window = [tuple(map(sum, zip(first, o))) for o in product(*map(range, kernel))]
            best = max(window, key=lambda p: x[i, j][p])
            values[(i, j, *out)] = x[i, j][best]
            indices[(i, j, *out)] = np.ravel_multi_index(best, x.shape[2:])
    return values, indices


@pytest.mark.parametrize("n", [2, 3])
def test_each_window_gives_its_largest_element(n: int) -> None:
    x, kernel, size = SIZES[n]
    result = pool(n, st.tensor(x), kernel, size, None, True, st.tensor(DRAWS[n]))
    expected = looped(x, DRAWS[n], kernel if n == 2 else (2, 2, 2), size)
    for ours, theirs in zip(result, expected, strict=True):
        assert np.array_equal(ours.numpy(), theirs)
    unbatched = pool(n, st.tensor(x[0]), kernel, size, _random_samples=st.tensor(DRAWS[n][:1]))
    assert np.array_equal(unbatched.numpy(), expected[0][0])


def test_windows_are_drawn_by_the_generator() -> None:
    x = st.tensor(random.normal(size=(1, 1, 40, 40)))
    outputs = []
    for seed in (1, 1, 2):
        st.manual_seed(seed)
        outputs.append(functional.fractional_max_pool2d(x, 2, output_ratio=0.6).numpy())
    assert outputs[0].shape == (1, 1, 24, 24)
    assert np.array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])
    assert functional.fractional_max_pool2d(x, 3, output_ratio=(0.5, 0.2)).shape == (1, 1, 20, 8)


def test_every_window_has_an_index_for_any_values() -> None:
    x = np.full((1, 1, 5, 5), -np.inf)
    x[0, 0, 4, 4] = np.nan
    values, indices = functional.fractional_max_pool2d_with_indices(
        st.tensor(x), 2, 2, None, False, st.tensor(DRAWS[2][:1, :1])
    )
    assert indices.numpy()[0, 0].ravel()[:3].tolist() == [0, 3, 15]  # the first of each window
    assert np.isnan(values.numpy()[0, 0, 1, 1])
    assert indices[0, 0, 1, 1] == 24
    assert functional.fractional_max_pool2d(st.tensor(x[:0]), 2, 2).shape == (0, 1, 2, 2)
    assert functional.fractional_max_pool2d(st.tensor(x), 2, 0).shape == (1, 1, 0, 0)


def test_the_gradient_goes_to_the_indices() -> None:
    x = st.tensor(VOLUME, requires_grad=True)
    values, indices = functional.fractional_max_pool3d_with_indices(
        x, 2, (3, 4, 2), _random_samples=st.tensor(DRAWS[3])
    )
    weights = random.normal(size=values.shape)
    (values * st.tensor(weights)).sum().backward()
    expected = np.zeros((6, VOLUME[0, 0].size))
    rows = indices.numpy().reshape(6, -1)
    for row, at, w in zip(expected, rows, weights.reshape(6, -1), strict=True):
        np.add.at(row, at, w)
    assert np.allclose(x.grad.numpy().reshape(6, -1), expected)


BOTH = {
    "max_pool1d_with_indices": (2, 1),
    "max_pool2d_with_indices": (2, None, 0, 1, False, False),
    "max_pool3d_with_indices": (2, 1),
    "adaptive_max_pool1d_with_indices": (2,),
    "adaptive_max_pool2d_with_indices": (2, False),
    "adaptive_max_pool3d_with_indices": (2,),
}


@pytest.mark.parametrize("name", BOTH)
def test_both_values_and_indices(name: str) -> None:
    n, args = int(name[name.index("pool") + 4]), BOTH[name]
    x = st.tensor(random.normal(size=(2, 3, *(6, 5, 4)[:n])))
    result = getattr(functional, name)(x, *args)
    expected = getattr(functional, name.removesuffix("_with_indices"))(
        x, *args[:1], **({"stride": 1} if args == (2, 1) else {}), return_indices=True
    )
    for a, b in zip(result, expected, strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


INPUT = st.tensor(IMAGE)
WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no size": (lambda: pool(2, INPUT, 2), ValueError, "either an output_size or an output_ratio"),
    "ratios": (lambda: pool(2, INPUT, 2, None, (0.5,) * 3), ValueError, "one number or 2"),
    "sizes": (lambda: pool(2, INPUT, 2, (3, 3, 3)), RuntimeError, "output_size must be"),
    "kernel": (lambda: pool(2, INPUT, (2, 2, 2), 3), RuntimeError, "kernel_size must be"),
    "no kernel": (lambda: pool(2, INPUT, 0, 3), RuntimeError, "greater than zero: \\(0, 0\\)"),
    "many": (lambda: pool(2, INPUT, 2, (9, 4)), RuntimeError, "2 too large relative .* size 9"),
    "deep": (
        lambda: pool(3, st.tensor(VOLUME), 2, (3, 5, 3)), RuntimeError, "relative to input size 5",
    ),
    "below": (lambda: pool(2, INPUT, 2, -1), RuntimeError, "not be negative: \\(-1, -1\\)"),
    "flat": (lambda: pool(2, INPUT[0, 0], 2, 3), IndexError, "\\(9, 8\\), 3 or 4 are needed"),
    "empty": (lambda: pool(2, INPUT[:, :0], 2, 3), RuntimeError, "\\(2, 0, 9, 8\\)"),
    "whole": (lambda: pool(2, INPUT.long(), 2, 3), NotImplementedError, "int64"),
    "drawn dtype": (
        lambda: pool(2, INPUT, 2, 3, None, False, st.ones(2, 3, 2)), RuntimeError,
        "same dtype as input: float32, float64",
    ),
    "drawn shape": (
        lambda: pool(2, INPUT, 2, 3, None, False, st.tensor(DRAWS[3])), RuntimeError,
        r"shape \(2, 3, 2\): \(2, 3, 3\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_named(name: str) -> None:
    wrong, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        wrong()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 3])
def test_pytorchs_windows(n: int, dtype: str) -> None:
    import torch

    draw = np.random.default_rng(n)
    for _ in range(20):
        inner = tuple(map(int, draw.integers(4, 12, n)))
        kernel = tuple(map(int, draw.integers(1, 4, n)))
        # in three dimensions PyTorch refuses windows that exactly fit
        size = tuple(
            int(draw.integers(1, m - k + 4 - n)) for m, k in zip(inner, kernel, strict=True)
        )
        x = draw.normal(size=(2, 3, *inner)).astype(dtype)
        u = draw.uniform(size=(2, 3, n)).astype(dtype)
        results = []
        for module in (torch, st):
            leaf = module.tensor(x, requires_grad=True)
            function = getattr(module.nn.functional, f"fractional_max_pool{n}d")
            values, indices = function(leaf, kernel, size, None, True, module.tensor(u))
            values.square().sum().backward()
            results.append([v.detach().numpy() for v in (values, indices, leaf.grad)])
        for theirs, ours in zip(*results, strict=True):
            assert np.allclose(ours, theirs, rtol=1e-6)
            assert ours.dtype == theirs.dtype
