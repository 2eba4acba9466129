"""st.masked against NumPy on the unmasked elements, row by row, and beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import masked

random = np.random.default_rng(31)
X = random.normal(size=(4, 5))
Y = random.normal(size=(4, 5))
MASK = random.random((4, 5)) < 0.6
MASK[1] = False  # a fully masked row
MASK[2] = True
HALF = MASK * np.array([1, 2, 0, 1, 3])  # any dtype: not 0 counts
WHOLE = random.integers(-9, 9, (4, 5))
LEFT = [row[m] for row, m in zip(X, MASK, strict=True)]


def or_nothing(function: Callable[[Any], float], default: float) -> Any:
    """A function's result for each row, and `default` for an empty one."""
    return np.array([function(row) if row.size else default for row in LEFT])


def lower_median(row: Any) -> float:
    return float(np.sort(row)[(row.size - 1) // 2])


REDUCED: dict[str, Any] = {
    "sum": or_nothing(np.sum, 0),
    "prod": or_nothing(np.prod, 1),
    "amax": or_nothing(np.max, -np.inf),
    "amin": or_nothing(np.min, np.inf),
    "mean": or_nothing(np.mean, np.nan),
    "median": or_nothing(lower_median, np.nan),
    "var": or_nothing(lambda r: r.var(ddof=1), np.nan),
    "std": or_nothing(lambda r: r.std(ddof=1), np.nan),
    "norm": or_nothing(np.linalg.norm, 0),
    "logsumexp": or_nothing(lambda r: np.log(np.exp(r).sum()), -np.inf),
    "argmax": np.where(MASK, X, -np.inf).argmax(1),
    "argmin": np.where(MASK, X, np.inf).argmin(1),
}


def run(name: str, x: Any, dim: Any, **kwargs: Any) -> Any:
    function = getattr(masked, name)
    return function(x, 2.0, dim, **kwargs) if name == "norm" else function(x, dim, **kwargs)


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_are_over_unmasked_elements(name: str) -> None:
    x, mask = st.tensor(X), st.tensor(MASK)
    result = run(name, x, 1, mask=mask)
    assert result.dtype == st.float64
    assert np.allclose(result.numpy(), REDUCED[name], equal_nan=True)
    keepdim = run(name, x, 1, mask=mask, keepdim=True)
    assert np.allclose(keepdim.numpy()[:, 0], REDUCED[name], equal_nan=True)
    across = run(name, x.T, 0, mask=mask.T)
    assert np.allclose(across.numpy(), REDUCED[name], equal_nan=True)
    if name not in ("median", "argmax", "argmin"):
        flat = x[MASK].reshape(1, -1)
        assert np.allclose(run(name, x, None, mask=mask).numpy(), run(name, flat, 1).numpy()[0])
        assert np.allclose(run(name, x, (-1, 0), mask=mask).numpy(), run(name, flat, 1).numpy())


@pytest.mark.parametrize("name", REDUCED)
def test_without_a_mask_everything_counts(name: str) -> None:
    unmasked = run(name, st.tensor(X), 1, mask=st.ones(4, 5, dtype=st.bool))
    assert np.allclose(run(name, st.tensor(X), 1).numpy(), unmasked.numpy())


def test_masks_are_broadcast_and_of_any_dtype() -> None:
    x = st.tensor(X)
    row, column = np.array([1, 0, 1, 1, 0]), np.array([[True], [False], [True], [True]])
    assert np.allclose(masked.sum(x, 1, mask=st.tensor(row)).numpy(), (X * row).sum(1))
    assert np.allclose(masked.sum(x, 0, mask=st.tensor(column)).numpy(), (X * column).sum(0))
    assert np.allclose(masked.sum(x, 1, mask=st.tensor(HALF)).numpy(), (X * (HALF != 0)).sum(1))
    assert masked.sum(x, mask=st.tensor(True)).numpy() == pytest.approx(X.sum())


@pytest.mark.parametrize("dim", [0, 1])
def test_running_and_normalised(dim: int) -> None:
    x, mask = st.tensor(X), st.tensor(MASK)
    zeros, ones = np.where(MASK, X, 0), np.where(MASK, X, 1)
    assert np.allclose(masked.cumsum(x, dim, mask=mask).numpy(), zeros.cumsum(dim))
    assert np.allclose(masked.cumprod(x, dim, mask=mask).numpy(), ones.cumprod(dim))
    lengths = np.maximum(np.abs(zeros).sum(dim, keepdims=True), 1e-12)
    assert np.allclose(masked.normalize(x, 1.0, dim, mask=mask).numpy(), zeros / lengths)
    wide = masked.normalize(x, 1.0, dim, eps=100.0, mask=mask)
    assert np.allclose(wide.numpy(), zeros / 100)
    with np.errstate(invalid="ignore", divide="ignore"):
        for sign, name in ((1, "softmax"), (-1, "softmin")):
            e = np.where(MASK, np.exp(sign * X), 0)
            share = e / e.sum(dim, keepdims=True)
            result = getattr(masked, name)(x, dim, mask=mask).numpy()
            assert np.allclose(result, share, equal_nan=True)
        logs = masked.log_softmax(x, dim, mask=mask).numpy()
        share = np.where(MASK, np.exp(X), 0)
        share /= share.sum(dim, keepdims=True)
        assert np.allclose(logs, np.log(share), equal_nan=True)
        assert np.isneginf(logs[0][~MASK[0]]).all()


def test_logaddexp_has_two_masks() -> None:
    x, y, other = st.tensor(X), st.tensor(Y), MASK[::-1].copy()
    result = masked.logaddexp(x, y, input_mask=st.tensor(MASK), other_mask=st.tensor(other))
    with np.errstate(divide="ignore"):
        expected = np.log(np.where(MASK, np.exp(X), 0) + np.where(other, np.exp(Y), 0))
    assert np.allclose(result.numpy(), expected)
    assert np.allclose(masked.logaddexp(x, y).numpy(), np.logaddexp(X, Y))


def test_corrections_of_the_variance() -> None:
    x, mask, n = st.tensor(X), st.tensor(MASK), np.array([len(r) for r in LEFT])
    squares = or_nothing(lambda r: r.var() * len(r), np.nan)
    for kwargs, less in (({}, 1), ({"unbiased": False}, 0), ({"unbiased": True}, 1),
                        ({"correction": 2}, 2), ({"correction": 0}, 0)):  # fmt: skip
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = squares / np.maximum(n - less, 0)
        result = masked.var(x, 1, mask=mask, **kwargs)
        assert np.allclose(result.numpy(), expected, equal_nan=True)
        root = masked.std(x, 1, mask=mask, **kwargs)
        assert np.allclose(root.numpy(), np.sqrt(expected), equal_nan=True)


def test_orders_of_the_norm() -> None:
    x, mask = st.tensor(X), st.tensor(MASK)
    for order in (0, 1, 3.0, np.inf):
        expected = or_nothing(lambda r, p=order: np.linalg.norm(r, p), 0)
        assert np.allclose(masked.norm(x, order, 1, mask=mask).numpy(), expected)
    expected = or_nothing(lambda r: np.abs(r).min(), np.inf)
    assert np.allclose(masked.norm(x, -np.inf, 1, mask=mask).numpy(), expected)


def test_dtypes() -> None:
    x, mask = st.tensor(WHOLE, dtype=st.int8), st.tensor(MASK)
    masked_x = np.where(MASK, WHOLE, 0)
    assert masked.sum(x, 1, mask=mask).dtype == st.int64
    assert masked.sum(x, 1, mask=mask).numpy().tolist() == masked_x.sum(1).tolist()
    assert masked.prod(x, 1, mask=mask).dtype == st.int64
    assert masked.cumsum(x, 1, mask=mask).dtype == st.int8
    assert masked.amax(x, 1, mask=mask).numpy()[1] == -128
    assert masked.amin(x, 1, mask=mask).numpy()[1] == 127
    assert masked.argmax(x, 1, mask=mask).dtype == st.int8
    assert masked.mean(x, 1, mask=mask, dtype=st.float32).dtype == st.float32
    assert masked.var(x, 1, mask=mask).dtype == st.float32
    assert masked.sum(x, 1, mask=mask, dtype="float64").dtype == st.float64
    assert masked.median(x, 0, mask=st.tensor(MASK[2])).dtype == st.int8
    z = st.tensor(X + 1j * Y)
    assert np.allclose(masked.mean(z, 1, mask=mask).numpy()[0], (X + 1j * Y)[0][MASK[0]].mean())
    variance = masked.var(z, 1, mask=mask).numpy()[0]
    assert np.allclose(variance, (X + 1j * Y)[0][MASK[0]].var(ddof=1))


def test_masked_elements_have_no_gradient() -> None:
    infinite = np.where(MASK, X, np.inf)
    for name in ("sum", "prod", "amax", "amin", "mean", "var", "norm", "logsumexp", "median"):
        x = st.tensor(infinite, requires_grad=True)
        run(name, x, 1, mask=st.tensor(MASK))[[0, 2, 3]].sum().backward()
        g = x.grad.numpy()
        assert not g[~MASK].any(), name
        assert np.isfinite(g).all(), name
        assert g[MASK].any(), name


ALONG = ("cumsum", "cumprod", "softmax", "log_softmax", "softmin")
XS = st.tensor(X)
WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "mask's rank": (
        lambda: masked.sum(XS, mask=st.ones(1, 4, 5) > 0), IndexError, r"\(1, 4, 5\), \(4, 5\)",
    ),
    "mask's shape": (
        lambda: masked.sum(XS, mask=st.ones(3) > 0), RuntimeError, r"fit: \(3,\), .*\(4, 5\)",
    ),
    "dim": (lambda: masked.sum(XS, 2), IndexError, r"masked.sum: .*range of \[-2, 1\], but got 2"),
    "dims": (lambda: masked.sum(XS, (0, -2)), RuntimeError, r"dim=-2 appears multiple .*\(0, -2\)"),
    "mean": (lambda: masked.mean(st.tensor(WHOLE)), ValueError, "Got: int64"),
    "median": (
        lambda: masked.median(st.tensor(WHOLE), 1, mask=st.tensor(MASK)), ValueError,
        "no fully masked out rows .*: int64",
    ),
    "both": (
        lambda: masked.var(XS, 1, True, correction=1), AssertionError, "Only one .*: True, 1",
    ),
    "bool": (
        lambda: masked.amax(XS > 0, 1, mask=st.tensor(MASK)), NotImplementedError,
        "identity of amax on bool",
    ),
    "whole": (
        lambda: masked.softmax(st.tensor(WHOLE), 1), NotImplementedError, "masked.softmax: .*int64",
    ),
    "name": (lambda: masked.minimum, AttributeError, "'minimum'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_named(name: str) -> None:
    wrong, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        wrong()


def test_the_names_exist() -> None:
    assert sorted(masked.__all__) == dir(masked) == masked.__all__
    assert st.masked is masked


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64"])
@pytest.mark.parametrize(
    "name", [*REDUCED, "cumsum", "cumprod", "softmax", "log_softmax", "softmin"]
)
def test_pytorchs_values_and_gradients(name: str, dtype: str) -> None:
    import torch
    import torch.masked as theirs_of

    order = ("amax", "amin", "argmax", "argmin", "median")
    soft = ("softmax", "log_softmax", "softmin")
    if dtype == "complex128" and name in (*order, *soft):
        pytest.skip("not of complex numbers")
    if dtype == "int64" and name in ("mean", "median", "norm", "logsumexp", *soft):
        pytest.skip("not of whole numbers")
    draw = np.random.default_rng(7)
    for dim in (0, -1):
        x = 3 * draw.normal(size=(3, 4)) + (1j * draw.normal(size=(3, 4)) if "c" in dtype else 0)
        mask = draw.random((3, 4)) < 0.7
        mask[:, 1] = mask[:, 1] | ~mask[:, 1] if dim else mask[:, 1] & False
        results = []
        for module, of in ((torch, theirs_of), (st, masked)):
            leaf = module.tensor(x.astype(dtype), requires_grad=dtype != "int64")
            function = getattr(of, name)
            args = (2.0, dim) if name == "norm" else (dim,)
            out = function(leaf, *args, mask=module.tensor(mask))
            values = [out.detach().numpy()]
            if out.requires_grad and name not in ("var", "std"):  # NaN for a fully masked row
                out.abs().square().nan_to_num(0, 0, 0).sum().backward()
                values.append(leaf.grad.numpy())
            results.append(values)
        assert len(results[0]) == len(results[1])
        for theirs, ours in zip(*results, strict=True):
            assert theirs.dtype == ours.dtype
            near = {"rtol": 1e-3, "atol": 1e-5} if dtype == "float32" else {}
            assert np.allclose(ours, theirs, equal_nan=True, **near)
