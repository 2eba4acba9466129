"""A layer fused with the batch normalisation after it computes the same as both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import utils


def trained(bn: Any) -> Any:
    with st.no_grad():
        bn.running_mean.uniform_(-1, 1)
        bn.running_var.uniform_(0.5, 2)
        bn.weight.uniform_(-1, 1)
        bn.bias.uniform_(-1, 1)
    return bn.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_convolution(bias: bool, transpose: bool) -> None:
    st.manual_seed(0)
    conv = (nn.ConvTranspose2d if transpose else nn.Conv2d)(2, 3, 2, bias=bias).eval()
    bn = trained(nn.BatchNorm2d(3))
    x = st.randn(2, 2, 4, 4)
    fused = utils.fuse_conv_bn_eval(conv, bn, transpose)
    expected = bn(conv(x)).detach().numpy()
    np.testing.assert_allclose(fused(x).detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    assert fused is not conv


def test_linear() -> None:
    st.manual_seed(0)
    linear, bn = nn.Linear(4, 3).eval(), trained(nn.BatchNorm1d(3))
    x = st.randn(5, 4)
    fused = utils.fuse_linear_bn_eval(linear, bn)
    np.testing.assert_allclose(
        fused(x).detach().numpy(), bn(linear(x)).detach().numpy(), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(AssertionError, match="num_features=2"):
        utils.fuse_linear_bn_eval(linear, trained(nn.BatchNorm1d(2)))
    with pytest.raises(AssertionError, match="only for eval"):
        utils.fuse_linear_bn_eval(nn.Linear(4, 3), bn)


def test_parameters_keep_dtype_and_gradient() -> None:
    weight = nn.Parameter(st.ones(2, 2), requires_grad=False)
    zeros, ones = st.zeros(2), st.ones(2)
    for fuse in (utils.fuse_linear_bn_weights, utils.fuse_conv_bn_weights):
        w, b = fuse(weight.half(), None, ones, 4 * ones, 0.0, ones, zeros)
        assert w.dtype == b.dtype == st.float16
        assert not w.requires_grad
        assert w.tolist() == [[0.5, 0.5]] * 2
        assert b.tolist() == [-0.5, -0.5]
