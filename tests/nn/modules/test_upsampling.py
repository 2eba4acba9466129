"""Upsample and its two older forms."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


def test_nearest_repeats_elements() -> None:
    x = st.arange(6.0).reshape(1, 1, 2, 3)
    expected = x.numpy().repeat(2, 2).repeat(2, 3)
    for m in (
        nn.Upsample(scale_factor=2),
        nn.Upsample(size=(4, 6)),
        nn.UpsamplingNearest2d(scale_factor=2),
        nn.UpsamplingNearest2d((4, 6)),
    ):
        assert np.array_equal(m(x).numpy(), expected)


def test_older_pickles_computed_the_factor_again() -> None:
    m = pickle.loads(pickle.dumps(nn.Upsample(2)))
    assert m.recompute_scale_factor is None
    state = dict(m.__dict__)
    del state["recompute_scale_factor"]
    older = nn.Upsample.__new__(nn.Upsample)
    older.__setstate__(state)
    assert older.recompute_scale_factor is True


def test_wrong_arguments_are_refused() -> None:
    x = st.ones(1, 1, 2, 3)
    for m, error, message in (
        (nn.Upsample(), ValueError, "None, None"),
        (nn.Upsample(2, 2), ValueError, "2, 2.0"),
        (nn.Upsample((2, 2, 2)), ValueError, r"\[2, 2, 2\]"),
        (nn.Upsample(2, align_corners=True), ValueError, "mode='nearest'"),
        (nn.Upsample(2, mode="some"), NotImplementedError, "'some'"),
        (nn.Upsample(2, mode="linear"), NotImplementedError, r"3 dimensions: \(1, 1, 2, 3\)"),
        (nn.Upsample(0), RuntimeError, r"positive: \(0, 0\)"),
    ):
        with pytest.raises(error, match=message):
            m(x)


def test_bilinear_keeps_the_corners() -> None:
    x = st.tensor([[[[0.0, 3.0], [6.0, 9.0]]]])
    expected = [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]]
    for layer in (nn.UpsamplingBilinear2d(4), nn.Upsample(4, mode="bilinear", align_corners=True)):
        np.testing.assert_allclose(layer(x)[0, 0], expected, atol=1e-5)
