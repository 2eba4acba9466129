"""Where `torch` is a name of this library, the loader and queues take its tensors for ours."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor.utils import data

DTYPES = [
    st.float32,
    st.float64,
    st.bfloat16,
    st.float16,
    st.int64,
    st.uint8,
    st.bool,
    st.complex64,
]


@pytest.fixture(autouse=True)
def _torch_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", st)
    monkeypatch.setitem(sys.modules, "torch.utils.data", data)


class Images(data.Dataset[Any]):
    """Samples of 600 KB and of a few bytes, by their index."""

    def __init__(self, kind: str, shape: tuple[int, ...]) -> None:
        self.kind, self.shape = kind, shape

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        array = np.full(self.shape, i, np.float32)
        x = array if self.kind == "numpy" else st.from_numpy(array)
        return {"dict": {"x": x, "y": i}, "tuple": (x, i)}.get(self.kind, x)


class Stream(data.IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return (st.from_numpy(np.full((3, 224, 224), i, np.float32)) for i in range(4))


def first(batch: Any) -> Any:
    return batch["x"] if isinstance(batch, dict) else batch[0] if isinstance(batch, list) else batch


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["tensor", "numpy", "tuple", "dict"])
def test_batches_are_right(kind: str, workers: int) -> None:
    for shape in ((3, 224, 224), (2,)):
        with data.DataLoader(Images(kind, shape), batch_size=2, num_workers=workers) as loader:
            for _ in range(2):
                xs = [first(batch) for batch in loader]
                assert [type(x) for x in xs] == [st.Tensor, st.Tensor]
                assert [tuple(x.shape) for x in xs] == [(2, *shape), (2, *shape)]
                assert [x.amin(tuple(range(1, x.ndim))).tolist() for x in xs] == [[0, 1], [2, 3]]
                assert [x.amax(tuple(range(1, x.ndim))).tolist() for x in xs] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_dtype_is_kept(dtype: Any) -> None:
    samples = [st.full((300, 300), i, dtype=dtype) for i in range(2)]
    for large in (samples, [x[:1, :1] for x in samples]):
        (batch,) = data.DataLoader(large, batch_size=2)
        assert batch.dtype == dtype
        assert st.equal(batch[1], large[1])


@pytest.mark.parametrize("workers", [0, 1])
def test_data_sets_and_generators_of_ours(workers: int) -> None:
    x = st.arange(6.0)
    columns = data.TensorDataset(x, -x)
    order = st.Generator().manual_seed(1)
    with data.DataLoader(
        data.Subset(columns, [4, 2]),
        batch_size=2,
        shuffle=True,
        generator=order,
        num_workers=workers,
    ) as loader:
        ((a, b),) = loader
    assert sorted(a.tolist()) == [2, 4]
    assert st.equal(a, -b)
    with data.DataLoader(Stream(), batch_size=4, num_workers=workers) as loader:
        (batch,) = loader
    assert batch[:, 2, 100, 7].tolist() == [0, 1, 2, 3]
    assert list(data.DataLoader(columns, batch_size=None))[1][1].tolist() == -1


def test_output_torch_gives_our_tensors() -> None:
    (batch,) = data.DataLoader([np.zeros(3), np.ones(3)], batch_size=2, output="torch")
    assert type(batch) is st.Tensor
    assert batch.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_a_loader_is_continued() -> None:
    x = st.arange(8)
    loader = data.StatefulDataLoader(x, batch_size=2, shuffle=True)
    batches = iter(loader)
    seen = [next(batches).tolist()]
    other = data.StatefulDataLoader(x, batch_size=2, shuffle=True)
    other.load_state_dict(loader.state_dict())
    rest = [batch.tolist() for batch in other]
    assert rest == [batch.tolist() for batch in batches]
    assert sorted(n for batch in seen + rest for n in batch) == list(range(8))


def test_storages_and_tensors_are_sent_as_ours() -> None:
    queue = mp.SimpleQueue()
    x = st.arange(3)
    queue.put([x, x.untyped_storage().nbytes(), np.ones(2), {"a": x}])
    y, nbytes, array, named = queue.get()
    y.fill_(7)
    assert x.tolist() == named["a"].tolist() == [7, 7, 7]
    assert (nbytes, array.tolist()) == (24, [1, 1])
    queue.close()
