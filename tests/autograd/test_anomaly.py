"""Anomaly mode names the forward line."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest

import shmtensor as st
from shmtensor import autograd


def wrong_line(x: st.Tensor) -> st.Tensor:
    return x.sqrt()  # the line to be named


def detected(**options: Any) -> autograd.detect_anomaly:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return autograd.detect_anomaly(**options)


def test_entering_it_warns() -> None:
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        autograd.detect_anomaly()


@pytest.mark.parametrize("shape", [(), (1,)])
def test_nan_names_the_forward_line(shape: tuple[int, ...]) -> None:
    x = st.full(shape, -1.0, requires_grad=True)
    with detected():
        y = wrong_line(x)
        with (
            pytest.warns(UserWarning, match="the line to be named"),
            pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values"),
        ):
            y.backward()


def test_it_holds_in_every_thread() -> None:
    is_enabled: list[bool] = []
    with detected():
        thread = threading.Thread(target=lambda: is_enabled.append(st.is_anomaly_enabled()))
        thread.start()
        thread.join()
    assert is_enabled == [True]
    assert not st.is_anomaly_enabled()


def test_nan_is_allowed_where_it_is_not_checked() -> None:
    x = st.tensor([-1.0], requires_grad=True)
    with detected(check_nan=False):
        wrong_line(x).backward()
    assert x.grad.isnan().all()


def test_an_error_in_backward_names_the_forward_line() -> None:
    class Fails(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise ValueError("no gradient today")

    x = st.ones(1, requires_grad=True)
    with detected():
        y = Fails.apply(x)
        with (
            pytest.warns(UserWarning, match=r"(?s)Error detected in FailsBackward.*Fails\.apply"),
            pytest.raises(ValueError, match="no gradient today"),
        ):
            y.backward()


def test_a_forward_outside_the_mode_is_reported_as_unknown() -> None:
    y = wrong_line(st.tensor([-1.0], requires_grad=True))
    with (
        detected(),
        pytest.warns(UserWarning, match="No forward pass information"),
        pytest.raises(RuntimeError, match="nan"),
    ):
        y.backward()


def test_it_is_off_afterwards() -> None:
    x = st.tensor([-1.0], requires_grad=True)
    with autograd.set_detect_anomaly(True):
        pass
    wrong_line(x).backward()
    autograd.set_detect_anomaly(True)
    autograd.set_detect_anomaly(False)
    wrong_line(x).backward()


def test_the_users_line_is_the_last_that_is_named() -> None:
    x = st.tensor([-1.0], requires_grad=True)
    with detected():
        y = wrong_line(x)
        with pytest.warns(match="Error detected") as warning_records, pytest.raises(RuntimeError):
            y.backward()
    assert (
        str(warning_records[0].message).rstrip().endswith("return x.sqrt()  # the line to be named")
    )


def test_the_origin_of_a_gradient_of_a_gradient_is_named() -> None:
    x = st.tensor([0.0], requires_grad=True)
    with detected():
        y = (x * x + 1).sqrt()
        (g,) = autograd.grad(y.sum(), x, create_graph=True)
        with (
            pytest.warns(match="Error detected|induced") as warning_records,
            pytest.raises(RuntimeError, match="returned nan"),
        ):
            (g.sqrt()).sum().backward()
    texts = [str(w.message) for w in warning_records]
    assert "Error detected in MulBackward0" in texts[0]
    assert "autograd.grad(y.sum(), x, create_graph=True)" in texts[0]
    assert "Previous calculation was induced by MulBackward0" in texts[1]
    assert "y = (x * x + 1).sqrt()" in texts[1]
