"""pandas and pyarrow over our memory, and ours over theirs: what is copied, what is read-only."""

from __future__ import annotations

import gc
from typing import Any

import foreign_workers
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from foreign_workers import through

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor import native
from shmtensor.multiprocessing.reduction import dumps

LONG = 60.0


def test_a_data_frame_over_our_memory_and_back() -> None:
    x = st.arange(12.0).reshape(6, 2)
    frame = pd.DataFrame(x.numpy(), columns=["a", "b"], copy=False)
    back = st.from_numpy(frame.to_numpy())
    assert back.data_ptr() == x.data_ptr()
    assert st.from_numpy(frame["b"].to_numpy()).data_ptr() == x.data_ptr() + 4
    x += 1
    assert frame["a"].tolist() == [1, 3, 5, 7, 9, 11]
    with pytest.raises((ValueError, RuntimeError)):  # pandas 3: copy on write
        array = frame["b"].to_numpy()
        array.flags.writeable = False
        st.from_numpy(array).add_(1)
    del x, back
    gc.collect()
    assert frame.to_numpy().sum() == 78  # the frame keeps the memory


def test_a_data_frame_travels_as_a_handle() -> None:
    x = st.arange(2000.0).reshape(1000, 2)
    frame = pd.DataFrame(x.numpy(), columns=["a", "b"], copy=False)
    data, blocks = dumps(frame)
    assert len(blocks) == 1
    assert len(data) < 2000
    received = through(frame)
    assert native.is_shared(received.to_numpy())
    assert received.to_numpy().ctypes.data == x.data_ptr()
    private = pd.DataFrame({"a": np.ones(5), "text": list("abcde")})
    pd.testing.assert_frame_equal(through(private), private)
    with mp.Pool(1) as pool:
        assert pool.apply(foreign_workers.frame_total, (frame,)) == 1999 * 1000


@pytest.mark.parametrize("kind", [pd.Series, pd.DataFrame, pd.Index])
def test_operators_of_pandas_do_not_hang(kind: Any) -> None:
    x = st.ones(3)
    y = kind([[1.0, 1.0, 1.0]]) if kind is pd.DataFrame else kind([1.0, 1.0, 1.0])
    for result in (x + y, y + x, x * y, y - x, x / y, y == x, x < y):
        assert isinstance(result, kind) or (kind is pd.Index and not np.isscalar(result))
    assert kind is pd.DataFrame or st.ones(3)[kind([0, 2])].tolist() == [1, 1]
    with pytest.raises((TypeError, RuntimeError)):
        x += y
    with pytest.raises((TypeError, RuntimeError)):
        st.add(x, y)
    assert x.tolist() == [1, 1, 1]


def test_tensors_from_series_and_frames() -> None:
    series = pd.Series([1, 2, 3])
    assert st.tensor(series).dtype == st.int64
    assert st.tensor(series.to_numpy()).tolist() == [1, 2, 3]
    assert st.tensor(pd.DataFrame({"a": [1.0], "b": [2.0]}), dtype=st.float64).tolist() == [[1, 2]]
    assert st.ones(5)[series[:2].to_numpy()].tolist() == [1, 1]
    with pytest.raises(TypeError, match="from_numpy"):
        st.from_numpy(series)
    with pytest.raises(TypeError):
        st.tensor(pd.Series(["a", "b"]))


def test_a_series_that_requires_grad_is_refused() -> None:
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(pd.Series([1.0]) + st.ones(1, requires_grad=True).numpy())


def test_arrow_buffers_over_our_memory() -> None:
    x = st.arange(4.0)
    buffer = pa.py_buffer(x)
    assert buffer.address == x.data_ptr()
    array = pa.Array.from_buffers(pa.float32(), 4, [None, buffer])
    x += 1
    assert array.to_pylist() == [1, 2, 3, 4]
    tensor = pa.Tensor.from_numpy(x.numpy())
    assert tensor.to_numpy().ctypes.data == x.data_ptr()
    assert pa.array(x.numpy()).buffers()[1].address == x.data_ptr()
    table = pa.table({"x": array})
    del x, buffer, array
    gc.collect()
    assert table["x"].to_pylist() == [1, 2, 3, 4]  # the table keeps the memory
    readonly = pa.py_buffer(st.ones(3).share(readonly=True))
    assert not readonly.is_mutable


def test_arrow_columns_are_viewed_without_a_copy_and_read_only() -> None:
    column = pa.array([1.5, 2.5, 3.5])
    address = column.buffers()[1].address
    views = (st.from_numpy(column.to_numpy()), st.from_dlpack(column))
    for view in views:
        assert view.data_ptr() == address
        assert view.dtype == st.float64
        with pytest.raises(RuntimeError, match="cannot be written"):
            view += 1
        copy = through(view)
        assert copy.is_shared()  # copied once into our memory
        assert copy.tolist() == [1.5, 2.5, 3.5]
    sliced = st.from_dlpack(column[1:])
    assert sliced.data_ptr() == address + 8
    del column
    gc.collect()
    assert sliced.tolist() == [2.5, 3.5]
    with pytest.raises(BufferError, match="nulls"):
        st.from_dlpack(pa.array([1.0, None]))
    with pytest.raises((TypeError, ValueError)):
        st.tensor(pa.array(["a", "b"]))


def test_arrow_arrays_travel_by_value() -> None:
    x = st.arange(4.0)
    array = pa.Array.from_buffers(pa.float32(), 4, [None, pa.py_buffer(x)])
    assert through(array).to_pylist() == [0, 1, 2, 3]
    assert through(pa.table({"x": array}))["x"].to_pylist() == [0, 1, 2, 3]


def test_operators_of_arrow_are_refused() -> None:
    x, y = st.ones(3), pa.array([1.0, 1.0, 1.0])
    for left, right in ((x, y), (y, x)):
        with pytest.raises(TypeError):
            left + right
        with pytest.raises(TypeError):
            left @ right
    with pytest.raises(TypeError):
        x += y
    assert (x == y) is False  # Python's own answer: neither knows the other


def test_a_readonly_tensor_of_an_ended_producer() -> None:
    context: Any = mp.get_context("fork")
    column = pa.array(np.arange(5000.0))
    out, done = context.SimpleQueue(), context.Event()
    process = context.Process(
        target=foreign_workers.read_after_death, args=(out, column.to_numpy(), done)
    )
    process.start()
    assert done.wait(LONG)
    process.join(LONG)
    x = out.get()
    assert x.is_shared()
    assert not x.array.flags.writeable
    frame = pd.DataFrame(x.numpy(), copy=False)
    assert frame.to_numpy().sum() == 4999 * 2500
    out.close()


BIG = 16777217.0  # not a float32
CONTAINERS: dict[str, Any] = {
    "Series": pd.Series([BIG]),
    "Index": pd.Index([BIG]),
    "DataFrame": pd.DataFrame({"a": [BIG]}),
    "of two columns": pd.DataFrame({"a": [1], "b": [BIG]}),
    "nullable": pd.Series([BIG], dtype="Float64"),
    "ExtensionArray": pd.array([BIG], dtype="Float64"),
    "NumpyExtensionArray": pd.Series([BIG]).array,
    "of pyarrow": pd.Series([BIG], dtype=pd.ArrowDtype(pa.float64())),
    "sparse": pd.Series(pd.arrays.SparseArray([BIG, 0.0])),
    "with a NaN": pd.Series([BIG, float("nan")]),
    "in a list": [pd.Series([BIG]), pd.Series([1.0])],
    "a pyarrow array": pa.array([BIG]),
}


@pytest.mark.parametrize("make", [st.tensor, st.as_tensor, st.asarray])
@pytest.mark.parametrize("name", CONTAINERS)
def test_the_dtype_of_a_container_is_kept(name: str, make: Any) -> None:
    x = make(CONTAINERS[name])
    assert x.dtype == st.float64
    assert BIG in np.asarray(x)


def test_the_dtype_of_a_container_gives_way_to_one_that_is_asked_for() -> None:
    series = pd.Series([BIG])
    assert st.DoubleTensor(series).tolist() == [BIG]
    assert st.zeros(1, dtype=st.float64).new_tensor(series).tolist() == [BIG]
    assert st.FloatTensor(series).dtype == st.tensor(series, dtype=st.float32).dtype == st.float32
    for dtype in ("int8", "Int8", "float32", "Float32", "bool", "boolean"):
        x = st.tensor(pd.Series([1, 0], dtype=dtype))
        assert str(x.dtype).rpartition(".")[2] == dtype.lower().replace("boolean", "bool")
    assert st.tensor([BIG]).dtype == st.float32


@pytest.mark.parametrize("make", [st.tensor, st.as_tensor, st.asarray, st.FloatTensor, st.Tensor])
@pytest.mark.parametrize(
    "data",
    [
        pd.array([1, None], dtype="Int64"),
        pd.Series([1.5, None], dtype="Float64"),
        pd.Series([True, None], dtype="boolean"),
        pd.Series([1, None], dtype=pd.ArrowDtype(pa.int64())),
        pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([1, None], dtype="Int64")}),
        pa.array([1, None]),
        [pd.Series([1, 2]), pd.array([1, None], dtype="Int64")],
    ],
)
def test_a_missing_value_is_an_error_that_says_so(data: Any, make: Any) -> None:
    with pytest.raises(ValueError, match="1 NA"):
        make(data)


@pytest.mark.parametrize("make", [st.tensor, st.FloatTensor, st.LongTensor, st.Tensor])
@pytest.mark.parametrize(
    "data",
    [
        pd.Series(pd.to_datetime(["2024-01-01"])),
        pd.DataFrame({"a": [1], "b": pd.to_datetime(["2024-01-01"])}),
        pd.to_datetime(["2024-01-01"]),
        pd.to_datetime(["2024-01-01"]).tz_localize("UTC"),
        pd.to_timedelta(["1D"]),
        pd.period_range("2024", periods=2),
        [pd.Timestamp("2024-01-01")],
        [1.0, pd.Timedelta(1, "s")],
        [pd.NaT],
        [pd.Series(pd.to_timedelta(["1D"]))],
    ],
)
def test_dates_of_pandas_never_become_numbers(data: Any, make: Any) -> None:
    with pytest.raises((TypeError, RuntimeError), match=r"datetime|timedelta|Time|Period|NaT"):
        make(data)


def test_the_culprit_in_a_frame_is_named() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [1.5, None], "c": [1, None]}, dtype=object)
    with pytest.raises(RuntimeError, match="NoneType"):
        st.tensor(frame)
    with pytest.raises(TypeError, match="NoneType"):
        st.tensor(frame, dtype=st.float32)
    with pytest.raises(TypeError, match="str"):
        st.tensor(pd.DataFrame({"a": [1], "b": ["x"]}))
    with pytest.raises(RuntimeError, match="NAType"):
        st.tensor([1, pd.NA])
