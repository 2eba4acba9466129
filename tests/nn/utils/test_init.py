"""skip_init: modules without initial values."""

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
