"""Gradients cut to a norm or a value."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import utils


def parameters() -> list[nn.Parameter]:
    params = [nn.Parameter(st.ones(3)), nn.Parameter(st.ones(2, 2)), nn.Parameter(st.ones(1))]
    params[0].grad = st.tensor([3.0, 0.0, 0.0])
    params[1].grad = st.tensor([[0.0, -4.0], [0.0, 0.0]])
    return params


def test_norm_before_is_returned_and_gradients_are_scaled() -> None:
    ps = parameters()
    assert utils.clip_grad_norm_(ps, 1.0).item() == 5
    np.testing.assert_allclose(ps[0].grad.numpy(), [0.6, 0, 0], rtol=1e-5)
    np.testing.assert_allclose(ps[1].grad.numpy()[0, 1], -0.8, rtol=1e-5)
    assert utils.clip_grad_norm_(ps, 10.0).item() == pytest.approx(1, rel=1e-5)
    assert utils.clip_grad_norm_(iter(ps), 10.0, float("inf")).item() == pytest.approx(0.8)
    assert utils.clip_grad_norm_([ps[2]], 1.0).item() == 0
    ps = parameters()
    utils.clip_grads_with_norm_(ps, 1.0, utils.get_total_norm([p.grad for p in ps[:2]]))
    np.testing.assert_allclose(ps[0].grad.numpy(), [0.6, 0, 0], rtol=1e-5)


def test_infinite_norm_is_refused_on_demand() -> None:
    ps = parameters()
    ps[0].grad[0] = float("inf")
    with pytest.raises(RuntimeError, match="not finite: inf"):
        utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)


def test_values_are_cut() -> None:
    ps = parameters()
    utils.clip_grad_value_(ps, 2.5)
    assert ps[0].grad[0].item() == 2.5
    assert ps[1].grad[0, 1].item() == -2.5


def test_norms_of_other_orders_and_dtypes() -> None:
    gradients = [st.tensor([3.0, 0.0]), st.tensor([[-4.0]])]
    for order, norm in [(0, 2), (1, 7), (2, 5), (float("inf"), 4)]:
        assert utils.get_total_norm(gradients, order).item() == pytest.approx(norm)
    assert utils.get_total_norm([]).item() == 0
    p = nn.Parameter(st.ones(2, dtype=st.float16))
    p.grad = st.tensor([60000.0, 60000.0], dtype=st.float16)
    assert utils.clip_grad_norm_(p, 1.0).item() == float("inf")
    p = nn.Parameter(st.ones(1, dtype=st.complex64))
    p.grad = st.tensor([3 + 4j])
    assert utils.clip_grad_norm_(p, 1.0).dtype == st.float32


def test_misuse_of_clipping_warns() -> None:
    model = nn.Linear(1, 1)
    generator = model.parameters()
    list(generator)
    with pytest.warns(UserWarning, match="empty generator"):
        utils.clip_grad_norm_(generator, 1.0)
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        utils.clip_grad_norm(parameters(), 1.0)


def test_a_module_is_no_list_of_parameters() -> None:
    for clip in (utils.clip_grad_norm_, utils.clip_grad_value_):
        with pytest.raises(TypeError, match=r"but got Linear, hint: model\.parameters\(\)"):
            clip(nn.Linear(2, 1), 1.0)  # type: ignore[arg-type]
