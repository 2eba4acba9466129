"""A tensor's memory in other libraries: NumPy's protocols, buffers, DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import shmtensor as st

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip


def test_a_ufunc_that_is_an_op_is_that_op() -> None:
    x = st.arange(3.0, requires_grad=True)
    y = np.exp(x)
    assert isinstance(y, st.Tensor)
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), np.exp([0, 1, 2]))
    a = np.arange(3.0, dtype=np.float32)
    z = a * x
    assert z.requires_grad
    assert (np.float32(2) * x.detach()).dtype is st.float32
    assert (x.detach() * np.float64(2)).dtype is st.float32
    assert type(a + x.detach()) is st.Tensor
    assert (a @ x.detach()).item() == 5


def test_other_ufuncs_run_on_the_arrays() -> None:
    x = st.arange(3.0)
    assert isinstance(special.erfinv(x / 4), st.Tensor)
    assert np.add.reduce(x).item() == 3
    out = np.zeros(3, np.float32)
    assert np.add(x, x, out=out) is out
    assert out.tolist() == [0, 2, 4]
    assert np.add(out, 1, out=x) is x
    assert x.tolist() == [1, 3, 5]
    assert x._version == 1
    quotient, part = np.divmod(x, 2)
    assert (quotient.tolist(), part.tolist()) == ([0, 1, 2], [1, 1, 1])
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        np.divmod(st.ones(2, requires_grad=True), 2)


def test_arrays_share_the_memory() -> None:
    x = st.arange(6.0).reshape(2, 3)
    for array in (np.asarray(x), np.asarray(memoryview(x)), np.array(x, copy=False)):
        assert np.shares_memory(array, x.numpy())
        assert array.dtype == np.float32
    assert not np.shares_memory(np.array(x), x.numpy())
    assert x.__array_interface__["shape"] == (2, 3)
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    tracked = st.ones(2, requires_grad=True)
    view = tracked[:1]
    for t in (tracked, view):
        with pytest.raises(RuntimeError, match="Can't call numpy"):
            np.asarray(t)
        with pytest.raises(BufferError, match="requires grad"):
            memoryview(t)


def test_without_grad_mode_the_array_is_available() -> None:
    x = st.ones(2, requires_grad=True)
    with st.no_grad():
        assert x.numpy().tolist() == [1, 1]
        assert np.asarray(x).tolist() == [1, 1]
    assert x.numpy(force=True).tolist() == [1, 1]


def test_the_buffer_is_the_array_s() -> None:
    x = st.arange(3, dtype=st.int32)
    view = memoryview(x)
    assert (view.format, view.shape, view.readonly) == ("i", (3,), False)
    view[0] = 7
    assert x.tolist() == [7, 1, 2]
    assert bytes(st.ones(1)) == np.float32(1).tobytes()
    assert memoryview(x.expand(2, 3)).readonly


@pytest.mark.parametrize("name", DTYPES)
def test_dlpack_round_trips(name: str) -> None:
    x = st.from_numpy(np.ones((2, 3), name)).t()
    array = np.from_dlpack(x)
    assert np.shares_memory(array, x.numpy())
    imported = st.from_dlpack(x)
    assert imported.dtype is x.dtype
    assert imported.stride() == x.stride()
    assert np.shares_memory(imported.numpy(), x.numpy())
    assert x.__dlpack_device__() == (1, 0)


def test_dlpack_keeps_read_only_memory_so() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    assert not np.from_dlpack(st.from_numpy(array)).flags.writeable
    assert np.from_dlpack(st.arange(3)).flags.writeable
    assert not st.from_dlpack(array).numpy().flags.writeable
    with pytest.raises(BufferError, match="require gradient"):
        st.ones(2, requires_grad=True).__dlpack__()


@pytest.mark.torch
def test_dlpack_with_torch() -> None:
    import torch

    theirs = torch.arange(4.0)
    ours = st.from_dlpack(theirs)
    ours[0] = 5
    assert theirs[0] == 5
    reimported = torch.from_dlpack(ours)
    reimported[1] = 6
    assert ours.tolist() == [5, 6, 2, 3]
    flag = st.tensor([True, False])
    assert torch.from_dlpack(flag).tolist() == [True, False]


def test_repr_round_trips() -> None:
    scope = {"tensor": st.tensor, "shmtensor": st, "nan": float("nan"), "inf": float("inf")}
    for x in (
        st.tensor([1.5, float("nan"), -float("inf")]),
        st.tensor([[1, 2], [3, 4]]),
        st.tensor([True]),
        st.tensor(3, dtype=st.int8),
        st.tensor([1 + 2j]),
        st.tensor([1.0, 2.0], dtype=st.float64),
        st.tensor([1.0], requires_grad=True),
    ):
        evaluated = eval(repr(x), scope)
        assert evaluated.dtype is x.dtype
        assert evaluated.requires_grad == x.requires_grad
        assert np.array_equal(evaluated.detach().numpy(), x.detach().numpy(), equal_nan=True)


def test_dlpack_has_no_streams_on_the_host() -> None:
    x = st.ones(2)
    with pytest.raises(BufferError, match="stream: None is expected on the CPU: 1"):
        x.__dlpack__(stream=1)
    assert x.__dlpack__(stream=None) is not None
    assert x.__dlpack__(stream=-1) is not None


@pytest.mark.parametrize("dtype", [st.float32, st.bfloat16, st.int8])
def test_dlpack_capsules_are_taken_once(dtype: Any) -> None:
    x = st.ones(2).to(dtype)
    capsule = st.utils.dlpack.to_dlpack(x)
    result = st.utils.dlpack.from_dlpack(capsule)
    x.fill_(3)
    assert result.dtype is dtype
    assert result.float().tolist() == [3, 3]
    with pytest.raises((BufferError, RuntimeError, ValueError)):
        st.from_dlpack(capsule)
    st.from_dlpack(x.__dlpack__(max_version=(1, 0))).fill_(4)
    assert x.float().tolist() == [4, 4]


class Refusing:
    """A producer that refuses, or does not know the keywords, with any text."""

    def __init__(self, text: str, knows: bool) -> None:
        self.text, self.knows = text, knows

    def __dlpack__(self, **keywords: Any) -> Any:
        if keywords or self.knows:
            raise TypeError(self.text)
        return np.ones(2).__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.parametrize("text", ["unexpected keyword argument", "takes 1 argument", ""])
def test_the_text_of_a_producers_error_does_not_matter(text: str) -> None:
    assert st.from_dlpack(Refusing(text, knows=False)).tolist() == [1, 1]
    with pytest.raises(BufferError, match=f"^{text}$"):
        st.from_dlpack(Refusing(text, knows=True))


def test_a_capsule_says_its_device_and_version() -> None:
    old, new = np.ones(2).__dlpack__(), np.ones(2).__dlpack__(max_version=(1, 0))
    assert st.native.capsule_device(old) == st.native.capsule_device(new) == (1, 0)
    assert not st.native.is_versioned_capsule(old)
    assert st.native.is_versioned_capsule(new)
    with pytest.raises(ValueError, match="not an unused DLPack capsule: int"):
        st.native.capsule_device(1)


@pytest.mark.parametrize("dtype", [st.float32, st.bfloat16, st.bool])
def test_memory_of_old_capsules_can_be_written(dtype: Any) -> None:
    """DLPack before 1.0 cannot say that memory is read-only."""

    class Old:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.x.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return self.x.__dlpack_device__()

    x = st.ones(2, 3).to(dtype)
    for capsule in (st.to_dlpack(x.t()), Old(x.t())):
        result = st.from_dlpack(capsule)
        assert (result.shape, result.stride()) == ((3, 2), (1, 3))
        result[0, 1] = 0
        assert x.float().tolist() == [[1, 1, 1], [0, 1, 1]]
        x.fill_(1)
        del capsule, result
