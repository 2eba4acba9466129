"""PyTorch's functions, called with our tensors, run our ops."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.torch

import shmtensor as st  # noqa: E402
from shmtensor import nn  # noqa: E402


@pytest.mark.parametrize(
    "function", [torch.nn.functional.gelu, torch.nn.functional.softplus, torch.relu, torch.sin]
)
def test_a_function_of_torch_takes_our_tensor(function) -> None:
    x = st.randn(5, requires_grad=True)
    out = function(x)
    assert type(out) is st.Tensor
    out.sum().backward()
    theirs = torch.tensor(x.detach().numpy(), requires_grad=True)
    function(theirs).sum().backward()
    assert out.detach().numpy() == pytest.approx(function(theirs).detach().numpy(), abs=1e-6)
    assert x.grad.numpy() == pytest.approx(theirs.grad.numpy(), abs=1e-6)


def test_a_layer_takes_an_activation_of_torch() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation=torch.nn.functional.gelu)
    assert layer(st.randn(3, 2, 8)).shape == (3, 2, 8)


def test_missing_functions_are_refused() -> None:
    with pytest.raises(TypeError, match="implementation"):
        torch.lobpcg(st.eye(4), 1)
