"""Dropout: the share of kept elements, and their scale."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import functional as F


def test_dropout_keeps_the_mean_and_scales() -> None:
    st.manual_seed(0)
    out = nn.Dropout(0.25)(st.ones(20_000)).numpy()
    np.testing.assert_allclose(np.unique(out), [0, 4 / 3], rtol=1e-6)
    assert abs(out.mean() - 1) < 0.02


def test_evaluation_returns_the_input() -> None:
    x = st.ones(3)
    assert nn.Dropout(0.5).eval()(x) is x
    assert F.dropout(x, 0.0) is x
    assert (F.dropout(x, 1.0).numpy() == 0).all()


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Dropout1d(), (8, 16, 5)),
        (nn.Dropout2d(), (8, 16, 5, 3)),
        (nn.Dropout3d(), (16, 5, 3, 2)),
    ],
)
def test_entire_channels_are_dropped(module: nn.Module, shape: tuple[int, ...]) -> None:
    st.manual_seed(1)
    out = module(st.ones(*shape)).numpy()
    channels = out.reshape(-1, int(np.prod(shape[len(shape) - {1: 1, 2: 2, 3: 3}[dims(module)] :])))
    assert (channels == channels[:, :1]).all()
    assert set(np.unique(out)) == {0.0, 2.0}


def dims(module: nn.Module) -> int:
    return int(type(module).__name__[-2])


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    st.manual_seed(0)
    out = nn.AlphaDropout(0.3)(st.randn(50_000)).numpy()
    assert abs(out.mean()) < 0.03
    assert abs(out.var() - 1) < 0.05


def test_in_place() -> None:
    x = st.ones(100)
    assert F.dropout(x, 0.5, inplace=True) is x
    assert 0 in x.numpy()


def test_probability_is_checked() -> None:
    with pytest.raises(ValueError, match=r"1\.5"):
        nn.Dropout(1.5)
    with pytest.raises(ValueError, match=r"-1"):
        F.dropout(st.ones(1), -1)


def test_feature_alpha_dropout_drops_entire_channels() -> None:
    m = nn.FeatureAlphaDropout(0.5)
    out = m(st.ones(8, 8, 4)).numpy()
    assert len(np.unique(out)) == 2
    assert (out == out[:, :, :1]).all()
    x = st.ones(2, 2)
    assert m.eval()(x) is x


LAYERS = {"dropout1d": nn.Dropout1d, "dropout2d": nn.Dropout2d, "dropout3d": nn.Dropout3d}
SHAPE = (9, 8, 7, 2, 2, 2)
# By function and number of dimensions: how many leading dimensions drop one by one after the first
# `skipped`; PyTorch 2.13's. The others are warned of, or errors.
SINGLE = {
    ("dropout1d", 2): 1, ("dropout1d", 3): 2, ("dropout2d", 2): 2, ("dropout2d", 3): 2,
    ("dropout2d", 4): 2, ("dropout2d", 5): 2, ("dropout2d", 6): 2, ("dropout3d", 1): 1,
    ("dropout3d", 2): 1, ("dropout3d", 3): 1, ("dropout3d", 4): 1, ("dropout3d", 5): 2,
    ("dropout3d", 6): 1,
}  # fmt: skip
WARNS = {("dropout2d", n) for n in (0, 1, 2, 3, 5, 6)} | {("dropout3d", n) for n in (0, 1, 2, 3, 6)}


@pytest.mark.parametrize("form", ["layer", "function", "in place", "evaluation"])
@pytest.mark.parametrize("ndim", range(7))
@pytest.mark.parametrize("name", LAYERS)
def test_other_dimensions_are_warned_of(name: str, ndim: int, form: str) -> None:
    key, x = (name, ndim), st.ones(SHAPE[:ndim])
    training = form != "evaluation"
    layer = LAYERS[name](0.5).train(training)
    calls = {"function": getattr(F, name), "in place": lambda x: getattr(F, name)(x, inplace=True)}
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        st.manual_seed(0)
        try:
            out = calls.get(form, layer)(x)
        except RuntimeError as raised:
            error = str(raised)
    assert [w.category for w in caught] == [UserWarning] * (key in WARNS)
    assert all(name in str(w.message) for w in caught)
    if name == "dropout1d" and ndim not in (2, 3):
        assert error
        assert "expected 2 or 3 dimensions" in error
    elif not training:
        assert out is x
    elif key not in SINGLE:
        assert error
        assert "at least 2 dimensions" in error
    else:
        assert error is None
        channels = out.numpy().reshape(*SHAPE[: SINGLE[key]], -1)
        assert set(np.unique(channels)) == {0, 2}
        assert (channels == channels[..., :1]).all()
        for dim in range(SINGLE[key]):
            assert (channels != channels.take([0], dim)).any()


@pytest.mark.torch
@pytest.mark.parametrize("ndim", range(7))
@pytest.mark.parametrize("name", LAYERS)
def test_pytorch_warns_of_the_same_dimensions(name: str, ndim: int) -> None:
    torch = pytest.importorskip("torch")
    outcomes = []
    for library in (st, torch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                getattr(library.nn.functional, name)(library.ones(SHAPE[:ndim]))
                kind = "a result"
            except RuntimeError:
                kind = "an error"
        outcomes.append((kind, [str(w.message) for w in caught]))
    assert outcomes[0] == outcomes[1]
