"""Adafactor: the paper's formulas in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim


def rms(x: Any) -> Any:
    return np.sqrt((x * x).mean())


@pytest.mark.parametrize("shape", [(6, 4), (5,), (2, 3, 4), ()])
def test_steps_are_the_papers(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape)
    p = nn.Parameter(st.tensor(x.copy()))
    o = optim.Adafactor([p], lr=0.5, eps=(1e-3, 0.1), d=1.5, weight_decay=0.1)
    rows: Any = 0.0
    columns: Any = 0.0
    variance: Any = 0.0
    for t in range(1, 5):
        g = rng.normal(size=shape)
        p.grad = st.tensor(g)
        o.step()
        beta = 1 - t**-0.8
        length = max(0.1, rms(x)) * min(0.5, t**-0.5)
        x = x * (1 - 0.5 * 0.1)
        if g.ndim > 1:
            rows = beta * rows + (1 - beta) * (g * g).mean(-1, keepdims=True)
            columns = beta * columns + (1 - beta) * (g * g).mean(-2, keepdims=True)
            variance = rows @ columns / np.maximum(rows.mean(-2, keepdims=True), 1e-3)
        else:
            variance = beta * variance + (1 - beta) * g * g
        u = g / np.maximum(np.sqrt(variance), 1e-3)
        x = x - length * u / max(1, rms(u) / 1.5)
    np.testing.assert_allclose(p.detach().numpy(), x, rtol=1e-12)


def test_memory_is_a_row_and_a_column() -> None:
    p = nn.Parameter(st.ones(4, 6))
    p.grad = st.ones(4, 6)
    o = optim.Adafactor([p])
    o.step()
    assert {k: tuple(v.shape) for k, v in o.state[p].items()} == {
        "step": (),
        "row_var": (4, 1),
        "col_var": (1, 6),
    }


def test_wrong_arguments_are_refused() -> None:
    p = nn.Parameter(st.ones(2))
    for kwargs, text in [
        ({"lr": -1.0}, "Learning rate should be >= 0 but is: -1.0"),
        ({"beta2_decay": 0.5}, "beta2_decay should be <= 0 but is: 0.5"),
        ({"eps": (-1, 1)}, "epsilon1 should be >= 0 but is: -1"),
        ({"eps": (None, -1)}, "epsilon2 should be >= 0 but is: -1"),
        ({"d": 0.5}, "threshold d should be >= 1 but is: 0.5"),
        ({"weight_decay": -1.0}, "weight_decay should be >= 0 but is: -1.0"),
    ]:
        with pytest.raises(ValueError, match=text):
            optim.Adafactor([p], **kwargs)  # type: ignore[arg-type]
    p.grad = st.ones(2).to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        optim.Adafactor([p]).step()
    z = nn.Parameter(st.ones(2, dtype=st.complex64))
    z.grad = st.ones(2, dtype=st.complex64)
    with pytest.raises(RuntimeError, match="complex"):
        optim.Adafactor([z]).step()
