"""Parameters as one vector, and back."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import utils


def test_vector_and_back() -> None:
    ps = [nn.Parameter(st.ones(3)), nn.Parameter(st.ones(2, 2)), nn.Parameter(st.ones(1))]
    vector = utils.parameters_to_vector(ps)
    assert vector.shape == (8,)
    utils.vector_to_parameters(st.arange(8.0), ps)
    assert ps[1].tolist() == [[3, 4], [5, 6]]
    assert ps[1].requires_grad
    with pytest.raises(TypeError, match="list"):
        utils.vector_to_parameters([1.0], ps)
