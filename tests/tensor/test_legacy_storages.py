"""Storages with memory of their own, and their old names by dtype."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import shmtensor as st
from shmtensor.tensor import legacy_storages

NAMES = {
    "DoubleStorage": st.float64,
    "FloatStorage": st.float32,
    "HalfStorage": st.float16,
    "BFloat16Storage": st.bfloat16,
    "ComplexDoubleStorage": st.complex128,
    "ComplexFloatStorage": st.complex64,
    "LongStorage": st.int64,
    "IntStorage": st.int32,
    "ShortStorage": st.int16,
    "CharStorage": st.int8,
    "ByteStorage": st.uint8,
    "BoolStorage": st.bool,
}


@pytest.mark.parametrize("name", NAMES)
def test_old_names(name: str) -> None:
    cls = getattr(st, name)
    storage = cls([1, 0])
    assert cls.dtype == NAMES[name]
    assert storage.dtype == NAMES[name]
    assert storage.tolist() == [1, 0]
    assert isinstance(storage, cls)
    assert isinstance(storage, st.TypedStorage)
    assert isinstance(st.ones(2, dtype=NAMES[name]).storage(), cls)
    assert not isinstance(st.ones(2).storage(), st.IntStorage)
    assert storage.pickle_storage_type() == name
    assert cls().size() == 0
    assert cls(3, device="cpu").size() == 3
    assert cls(3).is_shared()
    assert cls([1], dtype=NAMES[name]).size() == 1
    assert set(NAMES) | {"Storage"} == set(legacy_storages.__all__)
    assert st.Storage is st.FloatStorage


def test_constructors() -> None:
    assert st.TypedStorage([1, 2], dtype=st.int32, device="cpu").tolist() == [1, 2]
    assert st.TypedStorage([1, 2]).dtype == st.get_default_dtype()
    memory = st.UntypedStorage([0, 0, 128, 63])
    wrapped = st.FloatStorage(wrap_storage=memory)
    assert wrapped.tolist() == [1.0]
    wrapped[0] = 0.0
    assert memory.tolist() == [0, 0, 0, 0]
    assert st.UntypedStorage(8).nbytes() == 8
    assert st.UntypedStorage().nbytes() == 0
    with pytest.raises(TypeError, match="FloatStorage: dtype is float32, not float64"):
        st.FloatStorage([1], dtype=st.float64)
    for data in ("ab", st.ones(2), 1.5):
        with pytest.raises(TypeError, match="a number of elements, or a sequence of them"):
            st.FloatStorage(data)


def test_a_tensor_over_a_storage() -> None:
    storage = st.FloatStorage([1, 2, 3, 4])
    x = st.empty(0).set_(storage)
    assert x.tolist() == [1, 2, 3, 4]
    x[0] = 9
    assert storage[0] == 9
    assert st.empty(0).set_(storage, 1, (3,)).tolist() == [2, 3, 4]
    numbers = st.arange(9.0)
    for memory in (numbers.storage(), numbers.untyped_storage()):
        y = st.empty(0).set_(memory, 0, (3, 2), (1, 3))
        assert y.tolist() == [[0, 3], [1, 4], [2, 5]]
        assert y.data_ptr() == numbers.data_ptr()
    with pytest.raises(RuntimeError, match="float64 to a tensor of type float32"):
        st.empty(0).set_(st.DoubleStorage([1]))
    assert st.tensor(st.FloatStorage([1, 2])).tolist() == [1, 2]


def test_the_file_of_a_storage(tmp_path: Path) -> None:
    path = str(tmp_path / "numbers")
    storage = st.FloatStorage.from_file(path, shared=True, size=3)
    assert (storage.filename, storage.size(), storage.dtype) == (path, 3, st.float32)
    storage.fill_(2)
    x = st.from_file(path, True, 3)
    assert x.tolist() == [2, 2, 2]
    assert x[1:].untyped_storage().filename == path
    assert st.from_file(path, False, 3).storage().filename is None
    assert st.UntypedStorage.from_file(path, True, 12).filename == path
    assert st.DoubleStorage([1]).filename is None
    assert st.ones(2).untyped_storage().filename is None


def test_methods() -> None:
    storage = st.FloatStorage([1, 2])
    clone = storage.clone()
    assert clone.fill_(5).tolist() == [5, 5]
    assert storage.tolist() == [1, 2]
    assert clone.copy_(storage).tolist() == [1, 2]
    assert storage.new().size() == 0
    assert storage.long().tolist() == [1, 2]
    assert storage.half().dtype == st.float16
    assert storage.complex_double().dtype == st.complex128
    assert storage.type(st.int8).tolist() == [1, 2]
    assert storage.to_dtype("bool").dtype == st.bool
    assert storage.type() == "shmtensor.storage.TypedStorage"
    assert storage.get_device() == -1
    assert not storage.is_pinned()
    assert not storage.is_sparse
    storage.resize_(2)
    with pytest.raises(RuntimeError, match="cannot have 3 elements: it cannot move its tensors"):
        storage.resize_(3)
    with pytest.raises(RuntimeError, match="copy_: sizes differ: 1 and 2"):
        storage.copy_(st.FloatStorage([1]))
    assert pickle.loads(pickle.dumps(storage)).tolist() == [1, 2]
