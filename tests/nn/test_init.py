"""Initial values: their distributions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import init


@pytest.fixture(autouse=True)
def _seed() -> None:
    st.manual_seed(0)


def test_uniform_families_keep_their_bounds() -> None:
    w = nn.Parameter(st.empty(200, 100))
    for make, limits in [
        (lambda: init.uniform_(w, -2, 3), (-2, 3)),
        (lambda: init.xavier_uniform_(w, 2), (-2 * math.sqrt(6 / 300), 2 * math.sqrt(6 / 300))),
        (
            lambda: init.kaiming_uniform_(w, nonlinearity="relu"),
            (-math.sqrt(6 / 100), math.sqrt(6 / 100)),
        ),
        (
            lambda: init.kaiming_uniform_(w, mode="fan_out", nonlinearity="linear"),
            (-math.sqrt(3 / 200), math.sqrt(3 / 200)),
        ),
    ]:
        assert make() is w
        assert w.requires_grad
        assert w.is_leaf
        a = w.detach().numpy()
        assert limits[0] <= a.min() < limits[0] * 0.98
        assert limits[1] * 0.98 < a.max() <= limits[1]


def test_normal_families_have_their_deviation() -> None:
    w = st.empty(300, 200)
    for make, std in [
        (lambda: init.normal_(w, 0, 3), 3),
        (lambda: init.xavier_normal_(w), math.sqrt(2 / 500)),
        (lambda: init.kaiming_normal_(w, a=1), 1 / math.sqrt(200)),
    ]:
        make()
        assert abs(w.numpy().std() / std - 1) < 0.02
        assert abs(w.numpy().mean() / std) < 0.02
    init.trunc_normal_(w, std=1, a=-0.5, b=1)
    assert w.numpy().min() >= -0.5
    assert w.numpy().max() <= 1


def test_constants() -> None:
    assert (init.constant_(st.empty(3), 4).numpy() == 4).all()
    assert (init.ones_(st.empty(3)).numpy() == 1).all()
    assert (init.zeros_(st.empty(3)).numpy() == 0).all()
    np.testing.assert_array_equal(init.eye_(st.empty(3, 2)).numpy(), np.eye(3, 2))
    kernel = init.dirac_(st.empty(4, 2, 3), groups=2).numpy()
    assert kernel.sum() == 4
    assert kernel[3, 1, 1] == 1


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = init.orthogonal_(st.empty(*shape), gain=2).numpy().reshape(shape[0], -1)
    product = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_sparse() -> None:
    w = init.sparse_(st.empty(10, 4), 0.3).numpy()
    assert ((w == 0).sum(0) == 3).all()


def test_gains() -> None:
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 1) == 1
    with pytest.raises(ValueError, match="'sine'"):
        init.calculate_gain("sine")


def test_generator_decides() -> None:
    a, b = (init.normal_(st.empty(5), generator=st.Generator().manual_seed(3)) for _ in range(2))
    np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_wrong_shapes_are_shown() -> None:
    with pytest.raises(ValueError, match=r"\(3,\)"):
        init.xavier_uniform_(st.empty(3))
    with pytest.raises(ValueError, match="mode"):
        init.kaiming_normal_(st.empty(3, 3), mode="fan")
    with pytest.warns(UserWarning, match="zero-element"):
        init.kaiming_uniform_(st.empty(0, 3))


def test_older_names_warn_and_do_the_same() -> None:
    older: Any = {
        init.constant: (2.0,),
        init.uniform: (),
        init.normal: (),
        init.eye: (),
        init.xavier_uniform: (),
        init.xavier_normal: (),
        init.kaiming_uniform: (),
        init.kaiming_normal: (),
        init.orthogonal: (),
        init.sparse: (0.5,),
    }
    w = st.empty(4, 4)
    for function, args in older.items():
        with pytest.warns(FutureWarning, match=f"`nn.init.{function.__name__}_`"):
            assert function(w, *args) is w
    with pytest.warns(FutureWarning):
        assert init.dirac(st.empty(1, 1, 1)).item() == 1


def test_truncated_far_from_the_mean() -> None:
    with pytest.warns(UserWarning, match="more than 2 std"):
        w = init.trunc_normal_(st.empty(1000), a=3, b=4).numpy()
    assert 3 <= w.min() < 3.1
    assert w.max() <= 4
    assert w.mean() < 3.4  # the mean of that part of the distribution is 3.26
