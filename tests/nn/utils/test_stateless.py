"""functional_call under its older path, and tied weights."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import utils


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
