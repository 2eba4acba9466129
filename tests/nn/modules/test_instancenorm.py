"""InstanceNorm1d to 3d: each sample separately, without a batch, with running statistics."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import nn

LAZY = [(nn.LazyInstanceNorm1d, 1), (nn.LazyInstanceNorm2d, 2), (nn.LazyInstanceNorm3d, 3)]


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
