"""Grad modes: as blocks, decorators, for generators and threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd import is_grad_enabled


def test_blocks_nest() -> None:
    with st.no_grad():
        assert not is_grad_enabled()
        with st.enable_grad():
            assert is_grad_enabled()
            assert (st.ones(1).requires_grad_() * 2).requires_grad
        assert not is_grad_enabled()
        assert not (st.ones(1).requires_grad_() * 2).requires_grad
    assert is_grad_enabled()


def test_the_mode_is_restored_by_an_exception() -> None:
    with pytest.raises(ValueError, match="x"), st.no_grad():
        raise ValueError("x")
    assert is_grad_enabled()


def test_decorators() -> None:
    @st.no_grad()
    def with_brackets() -> bool:
        return is_grad_enabled()

    @st.no_grad
    def without() -> bool:
        return is_grad_enabled()

    assert (with_brackets(), without()) == (False, False)
    assert with_brackets.__name__ == "with_brackets"
    assert is_grad_enabled()


def test_a_decorated_generator_has_its_mode_only_while_it_runs() -> None:
    @st.no_grad()
    def numbers() -> Iterator[bool]:
        while True:
            value = yield is_grad_enabled()
            assert not is_grad_enabled()
            assert value in (None, 5)

    running: Any = numbers()
    assert next(running) is False
    assert is_grad_enabled()
    assert running.send(5) is False
    running.close()
    assert is_grad_enabled()


def test_set_grad_enabled() -> None:
    st.set_grad_enabled(False)
    assert not is_grad_enabled()
    st.set_grad_enabled(True)
    with st.set_grad_enabled(False):
        assert not is_grad_enabled()
    assert is_grad_enabled()

    @st.set_grad_enabled(False)
    def inside() -> bool:
        return is_grad_enabled()

    assert is_grad_enabled()
    assert not inside()


def test_inference_mode() -> None:
    with st.inference_mode():
        assert st.is_inference_mode_enabled()
        assert not is_grad_enabled()
        with st.inference_mode(False):
            assert not st.is_inference_mode_enabled()
    assert is_grad_enabled()

    @st.inference_mode()
    def inside() -> bool:
        return st.is_inference_mode_enabled()

    assert inside()
    assert not st.is_inference_mode_enabled()


def test_inference_tensors_stay_out_of_graphs() -> None:
    with st.inference_mode():
        x = st.ones(2)
        x.add_(1)  # inside the mode they may be written
        view = x[:1]
    assert x.is_inference()
    assert view.is_inference()
    with pytest.raises(RuntimeError, match="do not track version counter"):
        x._version  # noqa: B018
    w = st.ones(2, requires_grad=True)
    assert (w + x).requires_grad  # nothing is saved
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        w * x
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        x.add_(1)
    with pytest.raises(RuntimeError, match=r"inference tensor"):
        x.requires_grad_()
    copy = x.clone()
    assert not copy.is_inference()
    (w * copy).sum().backward()
    assert w.grad.tolist() == [2, 2]
