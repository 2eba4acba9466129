"""Weights of convolutions in another memory format."""

from __future__ import annotations

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import utils


def test_convolutions_change_their_memory_format() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Conv3d(2, 3, 2), nn.Linear(2, 2))
    assert utils.convert_conv2d_weight_memory_format(model, st.channels_last) is model
    assert model[0].weight.is_contiguous(memory_format=st.channels_last)
    assert model[1].weight.is_contiguous()
    utils.convert_conv3d_weight_memory_format(model, st.channels_last_3d)
    assert model[1].weight.is_contiguous(memory_format=st.channels_last_3d)
    assert model[0].weight.requires_grad
