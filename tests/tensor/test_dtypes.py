"""Dtypes: the objects, names, promotion, limits."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import dtypes

ALL = [getattr(st, d.name) for d in dtypes.ALL]


def test_a_dtype_is_one_object_of_its_class() -> None:
    assert type(st.float32) is st.dtype
    assert st.float is st.float32
    assert st.long is st.int64
    assert st.half is st.float16
    assert st.short is st.int16
    assert st.double is st.float64
    assert (st.int, st.cfloat, st.cdouble) == (st.int32, st.complex64, st.complex128)
    assert len({id(d) for d in ALL}) == 15
    with pytest.raises(AttributeError):
        st.float32.name = "float64"  # type: ignore[misc]


@pytest.mark.parametrize("spelling", ["float32", np.float32, np.dtype("float32"), st.float32])
def test_spellings(spelling: Any) -> None:
    assert dtypes.as_dtype(spelling) is np.dtype("float32")
    assert st.dtype(spelling) is st.as_dtype(spelling) is st.float32
    assert st.zeros(1, dtype=spelling).dtype is st.float32
    assert st.ones(1, dtype=st.int64).to(spelling).dtype is st.float32
    assert st.arange(3, dtype=spelling).dtype is st.float32
    assert st.promote_types(spelling, spelling) is st.float32


def test_a_spelling_of_no_dtype_is_named() -> None:
    for spelling in ("float31", "<U3", [("a", "f4")], 3, object(), st.ones(2), np.ones(2)):
        with pytest.raises(TypeError):
            st.dtype(spelling)
    with pytest.raises(TypeError, match="not a dtype that tensors can have: 'float31'"):
        st.dtype("float31")


@pytest.mark.torch
def test_attributes_are_pytorchs() -> None:
    import torch

    for d in ALL:
        other = getattr(torch, d.name)
        for name in ("is_floating_point", "is_complex", "is_signed", "itemsize"):
            assert getattr(d, name) == getattr(other, name), (d, name)
            assert type(getattr(d, name)) is type(getattr(other, name))
        assert repr(d) == str(d) == f"{d}" == str(other).replace("torch", "shmtensor")
        assert d.to_real().name == str(other.to_real()).removeprefix("torch.")
        if d is st.float16:  # there is no complex32
            assert d.to_complex() is st.complex64
        elif d.is_floating_point or d.is_complex:
            assert d.to_complex().name == str(other.to_complex()).removeprefix("torch.")
        else:
            with pytest.raises(RuntimeError):
                other.to_complex()
            with pytest.raises(RuntimeError, match=f"to_complex: .*: {d.name}"):
                d.to_complex()


def test_attributes_of_numpys_are_passed_on() -> None:
    for d in ALL:
        numpy = d.dtype
        assert type(numpy) is type(np.dtype(d))
        for name in dir(numpy):
            if not name.startswith("_") and name != "newbyteorder":
                assert getattr(d, name) == getattr(numpy, name), name
                assert name in dir(d)
    assert st.int32.newbyteorder(">") == np.dtype(">i4")
    with pytest.raises(AttributeError, match=r"'shmtensor.dtype' object has no attribute 'colour'"):
        st.float32.colour  # noqa: B018


@pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)
def test_numpy_takes_them(d: st.dtype) -> None:
    numpy = d.dtype
    assert np.dtype(d) is numpy
    assert np.zeros(3, d).dtype is numpy
    assert np.empty((2, 0), dtype=d).dtype is numpy
    assert np.array([1, 0], dtype=d).dtype is numpy
    assert np.asarray([1, 0], d).dtype is numpy
    assert np.ones(2).astype(d).dtype is numpy
    assert np.empty_like(np.ones(2), dtype=d).dtype is numpy
    assert np.frombuffer(bytes(32), dtype=d).dtype is numpy
    assert np.zeros(d.itemsize, np.uint8).view(d).dtype is numpy
    assert np.dtype([("a", d), ("b", d, (2,))]).itemsize == 3 * d.itemsize
    assert np.dtype((d, 3)).base == numpy
    assert np.can_cast(d, d)
    if d is not st.bfloat16:  # NumPy's own
        assert np.result_type(d, np.ones(1, d)) == numpy
        assert np.promote_types(d, np.bool_) == numpy
        assert np.issubdtype(d, np.inexact) == (d.is_floating_point or d.is_complex)
        assert np.issubdtype(d, numpy.type)
        assert np.ones(3, d).sum(dtype=d).dtype == numpy
        if d.is_floating_point or d.is_complex:
            assert np.finfo(d).dtype == d.to_real()
        elif d is not st.bool:
            assert np.iinfo(d).max == st.iinfo(d).max


@pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)
def test_equal_to_numpys_both_ways(d: st.dtype) -> None:
    other: Any
    for other in (d.dtype, d.dtype.type, d.name):
        assert d == other
        assert other == d
        assert (d != other) is (other != d) is False
    assert hash(d) == hash(d.dtype)
    assert {d: 1}[d.dtype] == {d.dtype: 1}[d] == 1  # type: ignore[index]
    assert d in (d.dtype,)
    assert d.dtype in [d]
    for other in (*(e for e in ALL if e is not d), None, "no dtype", 3, object(), np.dtype("<U3")):
        assert d != other
        assert other != d
        assert (d == other) is (other == d) is False


@pytest.mark.torch
def test_never_equal_to_another_librarys() -> None:
    import torch

    assert st.float32 != torch.float32
    assert torch.float32 != st.float32
    assert torch.float32 not in {st.float32: 1}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_and_copies_are_the_same_object(protocol: int) -> None:
    for d in ALL:
        assert pickle.loads(pickle.dumps(d, protocol)) is d
        assert copy.copy(d) is copy.deepcopy(d) is d
    nested = {"dtypes": ALL, "class": st.dtype}
    received = pickle.loads(pickle.dumps(nested, protocol))
    assert all(a is b for a, b in zip(received["dtypes"], ALL))
    assert received["class"] is st.dtype
    assert copy.deepcopy(nested)["dtypes"][0] is ALL[0]


def answer(inbox: Any, outbox: Any) -> None:
    d, x = inbox.get(timeout=60)
    outbox.put((d, d is st.bfloat16, x.dtype is st.complex64))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_identical_in_every_process(method: str) -> None:
    context: Any = st.multiprocessing.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(inbox, outbox))
    process.start()
    inbox.put((st.bfloat16, st.ones(2, dtype=st.complex64)))
    d, *checks = outbox.get(timeout=60)
    process.join(60)
    assert d is st.bfloat16
    assert checks == [True, True]
    assert process.exitcode == 0


def test_a_checkpoint_keeps_them() -> None:
    file = io.BytesIO()
    st.save({"dtypes": ALL, "x": st.ones(2), "again": ALL}, file)
    for weights_only in (True, False):
        file.seek(0)
        loaded = st.load(file, weights_only=weights_only)
        for part in ("dtypes", "again"):
            assert all(a is b for a, b in zip(loaded[part], ALL, strict=True))


@pytest.mark.torch
def test_checkpoints_hold_pytorchs_names() -> None:
    import torch

    file = io.BytesIO()
    st.save({"dtypes": ALL}, file)
    file.seek(0)
    assert torch.load(file)["dtypes"] == [getattr(torch, d.name) for d in ALL]
    file = io.BytesIO()
    torch.save({"dtypes": [getattr(torch, d.name) for d in ALL]}, file)
    file.seek(0)
    assert all(a is b for a, b in zip(st.load(file)["dtypes"], ALL, strict=True))


def test_tensors_have_them_however_they_are_made() -> None:
    for x in (
        st.tensor([1.0]), st.from_numpy(np.ones(2, "f4")), st.as_tensor(np.float32(1)), st.randn(2),
        st.frombuffer(bytearray(8), dtype=st.float32), st.tensor([[1.0]]).T, st.ones(2) + 1,
        st.ones(2, dtype=st.float64).float(), st.from_dlpack(np.ones(2, "f4")), st.ones(2)[0],
        st.nn.Parameter(st.ones(2)), copy.deepcopy(st.ones(2)),
        pickle.loads(pickle.dumps(st.ones(2))),
        st.eye(2).to_sparse(), st.ones(2).detach(),
        st.stack([st.ones(2)]), st.ones(2).numpy() * st.ones(2), st.FloatTensor([1]),
    ):  # fmt: skip
        assert x.dtype is st.float32
    for code in ("q", "l", "i8"):  # NumPy has two classes of 64 bits
        assert st.from_numpy(np.ones(2, code)).dtype is st.int64
    for d in ALL:
        assert st.zeros(2, dtype=d).dtype is d
        assert st.zeros(2, dtype=d).array.dtype is d.dtype
        assert st.zeros_like(st.zeros(2, dtype=d)).dtype is d
        assert st.zeros(2).to(d).dtype is st.zeros(2).type(d).dtype is d
    assert isinstance(st.ones(2).dtype, st.dtype)


def test_functions_return_them() -> None:
    assert st.result_type(st.ones(2), 1) is st.float32
    assert st.promote_types(np.int8, "uint8") is st.int16
    assert st.get_default_dtype() is st.float32
    assert st.get_autocast_dtype("cpu") is st.bfloat16
    assert st.autocast("cpu").fast_dtype is st.bfloat16
    assert st.ones(2).storage().dtype is st.float32
    assert st.FloatTensor.dtype is st.float32
    assert st.array_api.float32 is st.float32
    assert st.array_api.result_type(st.ones(2), st.float64) is st.float64
    info = st.array_api.__array_namespace_info__()
    assert info.default_dtypes()["complex floating"] is st.complex64
    assert info.dtypes()["int8"] is st.int8
    assert st.finfo(st.float64).dtype == "float64"


def test_ops_take_a_tensors_dtype() -> None:
    """An attribute that is a dtype reaches kernels as NumPy's."""
    x = st.tensor([[1.5, -2.0], [0.5, 4.0]], dtype=st.bfloat16, requires_grad=True)
    y = st.nn.functional.softmax(x, 1, dtype=x.dtype).sum(dtype=x.dtype)
    assert y.dtype is st.bfloat16
    y.backward()
    assert x.grad.dtype is x.dtype
    assert st.nansum(x, dtype=x.dtype).item() == 4
    assert x.to(st.zeros(1).dtype).norm(dtype=st.float64).dtype is st.float64
    assert st.ones(2, 2).view(st.int32).dtype is st.int32
    with st.autocast("cpu", dtype=x.dtype):
        assert (st.ones(2, 2) @ st.ones(2, 2)).dtype is x.dtype


def test_numpys_warnings_are_none() -> None:
    code = (
        "import numpy as np, shmtensor as st\n"
        "assert np.zeros(3, st.float32).dtype == st.float32 == np.dtype(st.float32)\n"
        "assert np.dtype([('a', st.int8)]).itemsize == 1\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)


def test_pythons_classes_are_of_double_precision() -> None:
    """As in PyTorch: `dtype=float` is float64 for any default dtype, which new floats get."""
    assert st.zeros(1, dtype=float).dtype is st.float64
    assert st.ones(1).to(float).dtype is st.float64
    assert st.zeros(1, dtype=complex).dtype is st.complex128
    assert st.zeros(1, dtype=int).dtype is st.int64
    assert st.tensor([0.5]).dtype is st.tensor([1]).mul(0.5).dtype is st.float32
    assert st.full((1,), 1j).dtype is st.complex64


def test_promotion() -> None:
    assert st.promote_types(st.int64, st.float16) is st.float16
    assert st.promote_types(st.uint8, st.int8) is st.int16
    assert st.promote_types(st.float64, st.complex64) is st.complex128
    assert st.can_cast(st.int64, st.float16)
    assert not st.can_cast(st.float16, st.int64)
    with pytest.raises(RuntimeError, match="no integer dtype holds both: uint64 and int64"):
        st.promote_types(st.uint64, st.int64)


def test_limits() -> None:
    assert st.finfo(st.float32).eps == np.finfo(np.float32).eps
    assert st.finfo().bits == 32
    assert st.iinfo(st.uint8).max == 255
    assert "int8" in repr(st.iinfo(st.int8))
