"""Global settings and old names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import shmtensor as st


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    st.set_default_dtype(st.float32)
    st.use_deterministic_algorithms(False)
    st.set_float32_matmul_precision("highest")
    st.set_num_interop_threads(1)
    st.set_warn_always(False)


def test_switches_are_noted() -> None:
    st.use_deterministic_algorithms(True, warn_only=True)
    assert st.are_deterministic_algorithms_enabled()
    st.set_float32_matmul_precision("high")
    assert st.get_float32_matmul_precision() == "high"
    st.set_num_interop_threads(3)
    assert st.get_num_interop_threads() == 3
    st.set_warn_always(True)
    assert st.is_warn_always_enabled()
    assert st.set_flush_denormal(True) is False
    st.set_default_device("cpu")
    assert st.get_default_device() == st.device("cpu")


def test_wrong_values_are_refused() -> None:
    with pytest.raises(RuntimeError, match="expected one of highest"):
        st.set_float32_matmul_precision("most")
    with pytest.raises(RuntimeError, match="positive"):
        st.set_num_interop_threads(0)
    with pytest.raises(TypeError, match="only floating-point types"):
        st.set_default_tensor_type(st.LongTensor)
    with pytest.raises(RuntimeError, match="no such device"):
        st.set_default_device("abacus")


def test_default_tensor_type() -> None:
    st.set_default_tensor_type(st.DoubleTensor)
    assert st.get_default_dtype() is st.float64
    st.set_default_tensor_type("shmtensor.FloatTensor")
    assert st.get_default_dtype() is st.float32


def test_other_names() -> None:
    assert st.typename(3) == "int"
    assert st.typename(st.tensor(1j)) == "shmtensor.ComplexFloatTensor"
    assert not st.is_storage(st.ones(1))
