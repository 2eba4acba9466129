"""SciPy's solvers, scikit-learn's estimators and matplotlib's plots take tensors as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.optimize
import scipy.signal
import scipy.stats
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score

import shmtensor as st

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

plt.figure().add_subplot().figure.canvas.draw()  # opens the files of the fonts
plt.close()

RANDOM = np.random.default_rng(0)
T = np.linspace(0, 1, 10)
WAVE = np.sin(5 * T)
ROWS, LABELS = RANDOM.normal(size=(40, 3)), np.arange(40) % 2
MATRIX, GRID = RANDOM.normal(size=(6, 3)), RANDOM.random(size=(8, 8))
SOLVERS = ["L-BFGS-B", "BFGS", "CG", "SLSQP", "trust-constr", "TNC", "Newton-CG"]


def loss_and_gradient(x: Any) -> Any:
    """(x0 - 3)^2 + 2 (x1 + 1)^2 and its gradient, as tensors of the dtype of x."""
    t = st.tensor(x, requires_grad=True)
    loss = (t[0] - 3) ** 2 + 2 * (t[1] + 1) ** 2
    loss.backward()
    return loss.detach(), t.grad


@pytest.mark.parametrize("method", SOLVERS)
def test_a_solver_with_gradients(method: str) -> None:
    start = st.zeros(2, dtype=st.float64)
    found = scipy.optimize.minimize(loss_and_gradient, start, jac=True, method=method)
    assert np.allclose(found.x, [3, -1], atol=1e-3)


@pytest.mark.parametrize("method", ["L-BFGS-B", "BFGS", "trust-constr"])
def test_a_solver_in_float32(method: str) -> None:
    found = scipy.optimize.minimize(loss_and_gradient, st.zeros(2), jac=True, method=method)
    assert np.allclose(found.x, [3, -1], atol=1e-2)


@pytest.mark.parametrize("method", ["Nelder-Mead", "Powell"])
@pytest.mark.parametrize("dtype", [st.float32, st.float64])
def test_a_solver_without_gradients(method: str, dtype: Any) -> None:
    start = st.zeros(2, dtype=dtype)
    found = scipy.optimize.minimize(lambda x: loss_and_gradient(x)[0], start, method=method)
    assert np.allclose(found.x, [3, -1], atol=1e-2)


X, Y = ROWS[:, 0], 2 * ROWS[:, 0] + 1
CALLS: dict[str, Callable[[Any], Any]] = {
    "least_squares": lambda m: (
        scipy.optimize.least_squares(lambda p: m(X) * p[0] + p[1] - m(Y), m([0.0, 0.0])).x
    ),
    "root": lambda m: scipy.optimize.root(lambda x: m(x) ** 2 - 4, m([1.5, 3.0])).x,
    "fsolve": lambda m: scipy.optimize.fsolve(lambda x: m(x) ** 2 - 4, m([1.0])),
    "curve_fit": lambda m: scipy.optimize.curve_fit(lambda x, a, b: a * x + b, m(X), m(Y))[0],
    "linear_sum_assignment": lambda m: scipy.optimize.linear_sum_assignment(m(GRID))[1],
    "interp1d": lambda m: scipy.interpolate.interp1d(m(T), m(WAVE))(m([0.3, 0.5])),
    "CubicSpline": lambda m: scipy.interpolate.CubicSpline(m(T), m(WAVE))(m([0.3])),
    "filtfilt": lambda m: scipy.signal.filtfilt(m([1.0, 0.5]), m([1.0, -0.2]), m(X)),
    "find_peaks": lambda m: scipy.signal.find_peaks(m(X))[0],
    "welch": lambda m: scipy.signal.welch(m(X), nperseg=16)[1],
    "convolve": lambda m: scipy.signal.convolve(m(X), m([1.0, 2.0])),
    "ttest_ind": lambda m: scipy.stats.ttest_ind(m(X), m(Y)).pvalue,
    "spearmanr": lambda m: scipy.stats.spearmanr(m(X), m(Y)).statistic,
    "gaussian_kde": lambda m: scipy.stats.gaussian_kde(m(X))(m([0.0, 0.5])),
    "Ridge": lambda m: Ridge().fit(m(ROWS), m(Y)).predict(m(ROWS)),
    "LogisticRegression": lambda m: LogisticRegression().fit(m(ROWS), m(LABELS)).coef_,
    "cross_val_score": lambda m: cross_val_score(Ridge(), m(ROWS), m(Y), cv=3),
    "roc_auc_score": lambda m: roc_auc_score(m(LABELS), m(X)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_gives_what_it_gives_for_arrays(name: str) -> None:
    def as_tensor(x: Any) -> Any:
        return st.tensor(np.asarray(x))

    result = CALLS[name](as_tensor)
    assert np.allclose(np.asarray(result), CALLS[name](np.asarray), rtol=1e-6)


PLOTS: dict[str, Callable[[Any, Any], Any]] = {
    "plot": lambda ax, m: ax.plot(m(T), m(WAVE)),
    "plot of columns": lambda ax, m: ax.plot(m(MATRIX)),
    "scatter": lambda ax, m: ax.scatter(m(T), m(WAVE), c=m(WAVE), s=m(50 * T)),
    "hist": lambda ax, m: ax.hist(m(WAVE)),
    "hist of columns": lambda ax, m: ax.hist(m(MATRIX)),
    "imshow": lambda ax, m: ax.imshow(m(GRID)),
    "boxplot": lambda ax, m: ax.boxplot(m(MATRIX)),
    "boxplot of a vector": lambda ax, m: ax.boxplot(m(WAVE)),
    "boxplot of a list": lambda ax, m: ax.boxplot([m(WAVE), m(T)]),
    "boxplot at positions": lambda ax, m: ax.boxplot(m(MATRIX), positions=m([1.0, 3, 5])),
    "violinplot": lambda ax, m: ax.violinplot(m(MATRIX)),
    "eventplot": lambda ax, m: ax.eventplot(m(MATRIX)),
    "stackplot": lambda ax, m: ax.stackplot(m([0.0, 1, 2]), m(np.abs(MATRIX))),
    "bar": lambda ax, m: ax.bar(m(T), m(WAVE), yerr=m(T)),
    "errorbar": lambda ax, m: ax.errorbar(m(T), m(WAVE), yerr=m(T)),
    "fill_between": lambda ax, m: ax.fill_between(m(T), m(WAVE - 1), m(WAVE), where=m(WAVE > 0)),
    "contour": lambda ax, m: ax.contour(m(GRID)),
    "pcolormesh": lambda ax, m: ax.pcolormesh(m(GRID)),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_has_the_pixels_of_that_of_arrays(name: str) -> None:
    pixels = []
    for make in (st.tensor, np.asarray):
        figure, ax = plt.subplots(figsize=(2, 2), dpi=50)
        PLOTS[name](ax, lambda x, make=make: make(np.asarray(x)))
        figure.canvas.draw()
        pixels.append(np.asarray(figure.canvas.buffer_rgba()).copy())
        plt.close(figure)
    assert np.array_equal(*pixels)


def test_a_box_a_column() -> None:
    figure, ax = plt.subplots()
    assert len(ax.boxplot(st.tensor(MATRIX))["boxes"]) == 3
    assert len(ax.violinplot(st.tensor(MATRIX))["bodies"]) == 3
    assert len(ax.hist(st.tensor(MATRIX))[0]) == 3
    plt.close(figure)
    x = st.ones(2)
    assert x.to_numpy() is x.numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        st.ones(2, requires_grad=True).to_numpy()
