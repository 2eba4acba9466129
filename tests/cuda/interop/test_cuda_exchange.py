"""Tensors on GPUs and other libraries: CuPy, DLPack with streams, the CUDA array interface."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st


class Producer:
    """Another library's array on a GPU: what DLPack asks for, and what it was asked."""

    def __init__(self, array: Any, dtype: Any = None) -> None:
        self.array, self.dtype, self.shape = array, dtype or array.dtype, array.shape
        self.asked: list[Any] = []

    def __dlpack__(self, *, stream: Any = None, **kwargs: Any) -> Any:
        self.asked.append(stream)
        return self.array.__dlpack__(stream=stream, **kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class OldProducer(Producer):
    """One from before DLPack 1.0, without keywords but the stream."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return super().__dlpack__(stream=stream)


class Described:
    """An object with the CUDA array interface only, as an array of Numba."""

    def __init__(self, array: Any, **changes: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}


def address(x: Any) -> int:
    return int(x.data.ptr)


# ---------------------------------------------------------------- CuPy


def test_cupy_takes_tensors_without_a_copy(cp: Any) -> None:
    x = st.arange(6.0).reshape(2, 3).cuda()
    for array in (cp.asarray(x), cp.from_dlpack(x), cp.array(x, copy=False)):
        assert isinstance(array, cp.ndarray)
        assert address(array) == x.data_ptr()
        assert array.dtype == np.float32
        assert array.get().tolist() == x.tolist()
    assert cp.asarray(x.T).strides == (4, 12)


def test_cupy_functions_take_tensors(cp: Any) -> None:
    x = st.tensor([1.0, 4.0, 9.0]).cuda()
    assert cp.sqrt(x).get().tolist() == [1, 2, 3]
    assert cp.sum(cp.asarray(x)).get() == 14
    assert cp.concatenate([cp.asarray(x), cp.asarray(x)]).shape == (6,)


def test_tensors_take_cupy_arrays_without_a_copy(cp: Any) -> None:
    array = cp.arange(6, dtype=np.float32).reshape(2, 3)
    for x in (st.as_tensor(array), st.asarray(array), st.from_dlpack(array)):
        assert x.is_cuda
        assert x.data_ptr() == address(array)
        assert x.tolist() == array.get().tolist()
    x[0, 0] = 100
    assert array.get()[0, 0] == 100
    copy = st.tensor(array)
    assert copy.data_ptr() != address(array)
    assert st.as_tensor(array, dtype=st.float64).dtype is st.float64
    assert st.asarray(array, copy=True).data_ptr() != address(array)
    assert not st.as_tensor(array, device="cpu").is_cuda


def test_the_memory_lives_as_long_as_a_view(cp: Any) -> None:
    array = cp.arange(5)
    x = st.as_tensor(array)
    del array
    back = cp.asarray(x[1:])
    del x
    assert back.get().tolist() == [1, 2, 3, 4]


def test_operators_with_cupy_arrays(cp: Any) -> None:
    x, array = st.tensor([1.0, 2.0]).cuda(), cp.asarray([10.0, 20.0], np.float32)
    result = x + array  # the left operand's library computes
    assert isinstance(result, st.Tensor)
    assert result.is_cuda
    assert result.tolist() == [11, 22]
    assert (array + x).get().tolist() == [11, 22]
    with pytest.raises(RuntimeError, match="requires grad"):
        _ = array + x.detach().requires_grad_()
    x += array
    assert x.tolist() == [11, 22]
    x[0] = array[1]
    assert x.tolist() == [20, 22]


@pytest.mark.parametrize("dtype", [st.bool, st.uint8, st.int16, st.int64, st.float16, st.float64,
                                   st.complex64, st.uint32])  # fmt: skip
def test_dtypes_go_both_ways(cp: Any, dtype: Any) -> None:
    x = st.tensor([0, 1, 1]).to(dtype).cuda()
    y = st.from_dlpack(cp.from_dlpack(x))
    assert y.dtype is dtype
    assert y.tolist() == x.tolist()
    assert y.data_ptr() == x.data_ptr()


def test_sizes_of_zero(cp: Any) -> None:
    x = st.empty(0, 3).cuda()
    assert cp.asarray(x).shape == (0, 3)
    assert st.from_dlpack(cp.empty((2, 0), np.float32)).shape == (2, 0)
    assert x.__cuda_array_interface__["data"][0] == 0


# ---------------------------------------------------------------- DLPack


def test_the_consumer_names_its_stream(cp: Any) -> None:
    producer = Producer(cp.arange(3))
    with cp.cuda.Stream(non_blocking=True) as stream:
        x = st.from_dlpack(producer)
        assert producer.asked == [stream.ptr]
    assert x.tolist() == [0, 1, 2]
    st.from_dlpack(producer)
    assert producer.asked[1] in (1, 2)  # a default stream by its number, never 0


def test_old_producers(cp: Any) -> None:
    x = st.from_dlpack(OldProducer(cp.arange(3)))
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize("stream", [None, -1, 1, 2])
def test_streams_that_a_consumer_may_name(cp: Any, stream: Any) -> None:
    x = st.arange(3.0).cuda() + 1
    capsule = x.__dlpack__(stream=stream)
    assert "dltensor" in repr(capsule)
    y = cp.from_dlpack(capsule)
    cp.cuda.runtime.deviceSynchronize()
    assert y.get().tolist() == [1, 2, 3]


@pytest.mark.parametrize("stream", [0, -2, "1", 1.0, True])
def test_streams_that_no_consumer_may_name(cp: Any, stream: Any) -> None:
    with pytest.raises(BufferError, match=f"stream: .*: {stream!r}"):
        st.ones(2).cuda().__dlpack__(stream=stream)


def test_the_consumers_stream_waits_for_queued_work(cp: Any, late_work: Any) -> None:
    consumer = cp.cuda.Stream(non_blocking=True)
    x = st.zeros(1000).cuda()
    late_work(cp.cuda.get_current_stream(), 0.2)
    x += 1  # queued on our current stream
    array = cp.from_dlpack(x.__dlpack__(stream=consumer.ptr))
    with consumer:
        total = array.sum()
    consumer.synchronize()
    with consumer:
        assert total.get() == 1000


def test_our_stream_waits_for_the_producers_work(cp: Any, late_work: Any) -> None:
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        array = cp.zeros(1000, np.float32)
        late_work(stream, 0.2)
        array += 1

        class Late(Producer):
            def __dlpack__(self, *, stream: Any = None, **kwargs: Any) -> Any:
                with producing:
                    return super().__dlpack__(stream=stream, **kwargs)

    producing = stream
    x = st.from_dlpack(Late(array))
    assert x.sum().item() == 1000


def test_dlpack_device(cp: Any) -> None:
    assert st.ones(1).cuda().__dlpack_device__() == (2, 0)
    if cp.cuda.runtime.getDeviceCount() > 1:
        x = st.arange(3).cuda(1)
        assert x.__dlpack_device__() == (2, 1)
        y = st.from_dlpack(x)
        assert (y.device, y.data_ptr()) == (x.device, x.data_ptr())


def test_a_capsule_of_a_gpu(cp: Any) -> None:
    x = st.arange(3).cuda()
    for capsule in (st.to_dlpack(x), x.__dlpack__(max_version=(1, 0))):
        y = st.from_dlpack(capsule)
        assert y.data_ptr() == x.data_ptr()
        with pytest.raises((BufferError, RuntimeError, ValueError)):
            st.from_dlpack(capsule)  # used


def test_copies_and_devices(cp: Any) -> None:
    x = st.arange(3).cuda()
    assert st.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert st.from_dlpack(x, copy=False).data_ptr() == x.data_ptr()
    assert st.from_dlpack(x, device="cuda").data_ptr() == x.data_ptr()
    y = st.from_dlpack(x, device="cpu")
    assert not y.is_cuda
    assert y.tolist() == [0, 1, 2]
    assert st.from_dlpack(np.arange(3), device="cuda").tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match=r"copy=False.*on cuda:0, not on cpu"):
        st.from_dlpack(x, device="cpu", copy=False)


def test_numpy_asks_for_a_copy_on_the_host(cp: Any) -> None:
    x = st.arange(3).cuda() + 1
    array = np.from_dlpack(x, device="cpu")
    assert array.tolist() == [1, 2, 3]
    copied = cp.from_dlpack(x.__dlpack__(copy=True, max_version=(1, 0)))
    assert address(copied) != x.data_ptr()


def test_tensors_that_require_grad_are_refused(cp: Any) -> None:
    w = st.ones(2).cuda().requires_grad_()
    with pytest.raises(BufferError, match="require gradient"):
        w.__dlpack__()
    with pytest.raises(RuntimeError, match="requires grad"):
        _ = w.__cuda_array_interface__
    with pytest.raises(RuntimeError, match="requires grad"):
        cp.asarray(w)
    assert cp.asarray(w.detach()).get().tolist() == [1, 1]


def test_bfloat16(cp: Any) -> None:
    class Bfloat16(Producer):
        def __dlpack__(self, *, stream: Any = None, **kwargs: Any) -> Any:
            capsule = super().__dlpack__(stream=stream)
            assert st.native.retype(capsule, 1, 4)
            return capsule

    x = st.from_dlpack(Bfloat16(cp.asarray([0x3F80, 0x4000], np.uint16)))
    assert (x.dtype, x.tolist()) == (st.bfloat16, [1, 2])
    again = st.from_dlpack(x)
    assert (again.dtype, again.data_ptr()) == (st.bfloat16, x.data_ptr())
    with pytest.raises(AttributeError, match="no name for bfloat16"):
        _ = x.__cuda_array_interface__
    assert cp.asarray(x).dtype == st.bfloat16


# ---------------------------------------------------------------- the CUDA array interface


def test_cuda_array_interface(cp: Any) -> None:
    x = st.arange(6.0).reshape(2, 3).cuda()
    interface = x.T.__cuda_array_interface__
    assert interface["version"] == 3
    assert interface["shape"] == (3, 2)
    assert interface["strides"] == (4, 12)
    assert interface["typestr"] == "<f4"
    assert interface["data"] == (x.data_ptr(), False)
    assert interface["stream"] in (1, 2)
    assert x.__cuda_array_interface__["strides"] is None
    with cp.cuda.Stream(non_blocking=True) as stream:
        assert x.__cuda_array_interface__["stream"] == stream.ptr


def test_arrays_with_the_interface_become_tensors(cp: Any) -> None:
    array = cp.arange(6, dtype=np.int32).reshape(2, 3)
    described = [Described(array), Described(array, stream=None), Described(array, version=2)]
    for x in (*map(st.as_tensor, described), st.asarray(Described(array.T)).T):
        assert x.is_cuda
        assert x.data_ptr() == address(array)
        assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert st.tensor(Described(array)).data_ptr() != address(array)


def test_a_consumer_by_hand(cp: Any) -> None:
    """A consumer that knows only the interface, and copies the bytes itself."""
    x = st.arange(4.0).cuda() * 2
    interface = x.__cuda_array_interface__
    cp.cuda.runtime.streamSynchronize(interface["stream"])
    host = (ctypes.c_float * 4)()
    cp.cuda.runtime.memcpy(ctypes.addressof(host), interface["data"][0], 16, 2)
    assert list(host) == [0, 2, 4, 6]


def test_cpu_tensors_have_no_interface() -> None:
    x = st.ones(2)
    assert not hasattr(x, "__cuda_array_interface__")
    assert not hasattr(x, "__cupy_get_ndarray__")
    with pytest.raises(AttributeError, match="non-CUDA tensor"):
        _ = x.__cuda_array_interface__


# ---------------------------------------------------------------- NumPy


NEED_CPU: list[tuple[str, Callable[[Any], Any]]] = [
    ("numpy", lambda x: x.numpy()),
    ("asarray", np.asarray),
    ("array", lambda x: np.array([x, x])),
    ("interface", lambda x: x.__array_interface__),
    ("median", np.median),
    ("out", lambda x: np.add(x, x, out=np.empty(2, np.float32))),
    ("where", lambda x: np.sqrt(x, where=np.array([True, False]))),
]


@pytest.mark.parametrize("call", [c for _, c in NEED_CPU], ids=[n for n, _ in NEED_CPU])
def test_numpy_names_the_remedy(cp: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"cuda:0 .*x\.cpu\(\)"):
        call(st.ones(2).cuda())


def test_numpy_functions_that_are_ops_run_on_the_gpu(cp: Any) -> None:
    x = st.tensor([1.0, 4.0]).cuda()
    for result, values in ((np.sqrt(x), [1, 2]), (np.add(x, 1), [2, 5]), (np.sum(x), 5),
                           (np.concatenate([x, x]), [1, 4, 1, 4])):  # fmt: skip
        assert result.is_cuda
        assert result.tolist() == values


def test_force_copies_to_the_host(cp: Any) -> None:
    w = st.ones(2).cuda().requires_grad_()
    assert (w * 2).numpy(force=True).tolist() == [2, 2]


def test_to_device_on_a_stream(cp: Any) -> None:
    x = st.arange(3)
    stream = cp.cuda.Stream(non_blocking=True)
    y = x.to_device("cuda", stream=stream.ptr)
    assert y.is_cuda
    stream.synchronize()
    assert y.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="no streams"):
        x.to_device("cpu", stream=1)
