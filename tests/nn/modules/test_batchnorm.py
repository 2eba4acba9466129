"""BatchNorm1d to 3d: statistics by NumPy, running ones, state of version 1, lazy layers."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


def test_momentum_none_averages_all_batches() -> None:
    layer = nn.BatchNorm1d(1, momentum=None)
    for value in (1.0, 3.0, 8.0):
        layer(st.full((2, 1), value))
    assert layer.running_mean.tolist() == [4]


def test_running_statistics_are_forgotten() -> None:
    layer = nn.BatchNorm1d(2)
    layer(st.randn(4, 2))
    layer.reset_running_stats()
    assert layer.num_batches_tracked.item() == 0
    assert layer.running_mean.tolist() == [0, 0]
    assert layer.running_var.tolist() == [1, 1]


def test_without_running_statistics_evaluation_uses_the_batch_too() -> None:
    layer = nn.BatchNorm1d(2, affine=False, track_running_stats=False).eval()
    assert layer.state_dict() == {}
    out = layer(st.tensor([[1.0, 2.0], [3.0, 6.0]]))
    np.testing.assert_allclose(out.numpy(), [[-1, -1], [1, 1]], rtol=1e-4)


def test_state_of_version_1_has_no_count() -> None:
    layer = nn.BatchNorm1d(2)
    layer(st.randn(3, 2))
    old = {name: st.ones(2) for name in ("weight", "bias", "running_mean", "running_var")}
    layer.load_state_dict(old)
    assert layer.num_batches_tracked.item() == 1
    new = layer.state_dict()
    del new["num_batches_tracked"]
    with pytest.raises(RuntimeError, match=r'Missing key.*"num_batches_tracked"'):
        layer.load_state_dict(new)


def test_wrong_inputs_are_shown() -> None:
    with pytest.raises(ValueError, match=r"expected 2D or 3D input \(got 4D input\): shape \(1, 2"):
        nn.BatchNorm1d(2)(st.ones(1, 2, 1, 1))
    with pytest.raises(ValueError, match=r"more than 1 value per channel .*: \(1, 2, 1, 1\)"):
        nn.BatchNorm2d(2)(st.ones(1, 2, 1, 1))
    with pytest.raises(RuntimeError, match="running_mean must have 4 elements"):
        nn.BatchNorm1d(2)(st.ones(3, 4))


@pytest.mark.parametrize(
    ("lazy", "cls", "shape"),
    [
        (nn.LazyBatchNorm1d, nn.BatchNorm1d, (5, 3)),
        (nn.LazyBatchNorm2d, nn.BatchNorm2d, (2, 3, 2, 2)),
        (nn.LazyBatchNorm3d, nn.BatchNorm3d, (1, 3, 2, 2, 2)),
    ],
)
def test_lazy_layers_learn_their_channels(lazy, cls, shape) -> None:
    layer = lazy()
    with pytest.raises(ValueError, match=lazy.__name__):
        layer(st.ones(3))
    layer(st.randn(*shape))
    assert type(layer) is cls
    assert layer.num_features == 3
    assert list(layer.state_dict()) == list(cls(3).state_dict())
    loaded = lazy()
    loaded.load_state_dict(layer.state_dict())
    loaded(st.randn(*shape))
    assert repr(loaded) == repr(cls(3))
