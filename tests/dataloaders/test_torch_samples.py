"""PyTorch's tensors as samples: the batches' kind, values and memory, without workers."""

from __future__ import annotations

import dataclasses
import gc
import warnings
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.dataloaders import DataLoader, TensorDataset, default_collate, default_convert
from shmtensor.dataloaders.collate import map_leaves
from shmtensor.dataloaders.foreign_datasets import in_batches
from shmtensor.dataloaders.loader.output import convert
from shmtensor.multiprocessing.reduction import dumps, loads

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")
pytestmark = pytest.mark.torch

Pair = namedtuple("Pair", "x y")
DTYPES = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Sample:
    x: Any
    name: str

    def __post_init__(self) -> None:
        assert isinstance(self.x, (torch.Tensor, list)), type(self.x)


def tensors(n: int = 4) -> list[Any]:
    return [torch.full((2, 3), float(i)) for i in range(n)]


def same(ours: Any, theirs: Any) -> None:
    """Compares a batch with that of PyTorch's own `default_collate`: structure, types, values."""
    assert type(ours) is type(theirs)
    if isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for name in theirs:
            same(ours[name], theirs[name])
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    "sample",
    [
        lambda x, i: x,
        lambda x, i: (x, i),
        lambda x, i: (x, float(i), bool(i), f"n{i}", b"b"),
        lambda x, i: {"x": x, "y": {"z": [x, i]}},
        lambda x, i: OrderedDict(x=x, y=i),
        lambda x, i: Pair(x, [x, x]),
        lambda x, i: (x, np.full(3, i, np.float32), np.float32(i), np.int16(i)),
        lambda x, i: x[0, 0],
        lambda x, i: x[:0],
        lambda x, i: x.t(),
        lambda x, i: x[::2, ::2],
        lambda x, i: torch.zeros(()).expand(3, 4),
        lambda x, i: x.to(torch.complex64).conj(),
        lambda x, i: (x * 1j).conj().imag,
        lambda x, i: x if i % 2 else x.double(),
        lambda x, i: x if i % 2 else x.to(torch.int32),
        lambda x, i: torch.full((200, 200), i),  # large ones are copied by another function
        lambda x, i: torch.full((400, 200), i)[:, ::2],
        lambda x, i: torch.nn.Parameter(x, requires_grad=False),
    ],
)
def test_batches_are_those_of_pytorch(sample: Any) -> None:
    samples = [sample(x, i) for i, x in enumerate(tensors())]
    same(default_collate(samples), data.default_collate(samples))


def test_a_dataclass_of_tensors() -> None:
    batch = default_collate([Sample(x, "a") for x in tensors()])
    assert type(batch.x) is torch.Tensor
    assert batch.x.shape == (4, 2, 3)
    assert batch.name == ["a"] * 4 or batch.name == ("a",) * 4


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name: str) -> None:
    samples = [torch.tensor([i, 1]).to(getattr(torch, name)) for i in range(3)]
    batch = default_collate(samples)
    assert batch.dtype is getattr(torch, name)
    assert torch.equal(batch, torch.stack(samples))


def test_our_tensors_stay_ours_beside_pytorchs() -> None:
    x, y = default_collate([(torch.ones(2), st.ones(2)), (torch.ones(2), st.ones(2))])
    assert type(x) is torch.Tensor
    assert type(y) is st.Tensor


def test_a_batch_is_a_view_of_one_block() -> None:
    before = blocks()
    batch = default_collate([(x, i) for i, x in enumerate(tensors())])
    assert blocks() == before + 1
    addresses = [part.data_ptr() for part in batch]
    assert all(native.is_shared(address) and address % 64 == 0 for address in addresses)
    part = batch[0][1:]
    del batch
    gc.collect()
    assert blocks() == before + 1
    assert part[0, 0, 0] == 1
    del part
    assert blocks() == before


def blocks() -> int:
    statistics = st.memory.statistics()
    return statistics.private_blocks + statistics.shared_blocks


def test_gradients_flow_in_this_process() -> None:
    x = torch.ones(2, requires_grad=True)
    batch, label = default_collate([(x, 0), (2 * x, 1)])
    assert type(label) is torch.Tensor
    batch.sum().backward()
    assert x.grad.tolist() == [3, 3]
    with torch.no_grad():
        assert not default_collate([x, x]).requires_grad


# ------------------------------------------------------------------ wrong use
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: torch.ones(2, device="meta"), "not on the CPU: on meta"),
        (lambda: torch.ones(2).to_sparse(), "not dense: torch.sparse_coo, use x.to_dense"),
        (lambda: torch.ones(2).to(torch.float8_e5m2), "no dtype like .*float8_e5m2"),
    ],
)
@pytest.mark.parametrize("position", [0, 2])
def test_a_sample_without_a_view_is_named(wrong: Any, message: str, position: int) -> None:
    samples = [{"x": [torch.ones(2)]} for _ in range(4)]
    samples[position]["x"][0] = wrong()
    with pytest.raises(
        TypeError, match=rf"collate: sample {position} of the batch at \['x'\]\[0\]: .*{message}"
    ):
        default_collate(samples)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([torch.ones(2), torch.ones(2), 5], "Tensor at sample 0, int at sample 2"),
        ([torch.ones(2), np.ones(2)], "Tensor at sample 0, ndarray at sample 1"),
        ([torch.nn.Parameter(torch.ones(2), False), torch.ones(2), 5], "int at sample 2"),
        ([5, torch.ones(2)], "int at sample 0, Tensor at sample 1"),
        ([np.ones(2), torch.ones(2), 5], "ndarray at sample 0, int at sample 2"),
        ([np.ones(2), "a"], "ndarray at sample 0, str at sample 1"),
    ],
)
def test_samples_of_different_types_are_named(values: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"samples are of different types at \['x'\]: .*{message}"):
        default_collate([{"x": value} for value in values])


@pytest.mark.parametrize("dtypes", [("f4", "f4"), ("f4", "f8"), ("i4", "f4")])
def test_tensors_may_follow_an_array_as_in_pytorch(dtypes: Any) -> None:
    array = np.ones(2, dtypes[0])
    others = [torch.from_numpy(np.full(2, i, dtypes[1])) for i in range(3)]
    same(default_collate([array, *others]), data.default_collate([array, *others]))


class Named(torch.Tensor):  # type: ignore[misc]
    """A subclass that functions of PyTorch give back."""


class Plain(torch.Tensor):  # type: ignore[misc]
    """A subclass of which functions give tensors, as those of torchvision's `tv_tensors`."""

    __torch_function__ = torch._C._disabled_torch_function_impl


@pytest.mark.parametrize("n", [4, 40_000])
@pytest.mark.parametrize("kind", [Named, Plain])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_subclasses_of_tensors_become_what_pytorch_makes_of_them(
    n: int, kind: Any, num_workers: int
) -> None:
    samples = [(torch.full((n,), float(i)).as_subclass(kind), i) for i in range(4)]
    theirs = list(data.DataLoader(samples, 2))
    with DataLoader(samples, 2, num_workers=num_workers) as loader:
        same(list(loader), theirs)


@pytest.mark.parametrize("size", [3, 300])
def test_different_shapes_are_named(size: int) -> None:
    samples = [torch.ones(size, size), torch.ones(size, 2)]
    with pytest.raises(
        RuntimeError, match=rf"shapes differ within the batch: .*{size}.* at sample 0"
    ):
        default_collate(samples)


def test_none_and_objects_are_refused_as_in_pytorch() -> None:
    for sample in (None, object()):
        with pytest.raises(TypeError):
            data.default_collate([(torch.ones(2), sample)] * 2)
        with pytest.raises(TypeError, match=r"cannot make a batch of this type at \[1\]"):
            default_collate([(torch.ones(2), sample)] * 2)


# ------------------------------------------------------------------ whose arrays
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("output", ["torch", "numpy", "shmtensor", None])
def test_output_says_whose_arrays_the_batches_hold(output: Any, num_workers: int) -> None:
    types = {"torch": torch.Tensor, "numpy": np.ndarray, "shmtensor": st.Tensor}
    for sample, own in ((torch.ones(3), torch.Tensor), (np.ones(3, np.float32), st.Tensor)):
        samples = [(sample, 1, "a")] * 4
        with DataLoader(samples, 2, output=output, num_workers=num_workers) as loader:
            batches: Any = list(loader)
        for batch in batches:
            assert [type(part) for part in batch[:2]] == [types.get(output, own)] * 2
            assert batch[2] == ("a", "a")
            assert batch[0].shape == (2, 3)


def test_output_may_change_between_epochs() -> None:
    loader: Any = DataLoader([1, 2], 2)
    assert type(next(iter(loader))) is st.Tensor
    loader.output = "numpy"
    assert type(next(iter(loader))) is np.ndarray
    with pytest.raises(ValueError, match="output is not a library: 'tensorflow', use one of"):
        loader.output = "tensorflow"


def test_output_without_the_library_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shmtensor.dataloaders.loader.check_arguments.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"output is 'jax'.*pip install jax"):
        DataLoader([1], output="jax")


def test_pytorchs_default_collate_gives_pytorchs_tensors() -> None:
    loader: Any = DataLoader([(np.ones(3, np.float32), 1)] * 4, 2, collate_fn=data.default_collate)
    assert loader.collate_fn is data.default_collate
    for x, y in loader:
        assert type(x) is type(y) is torch.Tensor
        assert native.is_shared(x.data_ptr())


def test_an_extended_default_collate_of_pytorch_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    fns = data._utils.collate.default_collate_fn_map
    monkeypatch.setitem(fns, torch.Tensor, lambda batch, *, collate_fn_map: len(batch))
    loader: Any = DataLoader([torch.ones(3)] * 4, 2, collate_fn=data.default_collate)
    assert list(loader) == [2, 2]


def test_without_batches_samples_stay_as_in_pytorch() -> None:
    sample = {"x": torch.ones(2), "y": np.ones(2), "n": 1, "s": "a"}
    same(default_convert(sample), data._utils.collate.default_convert(sample))
    (batch,) = DataLoader([sample], batch_size=None)
    assert batch["x"] is sample["x"]


# ------------------------------------------------------------------ data sets and samplers
def test_pytorchs_data_sets_give_pytorchs_batches() -> None:
    x, y = torch.arange(40.0).reshape(20, 2), torch.arange(20)
    rows = data.TensorDataset(x, y)
    for dataset in (
        rows,
        data.Subset(rows, list(range(5, 15))),
        data.Subset(data.Subset(rows, list(range(5, 15))), [3, 1, 2]),
        data.ConcatDataset([rows, rows]),
        data.StackDataset(a=rows, b=rows),
        data.TensorDataset(x.bfloat16(), x.t().contiguous().t(), y[::1]),
    ):
        ours, theirs = list(DataLoader(dataset, 4)), list(data.DataLoader(dataset, 4))
        same(ours, theirs)


def test_a_tensor_dataset_is_gathered_into_one_block() -> None:
    x = torch.arange(40.0).reshape(20, 2)
    rows = in_batches(data.TensorDataset(x, x))
    before = blocks()
    batch = default_collate(rows.__getitems__([3, -1]))
    assert blocks() == before + 1
    assert batch[0].tolist() == [[6, 7], [38, 39]]
    with pytest.raises(IndexError, match="20 of 20"):
        rows.__getitems__([20])
    grad = data.TensorDataset(torch.ones(4, 2, requires_grad=True))
    assert all(x.requires_grad for (x,) in DataLoader(grad, 2))
    with pytest.raises(
        TypeError, match=r"sample 0 of the batch at \[0\]: .* is not on the CPU: on meta"
    ):
        list(DataLoader(data.TensorDataset(torch.ones(4, 2, device="meta")), 2))
    assert in_batches(images := [1, 2]) is images


def changes_its_list(samples: Any) -> Any:
    """What a list allows, of samples that PyTorch makes."""
    assert type(samples) is list
    assert all(type(sample) is tuple for sample in samples)
    samples.sort(key=lambda sample: -int(sample[1]))
    samples[0] = samples[-1]
    samples.append(samples.pop(1))
    return data.default_collate(samples + samples[:1]), len(samples)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_collate_fn_gets_the_list_that_pytorch_gives_it(num_workers: int) -> None:
    rows = data.TensorDataset(torch.arange(40.0).reshape(20, 2), torch.arange(20))
    half, _ = data.random_split(rows, [11, 9], torch.Generator().manual_seed(0))
    for dataset in (rows, data.Subset(rows, range(5, 15)), data.Subset(half, [3, 1, 2]), half):
        theirs = list(data.DataLoader(dataset, 4, collate_fn=changes_its_list))
        with DataLoader(dataset, 4, collate_fn=changes_its_list, num_workers=num_workers) as loader:
            same(list(loader), theirs)


def test_a_collate_fn_that_changes_samples_changes_the_data_set_as_in_pytorch() -> None:
    def add(samples: Any) -> None:
        for (x,) in samples:
            x += 1

    x = torch.zeros(4)
    list(DataLoader(data.TensorDataset(x), 2, collate_fn=add))
    assert x.tolist() == [1, 1, 1, 1]


def test_changes_of_a_subset_are_seen_by_the_next_batch() -> None:
    subset = data.Subset(data.TensorDataset(torch.arange(20)), [0, 1, 2, 3])
    loader: Any = DataLoader(subset, 2)
    batches = iter(loader)
    assert next(batches)[0].tolist() == [0, 1]
    subset.indices = [9, 8, 7, 6]
    assert next(batches)[0].tolist() == [7, 6]
    subset.dataset = data.TensorDataset(torch.arange(20) * 10)
    assert [batch[0].tolist() for batch in loader] == [[90, 80], [70, 60]]
    subset.dataset = [5] * 20
    assert [batch.tolist() for batch in loader] == [[5, 5], [5, 5]]
    subset.dataset = data.TensorDataset(torch.arange(20))
    with DataLoader(subset, 4, num_workers=1) as loader:
        assert [batch[0].tolist() for batch in loader] == [[9, 8, 7, 6]]
        subset.indices = [1, 2, 3, 4]
        assert [batch[0].tolist() for batch in loader] == [[1, 2, 3, 4]]


@pytest.mark.parametrize(
    "batches",
    [
        [[slice(0, 2), slice(2, 4)]],
        [[[1, 2], [3, 4]]],
        [torch.tensor([1, 2]), np.array([-1, 0])],
        [torch.tensor([[1], [2]])],
        [[np.int32(3), torch.tensor(4)]],
    ],
)
def test_indices_may_be_what_tensors_take(batches: Any) -> None:
    rows = data.TensorDataset(torch.arange(20), torch.arange(40).reshape(20, 2))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Using a non-tuple sequence")
        theirs = list(data.DataLoader(rows, batch_sampler=batches))
        same(list(DataLoader(rows, batch_sampler=batches)), theirs)
    for wrong in ([1.5], [20], [-21]):
        with pytest.raises(IndexError):
            list(DataLoader(rows, batch_sampler=[wrong]))


def test_columns_that_are_not_contiguous_are_gathered() -> None:
    table = torch.arange(120.0).reshape(20, 6)
    columns = table[:, 1:3], table[:, 4], table.t().contiguous().t(), table[0].expand(20, 6)
    dataset = data.TensorDataset(*columns)
    same(list(DataLoader(dataset, 8)), list(data.DataLoader(dataset, 8)))


def test_pytorchs_samplers_give_their_own_order() -> None:
    rows = data.TensorDataset(torch.arange(20))

    def order(make: Any, library: Any) -> list[int]:
        torch.manual_seed(5)
        options = make()
        return [int(i) for (batch,) in library(rows, **options) for i in batch]

    for make in (
        lambda: {"sampler": data.RandomSampler(rows)},
        lambda: {"sampler": data.WeightedRandomSampler([1.0] * 20, 8), "batch_size": 4},
        lambda: {"sampler": data.SubsetRandomSampler(range(5))},
        lambda: {"batch_sampler": data.BatchSampler(data.RandomSampler(rows), 3, True)},
        lambda: {"sampler": data.DistributedSampler(rows, 2, 1), "batch_size": 3},
        lambda: {"sampler": data.RandomSampler(rows, generator=torch.Generator().manual_seed(1))},
    ):
        # Ours draws the epoch's seed elsewhere: PyTorch's loader draws it from the same generator.
        torch.manual_seed(5)
        sampler: Any = next(iter(make().values()))
        expected = [i for part in sampler for i in (part if isinstance(part, list) else [part])]
        assert order(make, DataLoader) == expected


def test_pytorchs_generator_seeds_order_and_samples() -> None:
    class Noisy:
        def __len__(self) -> int:
            return 12

        def __getitem__(self, i: int) -> Any:
            return i + float(torch.rand(()))

    def epochs(seed: int) -> list[Any]:
        generator = torch.Generator().manual_seed(seed)
        loader: Any = DataLoader(Noisy(), 4, shuffle=True, generator=generator)
        return [batch.tolist() for _ in range(2) for batch in loader]

    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = epochs(1)
    assert torch.equal(torch.get_rng_state(), state), "the program's generator is restored"
    torch.rand(5)
    assert epochs(1) == first
    assert epochs(2) != first
    assert first[:3] != first[3:]


@pytest.mark.parametrize("is_own", [True, False])
def test_an_epoch_with_pytorchs_sampler_resumes(is_own: bool) -> None:
    rows = data.TensorDataset(torch.arange(20))

    def make() -> Any:
        generator = torch.Generator() if is_own else None
        sampler = data.RandomSampler(rows, generator=generator)
        return DataLoader(rows, 4, sampler=sampler, generator=torch.Generator())

    torch.manual_seed(7)
    loader = make()
    first = [batch[0].tolist() for batch in loader]
    state = loader.state_dict()
    iterator = iter(loader)
    second = [next(iterator)[0].tolist() for _ in range(2)]
    middle = loader.state_dict()
    second += [batch[0].tolist() for batch in iterator]
    assert first != second

    torch.manual_seed(8)  # another program
    before = torch.get_rng_state()
    later = make()
    later.load_state_dict(middle)
    assert [batch[0].tolist() for batch in later] == second[2:]
    if not is_own:
        assert torch.equal(torch.get_rng_state(), before)
    later.load_state_dict(state)
    assert sorted(i for batch in later for i in batch[0].tolist()) == list(range(20))
    other: Any = DataLoader(rows, 4, generator=st.Generator())
    with pytest.raises(ValueError, match="another kind of generator: this one has Generator"):
        other.load_state_dict(middle)
        list(other)


def test_our_data_sets_and_pytorchs_mix() -> None:
    dataset = data.ConcatDataset([TensorDataset(np.arange(4)), TensorDataset(np.arange(4))])
    batches: Any = list(DataLoader(dataset, 4, output="torch"))
    assert [batch[0].tolist() for batch in batches] == [[0, 1, 2, 3]] * 2


# ------------------------------------------------------------------ sending
def through(batch: Any) -> Any:
    """The way of a batch to the consumer, within this process."""
    data, blocks = dumps(batch)
    return loads(data, [native.receive(native.export(block)) for block in blocks])


def test_what_is_sent_comes_back() -> None:
    private, shared = torch.arange(6.0).reshape(2, 3), default_collate(tensors())
    batch = {"p": private, "s": [shared, st.ones(2), np.ones(2)], "t": Pair(shared, "x"), "n": 3}
    back = through(batch)
    assert type(back["t"]) is Pair
    assert torch.equal(back["p"], private)
    assert native.is_shared(back["p"].data_ptr())
    assert back["s"][0].data_ptr() == shared.data_ptr()
    assert back["s"][0] is back["t"].x
    assert [type(part) for part in back["s"][1:]] == [st.Tensor, np.ndarray]
    everything = convert(back, "torch")
    assert all(type(part) is torch.Tensor for part in everything["s"])


def test_a_batch_is_not_converted_without_output() -> None:
    batch = [st.ones(2), {"x": torch.ones(2)}, "a", None]
    assert convert(batch, None) is batch
    assert convert(batch, None, has_jax=True) is batch


def test_convert_leaves_other_objects() -> None:
    marker = object()
    batch = convert({"x": torch.ones(2), "o": marker, "s": np.array(["a"]), "n": 1}, "numpy")
    assert batch["o"] is marker
    assert batch["n"] == 1
    assert type(batch["x"]) is np.ndarray
    assert convert(torch.ones(2, requires_grad=True), "numpy").tolist() == [1, 1]


def test_leaves_of_dataclasses_and_tuples_change_without_a_constructor() -> None:
    sample = Sample(torch.ones(2), "a")
    changed = map_leaves(sample, lambda x: 5 if isinstance(x, torch.Tensor) else x)
    assert changed.x == 5
    assert changed.name == "a"
    assert sample.x.tolist() == [1, 1]
    assert map_leaves(sample, lambda x: x) is sample
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    back = through(packed)
    assert type(back) is type(packed)
    assert torch.equal(back.data, packed.data)
