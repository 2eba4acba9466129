"""skip_init, memory formats of weights, functional_call under its older path."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import utils


def test_skipped_initialisation_draws_nothing() -> None:
    st.manual_seed(3)
    expected = st.rand(2)
    st.manual_seed(3)
    layer = utils.skip_init(nn.Conv2d, 2, 3, kernel_size=3, bias=False)
    assert layer.weight.shape == (3, 2, 3, 3)
    assert st.rand(2).tolist() == expected.tolist()
    nn.init.ones_(layer.weight)
    assert layer.weight.min() == 1
    with pytest.raises(RuntimeError, match="Expected a Module"):
        utils.skip_init(st.optim.SGD)
    with pytest.raises(RuntimeError, match="'device'"):
        utils.skip_init(nn.ReLU)


def test_convolutions_change_their_memory_format() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Conv3d(2, 3, 2), nn.Linear(2, 2))
    assert utils.convert_conv2d_weight_memory_format(model, st.channels_last) is model
    assert model[0].weight.is_contiguous(memory_format=st.channels_last)
    assert model[1].weight.is_contiguous()
    utils.convert_conv3d_weight_memory_format(model, st.channels_last_3d)
    assert model[1].weight.is_contiguous(memory_format=st.channels_last_3d)
    assert model[0].weight.requires_grad


def test_functional_call_under_its_older_path() -> None:
    layer = nn.Linear(2, 1, bias=False)
    with pytest.warns(FutureWarning, match="functional_call"):
        out = utils.stateless.functional_call(layer, {"weight": st.ones(1, 2)}, st.ones(1, 2))
    assert out.item() == 2
    layer.again = layer.weight  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"\['again', 'weight'\], which are tied"):
        st.func.functional_call(
            layer, {"weight": st.ones(1, 2), "again": st.ones(1, 2)}, st.ones(1, 2)
        )
