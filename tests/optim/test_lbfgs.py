"""LBFGS: finds minima, and refuses wrong arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.optim.line_search import Point, strong_wolfe


def minimise(p: Any, function: Any, steps: int = 10, **kwargs: Any) -> Any:
    optimizer = optim.LBFGS([p], **kwargs)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = function(p)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return optimizer


def rosenbrock(p: Any) -> Any:
    return 100 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2


def test_minimum_of_rosenbrocks_function() -> None:
    p = nn.Parameter(st.tensor([-1.2, 1.0], dtype=st.float64))
    minimise(p, rosenbrock, line_search_fn="strong_wolfe")
    np.testing.assert_allclose(p.detach().numpy(), [1, 1], rtol=1e-3)


def test_minimum_of_a_quadratic_function_and_of_complex_numbers() -> None:
    a = np.diag([1.0, 10.0, 100.0])
    p = nn.Parameter(st.ones(3, dtype=st.float64))
    minimise(p, lambda p: (p * (st.tensor(a) @ p)).sum() / 2 - p.sum(), lr=0.5)
    np.testing.assert_allclose(p.detach().numpy(), np.linalg.solve(a, np.ones(3)), rtol=1e-3)
    z = nn.Parameter(st.zeros(2, dtype=st.complex128))
    minimise(z, lambda z: (z - (1 + 2j)).abs().square().sum())
    np.testing.assert_allclose(z.detach().numpy(), [1 + 2j] * 2, rtol=1e-6)


def test_evaluations_are_counted_and_limited() -> None:
    p = nn.Parameter(st.tensor([-1.2, 1.0], dtype=st.float64))
    optimizer = minimise(p, rosenbrock, steps=1, max_eval=5, line_search_fn="strong_wolfe")
    assert optimizer.state[p]["func_evals"] <= 6
    assert optimizer.state[p]["n_iter"] >= 1


def test_line_search_meets_the_wolfe_conditions() -> None:
    def at(t: float) -> Point:  # (t - 3)**4, whose minimum is far from the first trial
        return Point(t, (t - 3) ** 4, None, 4 * (t - 3) ** 3)

    start = at(0.0)
    point, calls = strong_wolfe(at, start, 0.1, 1.0, 25)
    assert point.loss <= start.loss + 1e-4 * point.t * start.slope
    assert abs(point.slope) <= 0.9 * abs(start.slope)
    assert calls <= 26


def test_wrong_use_is_refused() -> None:
    p, q = nn.Parameter(st.ones(1)), nn.Parameter(st.ones(1))
    with pytest.raises(ValueError, match=r"parameter groups.*2"):
        optim.LBFGS([{"params": [p]}, {"params": [q]}])
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        optim.LBFGS([p], lr=-1)
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([p]).step()
    with pytest.raises(RuntimeError, match=r"strong_wolfe.*'none'"):
        minimise(p, lambda p: (p * p).sum(), line_search_fn="none")
