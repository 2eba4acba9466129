"""Tensors from data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st


def test_dtypes_of_new_tensors() -> None:
    assert st.tensor([1, 2]).dtype is st.int64
    assert st.tensor([1.0]).dtype is st.float32
    assert st.tensor([1, 2.5]).dtype is st.float32
    assert st.tensor(True).dtype is st.bool
    assert st.tensor([1j]).dtype is st.complex64
    assert st.tensor([]).dtype is st.float32
    assert st.tensor(np.ones(2)).dtype is st.float64
    assert st.tensor([np.float64(1)]).dtype is st.float64
    assert st.tensor([1.0], dtype=st.float16).dtype is st.float16
    assert st.tensor([st.tensor(1.0), st.tensor(2.0)]).tolist() == [1, 2]


def test_the_default_dtype() -> None:
    st.set_default_dtype(st.float64)
    try:
        assert st.tensor([1.0]).dtype is st.float64
        assert (st.tensor([1]) + 1.5).dtype is st.float64
    finally:
        st.set_default_dtype(st.float32)
    with pytest.raises(TypeError, match="only floating-point types"):
        st.set_default_dtype(st.int64)


def test_tensor_copies_and_as_tensor_does_not() -> None:
    array = np.ones(2, np.float32)
    st.tensor(array)[0] = 5
    assert array.tolist() == [1, 1]
    st.as_tensor(array)[0] = 5
    assert array.tolist() == [5, 1]
    x = st.ones(2)
    assert st.as_tensor(x) is x
    assert st.as_tensor(x, dtype=st.float64).dtype is st.float64
    assert not st.asarray(x, copy=True).is_set_to(x)


def test_wrong_data() -> None:
    with pytest.raises(ValueError, match=r"tensor: .*\[\[1, 2\], \[3\]\]"):
        st.tensor([[1, 2], [3]])
    with pytest.raises(TypeError):
        st.tensor(["a"])
    with pytest.raises(TypeError, match=r"expected np.ndarray"):
        st.from_numpy([1])  # type: ignore[arg-type]


def test_buffers() -> None:
    data = bytearray(8)
    st.frombuffer(data, dtype=st.float32)[1] = 1
    assert data[4:] == np.float32(1).tobytes()


def test_tensors_over_files(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.arange(4, dtype=np.float32).tofile(path)
    mine = st.from_file(path, size=3)
    mine[0] = 9
    assert mine.tolist() == [9, 1, 2]
    common = st.from_file(path, shared=True, size=4)
    common[1] = 7
    del common
    assert np.fromfile(path, np.float32).tolist() == [0, 7, 2, 3]
    fresh = st.from_file(tmp_path / "new", shared=True, size=2, dtype=st.int64)
    assert fresh.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="cannot be mapped"):
        st.from_file(path, size=5)
    with pytest.raises(RuntimeError, match="cannot be mapped"):
        st.from_file(tmp_path / "none", size=5)


@pytest.mark.parametrize("dtype", [None, st.float64, st.int32])
@pytest.mark.parametrize("first", [True, False])
def test_lists_may_mix_numbers_with_tensors_that_numpy_cannot_read(
    dtype: st.dtypes.Dtype | None, first: bool
) -> None:
    traced, brief = st.tensor(2.0, requires_grad=True), st.tensor(4.0, dtype=st.bfloat16)
    data = [traced, 1.0, brief] if first else [1.0, traced, brief]
    result = st.tensor(data, dtype=dtype)
    assert result.tolist() == ([2, 1, 4] if first else [1, 2, 4])
    assert not result.requires_grad
    assert dtype is None or result.dtype is dtype
    assert st.tensor([[1.0, 2.0], st.tensor([3.0, 4.0], requires_grad=True)]).shape == (2, 2)


def test_an_integer_that_does_not_fit_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"tensor: .*int8 without overflow: 300"):
        st.tensor([300], dtype=st.int8)
    with pytest.raises(RuntimeError, match=r"int32 without overflow: nan"):
        st.tensor([1.0, float("nan")], dtype=st.int32)
    for data in (1 << 63, [1 << 64]):
        with pytest.raises(ValueError, match=r"tensor: overflow"):
            st.tensor(data)


def test_negative_numbers_wrap_around_in_unsigned_dtypes() -> None:
    assert st.tensor([-1, 5], dtype=st.uint8).tolist() == [255, 5]
    assert st.tensor([[-1]], dtype=st.uint16).tolist() == [[65535]]
    with pytest.raises(RuntimeError, match="uint8 without overflow: -256"):
        st.tensor([-256], dtype=st.uint8)


def test_values_other_than_numbers_are_named() -> None:
    with pytest.raises(RuntimeError, match="could not infer dtype of NoneType"):
        st.tensor([None])


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([st.tensor(1), st.tensor(2.0)], "float32"),
        ([np.float32(1), np.int64(2)], "float32"),
        ([np.ones(2, "float32"), np.ones(2, "int64")], "float32"),
        ([1.5, np.float64(2)], "float64"),
        ([1, st.tensor(2.0, dtype=st.float64)], "float64"),
        ([[st.tensor(1.0)], [2j]], "complex64"),
        ([[1.5, True], (2, 3)], "float32"),
        ([[1.5, 2.0], np.ones(2)], "float64"),
        ([st.tensor(1, dtype=st.bfloat16), 2], "bfloat16"),
        ([[], []], "float32"),
    ],
)
def test_lists_of_tensors_and_numbers_have_the_promoted_dtype(data: Any, dtype: str) -> None:
    assert st.tensor(data).dtype is getattr(st, dtype)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: st.frombuffer(bytearray(), dtype=st.int8), ValueError, "nothing to read"),
        (lambda: st.frombuffer(b"ab", dtype=st.int8, count=0), ValueError, "count=0"),
        (lambda: st.finfo(st.int8), TypeError, "use iinfo: int8"),
        (lambda: st.iinfo(st.float32), TypeError, "use finfo: float32"),
        (lambda: st.ones(2).__delitem__(0), TypeError, "cannot lose items: 0"),
        (lambda: st.tensor([12]).round(decimals=-1), NotImplementedError, "int64: -1"),
        (lambda: st.normal(0.0, -1.0, (2,)), RuntimeError, "must not be negative: -1"),
        (lambda: st.normal(st.zeros(2), -st.ones(2)), RuntimeError, "must not be negative"),
        (lambda: setattr(st.ones(2, requires_grad=True), "data", 3), TypeError, "not int"),
        (
            lambda: setattr(st.ones(2, requires_grad=True), "data", st.tensor([1])),
            RuntimeError,
            "int64 cannot be set where gradients",
        ),
    ],
)
def test_refused_conversions(wrong: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wrong()


def test_asarray_is_over_the_memory_of_buffers_and_capsules() -> None:
    data = bytearray([1, 0, 2, 0])
    x = st.asarray(data, dtype=st.int16)
    x[0] = 5
    assert (x.tolist(), list(data)) == ([5, 2], [5, 0, 2, 0])
    assert st.asarray(data, dtype=st.int16, copy=True).add_(1).tolist() == [6, 3]
    assert list(data) == [5, 0, 2, 0]
    assert st.asarray(b"\0\0\x80\x3f").tolist() == [1.0]  # of the default dtype
    base = st.arange(3.0)
    shared = st.asarray(st.to_dlpack(base))
    shared[0] = 7
    assert base[0] == 7
    assert st.asarray(st.to_dlpack(base), dtype=st.int64).tolist() == [7, 1, 2]
    with pytest.raises(ValueError, match="multiple of element size"):
        st.asarray(bytearray(3))


def test_asarray_copies_only_when_it_may() -> None:
    x, array = st.ones(2), np.ones(2)
    assert st.asarray(x, copy=False) is x
    assert np.shares_memory(st.asarray(array, copy=False).numpy(), array)
    assert st.asarray(x, copy=True).data_ptr() != x.data_ptr()
    for data in ([1], 1.5, (1, 2), range(3)):
        with pytest.raises(ValueError, match="can't alias arbitrary sequences"):
            st.asarray(data, copy=False)
    with pytest.raises(RuntimeError, match="can't alias NumPy scalars"):
        st.asarray(np.float32(1), copy=False)
    for other in (x, array, st.to_dlpack(x)):
        with pytest.raises(ValueError, match="can't alias tensor with dtype float"):
            st.asarray(other, dtype=st.float16, copy=False)


def test_asarray_keeps_history_by_default() -> None:
    leaf = st.ones(2, requires_grad=True)
    computed = leaf * 2
    assert st.asarray(computed) is computed
    assert st.asarray(computed, requires_grad=True) is computed
    assert not st.asarray(computed, requires_grad=False).requires_grad
    assert st.asarray(leaf, copy=True).requires_grad
    assert st.asarray(leaf, dtype=st.float64).requires_grad
    assert st.asarray([1.0], requires_grad=True).is_leaf
    with pytest.raises(RuntimeError, match="only Tensors of floating point and complex dtype"):
        st.asarray(leaf, dtype=st.int64)


def nested_lists() -> dict[str, list[Any]]:
    """Lists that hold themselves, at the beginning and elsewhere; and one that is too deep."""
    alone: list[Any] = []
    alone.append(alone)
    twice: list[Any] = []
    twice.extend([twice, twice])
    later: list[Any] = [[1, 1, 1]]
    later.extend([later, later])
    deep: list[Any] = []
    for _ in range(64):
        deep = [deep or 1.0]
    return {"alone": alone, "twice": twice, "later": later, "deep": [deep]}


def convert_nested() -> None:
    x = st.zeros(3)
    for name, data in nested_lists().items():
        for function in (
            st.tensor, st.as_tensor, st.asarray, st.Tensor, st.FloatTensor, x.new_tensor,
            lambda data: st.tensor(data, dtype=st.int64),
            lambda data: st.tensor(data, dtype=st.uint8),
            lambda data: x.__setitem__(0, data),
        ):  # fmt: skip
            with pytest.raises((ValueError, TypeError)):
                function(data)
        if name != "later":
            with pytest.raises(ValueError, match="more than 64 deep"):
                st.tensor(data)


def test_list_that_holds_itself_is_an_error_at_once() -> None:
    """In a process of its own, because NumPy spins on some of these lists, and dies of others."""
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
    code += f"sys.path[:0] = {sys.path!r}\nimport test_conversion as m; m.convert_nested()"
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert process.returncode == 0, (process.returncode, process.stderr)
