"""PyTorch in the workers: batches without a copy, its generator, worker info and threads."""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.dataloaders import DataLoader

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")
pytestmark = pytest.mark.torch

METHODS = ["fork", "forkserver", "spawn"]
DTYPES = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


class Images(data.Dataset):  # type: ignore[misc]
    def __init__(self, n: int = 12) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.full((3, 8), float(index)), "y": index, "name": f"n{index}"}


class Noisy(Images):
    def __getitem__(self, index: int) -> Any:
        return index + torch.rand(2), torch.randn(1)


class Stream(data.IterableDataset):  # type: ignore[misc]
    """PyTorch's way of sharing a stream among workers."""

    def __iter__(self) -> Iterator[Any]:
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        assert info is None or info.dataset is self
        for i in range(first, 12, step):
            yield torch.full((2,), i), i


class Inside(Images):
    """What PyTorch says in the worker."""

    def __getitem__(self, index: int) -> Any:
        info = data.get_worker_info()
        return torch.get_num_threads(), info.id, info.num_workers, info.seed, os.getpid()


class Gradients(Images):
    def __getitem__(self, index: int) -> Any:
        return torch.ones(2, requires_grad=True) * index


class EveryDtype(Images):
    """A tensor of each dtype, and empty ones."""

    def __getitem__(self, index: int) -> Any:
        x = torch.tensor([[index, 1], [0, 2]])
        sample = {name: x.to(getattr(torch, name)) for name in DTYPES}
        return {**sample, "empty": x[:0], "number": x[0, 0]}


class OnMeta(Images):
    def __getitem__(self, index: int) -> Any:
        return torch.ones(2, device="meta" if index == 5 else "cpu")


def calls_pytorchs(samples: list[Any]) -> Any:
    batch = data.default_collate(samples)
    return batch["x"], {"y": batch["y"]}


def by_pytorch(samples: list[Any]) -> Any:
    return data.default_collate(samples)


def pads(samples: list[Any]) -> Any:
    parts = [sample["x"][0, : 1 + sample["y"] % 3] for sample in samples]
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True), len(samples)


def is_received(tensor: Any) -> bool:
    return bool(native.is_shared(tensor.data_ptr()) and native.received_here(tensor.data_ptr()))


@pytest.mark.parametrize("method", METHODS)
def test_batches_are_pytorchs_tensors_over_the_workers_blocks(method: str) -> None:
    with DataLoader(Images(), 4, num_workers=2, multiprocessing_context=method) as loader:
        batches: Any = list(loader)
    assert [batch["y"].tolist() for batch in batches] == [
        list(range(i, i + 4)) for i in range(0, 12, 4)
    ]
    for batch in batches:  # the loader is closed
        x, y = batch["x"], batch["y"]
        assert type(x) is type(y) is torch.Tensor
        assert x.dtype is torch.float32
        assert y.dtype is torch.int64
        assert (x == y[:, None, None]).all()
        assert batch["name"] == [f"n{int(i)}" for i in y]
        assert is_received(x)
        assert is_received(y)
        assert x.data_ptr() % 64 == y.data_ptr() % 64 == 0
        x += 1  # a batch is the consumer's


@pytest.mark.parametrize("collate_fn", [None, data.default_collate, by_pytorch])
def test_every_dtype_arrives(collate_fn: Any) -> None:
    theirs: Any = list(data.DataLoader(EveryDtype(4), 2))
    with DataLoader(EveryDtype(4), 2, num_workers=2, collate_fn=collate_fn) as loader:
        ours: Any = list(loader)
    for one, other in zip(ours, theirs, strict=True):
        assert list(one) == list(other)
        for name, x in one.items():
            assert x.dtype is other[name].dtype
            assert torch.equal(x, other[name])


def test_a_block_is_free_when_the_last_view_dies() -> None:
    def received() -> int:
        return st.memory.statistics().held_blocks

    before = received()
    with DataLoader(Images(4), 4, num_workers=1) as loader:
        (batch,) = loader
    assert received() == before + 1
    part = batch["x"][2, 1:]
    del batch
    gc.collect()
    assert received() == before + 1
    assert part.unique().tolist() == [2]
    del part
    assert received() == before


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("collate_fn", [calls_pytorchs, pads, data.default_collate])
def test_collate_fns_of_pytorch_run_in_the_worker(method: str, collate_fn: Any) -> None:
    options: Any = {"num_workers": 2, "multiprocessing_context": method}
    theirs = list(data.DataLoader(Images(), 4, collate_fn=collate_fn))
    with DataLoader(Images(), 4, collate_fn=collate_fn, **options) as loader:
        for ours, other in zip(loader, theirs, strict=True):
            assert type(ours) is type(other)
            x: Any = ours["x"] if isinstance(ours, dict) else ours[0]
            y: Any = other["x"] if isinstance(other, dict) else other[0]
            assert type(x) is torch.Tensor
            assert torch.equal(x, y)
            assert is_received(x)


def test_the_samples_may_come_without_batches() -> None:
    with DataLoader(Images(4), batch_size=None, num_workers=2) as loader:
        samples: Any = list(loader)
    assert [sample["y"] for sample in samples] == list(range(4))
    assert all(type(sample["x"]) is torch.Tensor for sample in samples)


class Strict(list[Any]):
    """A sequence whose elements cannot be replaced."""

    def __setitem__(self, *item: Any) -> None:
        raise RuntimeError("an element is set")


def gives_everything(samples: list[Any]) -> Any:
    x = torch.eye(3)
    return {
        "coo": x.to_sparse(),
        "csr": x.to_sparse_csr(),
        "float8": x.to(torch.float8_e5m2),
        "leaf": torch.ones(3).requires_grad_(),
        "parameter": torch.nn.Parameter(x),
        "twice": [x, x],
        "strict": Strict([x, 1]),
        "deque": deque([x, 2]),
    }


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_collate_fn_may_return_what_pytorch_sends(method: str) -> None:
    x = torch.eye(3)
    options: Any = {"num_workers": 1, "multiprocessing_context": method}
    with DataLoader(Images(2), 2, collate_fn=gives_everything, **options) as loader:
        (batch,) = loader
    assert batch["coo"].layout is torch.sparse_coo
    assert batch["csr"].layout is torch.sparse_csr
    assert torch.equal(batch["coo"].to_dense(), x)
    assert torch.equal(batch["csr"].to_dense(), x)
    assert batch["coo"].is_coalesced()
    assert torch.equal(batch["float8"].float(), x)
    assert batch["leaf"].requires_grad
    assert type(batch["parameter"]) is torch.nn.Parameter
    assert batch["twice"][0] is batch["twice"][1]
    assert type(batch["strict"]) is Strict
    assert torch.equal(batch["strict"][0], x)
    assert type(batch["deque"]) is deque


def gives_plain_values(samples: list[Any]) -> Any:
    return [list(range(4000)) for _ in range(32)], bytearray(200_000), range(3)


@pytest.mark.parametrize("output", [None, "torch"])
def test_large_values_of_python_are_sent(output: Any) -> None:
    options: Any = {"num_workers": 1, "collate_fn": gives_plain_values, "output": output}
    with DataLoader(Images(2), 2, **options) as loader:
        (batch,) = loader
    assert batch == gives_plain_values([])


# ------------------------------------------------------------------ the worker's PyTorch
@pytest.mark.parametrize("method", METHODS)
def test_a_worker_has_one_thread_and_pytorchs_worker_info(method: str) -> None:
    assert data.get_worker_info() is None
    loader: Any = DataLoader(Inside(), 1, num_workers=2, multiprocessing_context=method)
    with loader:
        rows = [[int(part) for part in batch] for batch in loader]
    assert {row[0] for row in rows} == {1}
    assert {row[2] for row in rows} == {2}
    assert {row[1] for row in rows} <= {0, 1}
    by_process = {row[4]: (row[1], row[3]) for row in rows}
    assert all(by_process[row[4]] == (row[1], row[3]) for row in rows)
    assert data.get_worker_info() is None


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3])
def test_a_stream_of_pytorch_is_shared_among_workers(num_workers: int) -> None:
    loader: Any = DataLoader(Stream(), 2, num_workers=num_workers)
    theirs = data.DataLoader(Stream(), 2, num_workers=0)
    assert loader.is_stream
    with loader:
        values = [i for x, y in loader for i in y.tolist()]
    assert sorted(values) == sorted(i for _, y in theirs for i in y.tolist())


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_stream_of_pytorch_resumes(num_workers: int) -> None:
    loader: Any = DataLoader(Stream(), 2, num_workers=2)
    with loader:
        expected = [y.tolist() for _, y in loader]
        batches = iter(loader)
        seen = [next(batches)[1].tolist() for _ in range(3)]
        state = loader.state_dict()
        del batches
    later: Any = DataLoader(Stream(), 2, num_workers=num_workers)
    with later:
        later.load_state_dict(state)
        rest = [y.tolist() for _, y in later]
    assert seen + rest == expected
    assert data.get_worker_info() is None


def test_pytorchs_random_numbers_do_not_depend_on_the_workers() -> None:
    def epoch(num_workers: int, method: str | None = None) -> list[Any]:
        generator = torch.Generator().manual_seed(3)
        loader: Any = DataLoader(
            Noisy(), 4, shuffle=True, num_workers=num_workers, generator=generator,
            multiprocessing_context=method,
        )  # fmt: skip
        with loader:
            return [part.tolist() for _ in range(2) for batch in loader for part in batch]

    torch.manual_seed(0)
    before = torch.get_rng_state()
    expected = epoch(0)
    assert torch.equal(torch.get_rng_state(), before)
    assert len({str(part) for part in expected}) == len(expected)
    for method in METHODS:
        assert epoch(2, method) == expected
    assert epoch(1) == expected


# ------------------------------------------------------------------ wrong use
@pytest.mark.parametrize(
    ("dataset", "kind", "message"),
    [
        (Gradients(), RuntimeError, r"cannot be sent.*requires grad and is a non-leaf.*detach\(\)"),
        (OnMeta(), TypeError, "sample 1 of the batch: .*not on the CPU: on meta"),
    ],
)
def test_what_cannot_be_sent_names_the_indices(dataset: Any, kind: Any, message: str) -> None:
    with (
        DataLoader(dataset, 4, num_workers=1) as loader,
        pytest.raises(kind, match=rf"(?s)collating indices \[.*{message}"),
    ):
        list(loader)


def test_an_epoch_goes_on_after_a_broken_batch() -> None:
    with DataLoader(OnMeta(), 4, num_workers=2) as loader:
        batches = iter(loader)
        assert next(batches).shape == (4, 2)  # type: ignore[attr-defined]
        with pytest.raises(TypeError, match="on meta"):
            next(batches)
        assert next(batches).shape == (4, 2)  # type: ignore[attr-defined]


def scale(worker: int) -> None:
    """A worker_init_fn that changes the data set."""
    dataset = data.get_worker_info().dataset
    assert type(dataset) is data.Subset
    assert type(dataset.dataset) is data.TensorDataset
    dataset.dataset.tensors = (dataset.dataset.tensors[0] * 10,)
    dataset.indices = [3, 2]


def test_worker_info_has_the_users_data_set_which_may_change() -> None:
    subset = data.Subset(data.TensorDataset(torch.arange(4)), [0, 1])
    with DataLoader(subset, 2, num_workers=1, worker_init_fn=scale) as loader:
        ((batch,),) = loader
    assert batch.tolist() == [30, 20]
