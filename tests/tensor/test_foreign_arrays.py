"""Views of PyTorch's and JAX's arrays as NumPy arrays, and back (JAX: jax_checks.py)."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import dtypes, native
from shmtensor.tensor.foreign_arrays import as_library, as_numpy, library_of, numpy_dtype_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

DTYPES = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


def test_the_library_of_a_value() -> None:
    assert library_of(torch.ones(2)) == library_of(torch.nn.Parameter(torch.ones(2))) == "torch"
    for other in (1, 1.5, "x", None, [torch.ones(2)], np.ones(2), st.ones(2), torch, torch.float32):
        assert library_of(other) is None


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3)])
def test_views_of_every_dtype_both_ways(name: str, shape: tuple[int, ...]) -> None:
    tensor = torch.arange(torch.Size(shape).numel()).reshape(shape).to(getattr(torch, name))
    array = as_numpy(tensor)
    assert array.shape == shape
    assert array.dtype is (dtypes.bfloat16 if name == "bfloat16" else np.dtype(name))
    assert array.dtype is numpy_dtype_of(tensor.dtype)
    back = as_library(array, "torch")
    assert back.dtype is tensor.dtype
    assert torch.equal(back, tensor)
    if tensor.numel():
        assert back.data_ptr() == array.ctypes.data == tensor.data_ptr()


def test_strides_are_kept() -> None:
    tensor = torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)[1:, :, ::2]
    array = as_numpy(tensor)
    assert array.ctypes.data == tensor.data_ptr()
    assert array.tolist() == tensor.tolist()
    assert as_library(array, "torch").stride() == tensor.stride()


def test_conjugated_and_negated_tensors_are_resolved() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert as_numpy(z.conj()).tolist() == [1 - 2j, 3 + 4j]
    assert z.conj().imag.is_neg()
    assert as_numpy(z.conj().imag).tolist() == [-2.0, 4.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.ones(2, device="meta"), "not on the CPU: on meta, it has no data"),
        (lambda: torch.ones(2, 2).to_sparse(), "not dense: torch.sparse_coo, use x.to_dense"),
        (lambda: torch.ones(2, 2).to_sparse_csr(), "not dense: torch.sparse_csr"),
        (lambda: torch.ones(2).to(torch.float8_e4m3fn), "no dtype like .*float8_e4m3fn"),
        (lambda: 5, "neither a tensor of PyTorch nor an array of JAX"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_what_has_no_view_says_why(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        as_numpy(make())


def test_a_tensor_that_requires_grad_has_no_view() -> None:
    with pytest.raises(RuntimeError, match=r"^here: .*requires grad.*\(2,\), use x.detach"):
        as_numpy(torch.ones(2, requires_grad=True), "here")


def test_a_quantised_or_nested_tensor_has_no_view() -> None:
    with pytest.raises(TypeError, match=r"quantised: torch.quint8, use x.dequantize"):
        as_numpy(quantised())
    with pytest.raises(TypeError, match="nested"):
        as_numpy(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged))


def quantised() -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that they are to go
        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)


def test_a_read_only_array_is_copied_for_pytorch() -> None:
    array = np.ones(3)
    array.flags.writeable = False
    tensor = as_library(array, "torch")
    tensor.zero_()
    assert array.tolist() == [1, 1, 1]


def test_negative_strides_and_foreign_byte_order_are_copied() -> None:
    assert as_library(np.arange(4)[::-1], "torch").tolist() == [3, 2, 1, 0]
    assert as_library(np.arange(4, dtype=">i4"), "torch").tolist() == [0, 1, 2, 3]


def test_unknown_libraries_are_named() -> None:
    with pytest.raises(ValueError, match=r"as_library: not a library: 'cupy', use one of"):
        as_library(np.ones(2), "cupy")


def blocks() -> int:
    statistics = st.memory.statistics()
    return statistics.private_blocks + statistics.shared_blocks


def test_the_last_view_frees_the_block() -> None:
    before = blocks()
    array = np.ndarray((1000,), np.float64, native.allocate(8000, False))
    tensor = as_library(array, "torch")[5:]
    del array
    gc.collect()
    assert native.is_shared(tensor.data_ptr())
    assert blocks() == before + 1
    del tensor
    assert blocks() == before
