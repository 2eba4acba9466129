"""InstanceNorm1d to 3d: each sample separately, without a batch, with running statistics."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn

LAYERS = [(nn.InstanceNorm1d, 1), (nn.InstanceNorm2d, 2), (nn.InstanceNorm3d, 3)]
LAZY = [(nn.LazyInstanceNorm1d, 1), (nn.LazyInstanceNorm2d, 2), (nn.LazyInstanceNorm3d, 3)]


@pytest.mark.parametrize(("cls", "spatial"), LAYERS)
def test_each_channel_of_each_sample_is_normalised(cls, spatial: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3) + (4,) * spatial).astype(np.float32) + 5
    axes = tuple(range(2, 2 + spatial))
    layer = cls(3, affine=True)
    out = layer(st.tensor(x)).detach().numpy()
    expected = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-4)
    unbatched = layer(st.tensor(x[0])).detach().numpy()
    np.testing.assert_allclose(unbatched, out[0], rtol=1e-5, atol=1e-6)


def test_running_statistics_are_the_mean_over_samples() -> None:
    x = np.random.default_rng(0).standard_normal((3, 2, 5)).astype(np.float32)
    layer = nn.InstanceNorm1d(2, track_running_stats=True, momentum=0.5)
    layer(st.tensor(x))
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.5 * x.mean((0, 2)), atol=1e-6)
    layer.eval()
    root = np.sqrt(layer.running_var.numpy() + 1e-5)[:, None]
    expected = (x - layer.running_mean.numpy()[:, None]) / root
    np.testing.assert_allclose(layer(st.tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_wrong_inputs_are_shown() -> None:
    with pytest.raises(ValueError, match=r"expected 2D or 3D input .*: shape \(3,\)"):
        nn.InstanceNorm1d(3)(st.ones(3))
    with pytest.raises(ValueError, match=r"dim=1 to match num_features \(3\): shape \(2, 4, 5\)"):
        nn.InstanceNorm1d(3, affine=True)(st.ones(2, 4, 5))
    with pytest.warns(UserWarning, match="no effect because affine=False"):
        nn.InstanceNorm1d(3)(st.ones(4, 5))
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        nn.InstanceNorm2d(3)(st.ones(2, 3, 1, 1))


def test_old_running_statistics_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r'buffer\(s\) "running_var" for InstanceNorm1d'):
        nn.InstanceNorm1d(3).load_state_dict({"running_var": st.ones(3)})


@pytest.mark.parametrize(("lazy", "spatial"), LAZY)
def test_lazy_layers_learn_their_channels(lazy, spatial: int) -> None:
    for batch in ((2,), ()):
        layer = lazy()
        layer(st.randn(*batch, 3, *(4,) * spatial))
        assert type(layer) is lazy.cls_to_become
        assert layer.num_features == 3
        assert layer.weight.shape == layer.running_var.shape == (3,)
