"""BatchNorm1d to 3d: statistics by NumPy, running ones, state of version 1, lazy layers."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


@pytest.mark.parametrize(
    ("cls", "shape"),
    [
        (nn.BatchNorm1d, (5, 3)),
        (nn.BatchNorm1d, (5, 3, 2)),
        (nn.BatchNorm2d, (4, 3, 2, 2)),
        (nn.BatchNorm3d, (2, 3, 2, 2, 2)),
    ],
)
def test_training_uses_batch_statistics_and_evaluation_running_ones(cls, shape) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 3 + 1
    axes = (0, *range(2, len(shape)))
    wide = (1, 3) + (1,) * (len(shape) - 2)
    layer = cls(3, momentum=0.25)
    weight, bias = np.array([0.5, 2, -1], np.float32), np.array([1, 0, -2], np.float32)
    layer.weight.data, layer.bias.data = st.tensor(weight), st.tensor(bias)
    out = layer(st.tensor(x)).detach().numpy()
    mean, var = x.mean(axes), x.var(axes)
    standard = (x - mean.reshape(wide)) / np.sqrt(var.reshape(wide) + 1e-5)
    expected = standard * weight.reshape(wide) + bias.reshape(wide)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.25 * mean, rtol=1e-5, atol=1e-6)
    unbiased = x.var(axes, ddof=1)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.75 + 0.25 * unbiased, rtol=1e-5)
    layer.eval()
    remembered = [t.numpy().reshape(wide) for t in (layer.running_mean, layer.running_var)]
    standard = (x - remembered[0]) / np.sqrt(remembered[1] + 1e-5)
    expected = standard * weight.reshape(wide) + bias.reshape(wide)
    np.testing.assert_allclose(layer(st.tensor(x)).detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    assert layer.num_batches_tracked.item() == 1


def test_momentum_none_averages_all_batches() -> None:
    layer = nn.BatchNorm1d(2, momentum=None)
    batches = [np.random.default_rng(i).standard_normal((4, 2)) for i in range(3)]
    for batch in batches:
        layer(st.tensor(batch.astype(np.float32)))
    mean = np.mean([b.mean(0) for b in batches], 0)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-4, atol=1e-6)
    layer.reset_running_stats()
    assert layer.num_batches_tracked.item() == 0
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
