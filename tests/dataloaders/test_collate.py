"""Collation: structures, dtypes, one block per batch, and what it refuses."""

from __future__ import annotations

from array import array as array_of_numbers
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import (
    DataLoader,
    TensorDataset,
    collate,
    default_collate,
    default_collate_fn_map,
    default_convert,
)
from shmtensor.dataloaders.collate import map_leaves

Pair = namedtuple("Pair", "x y")


@dataclass
class Sample:
    x: Any
    name: str


def array(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(
    ("samples", "dtype", "values"),
    [
        ([1.5, 2.0], np.float64, [1.5, 2.0]),
        ([1, 2], np.int64, [1, 2]),
        ([True, False], np.bool_, [True, False]),
        ([np.float32(1), np.float32(2)], np.float32, [1, 2]),
        ([np.int8(1), np.int16(2)], np.int16, [1, 2]),
        ([np.bool_(True), np.bool_(False)], np.bool_, [True, False]),
        ([np.array(3), np.array(4)], np.int64, [3, 4]),
        ([array(1, 2), array(3, 4)], np.float32, [[1, 2], [3, 4]]),
        ([array(1), np.array([2.0])], np.float64, [[1], [2]]),
        ([st.tensor([1, 2]), st.tensor([3, 4])], np.int64, [[1, 2], [3, 4]]),
    ],
)
def test_leaves_become_tensors(samples: list[Any], dtype: type, values: list[Any]) -> None:
    batch = default_collate(samples)
    assert isinstance(batch, st.Tensor)
    assert batch.dtype == dtype
    assert batch.tolist() == values


def test_samples_may_have_any_layout() -> None:
    data = np.arange(24).reshape(2, 3, 4)
    samples = [data.transpose(2, 1, 0)[i] for i in range(4)]
    assert default_collate(samples).tolist() == data.transpose(2, 1, 0).tolist()
    assert default_collate([np.zeros((0, 3))] * 2).shape == (2, 0, 3)


def test_strings_stay_as_they_are_and_tuples_become_lists_as_in_pytorch() -> None:
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a", b"b"]) == [b"a", b"b"]
    assert default_collate([{"name": "a"}, {"name": "b"}])["name"] == ["a", "b"]
    batch = default_collate([(1, "a"), (2, "b")])
    assert type(batch) is list
    assert (batch[0].tolist(), batch[1]) == ([1, 2], ("a", "b"))


@pytest.mark.parametrize(
    ("one", "other", "dtype"),
    [
        ("i8", "f4", np.float32), ("f2", "i4", np.float16), ("f4", "f8", np.float64),
        ("u1", "i1", np.int16), ("?", "u1", np.uint8), ("c8", "f8", np.complex128),
        (">f4", "f4", np.float32),
    ],
)  # fmt: skip
def test_dtypes_are_promoted_as_stack_promotes(one: str, other: str, dtype: Any) -> None:
    for pair in ((one, other), (other, one)):
        arrays = [np.ones(2, kind) for kind in pair]
        assert default_collate(arrays).dtype == st.tensor(np.zeros(1, dtype)).dtype
        if ">f4" not in pair:
            stacked = st.stack([st.tensor(array) for array in arrays])
            assert default_collate([st.tensor(a) for a in arrays]).dtype == stacked.dtype


@pytest.mark.parametrize("shape", [(), (3,), (100, 200)])
def test_arrays_of_another_byte_order_are_converted(shape: Any) -> None:
    samples = [np.full(shape, i, ">f4") for i in range(3)]
    assert default_collate(samples).tolist() == np.stack(samples).tolist()
    (batch,) = DataLoader(samples, 3, output="numpy")  # type: ignore[arg-type]
    assert batch.dtype == np.dtype("=f4")  # type: ignore[attr-defined]
    assert batch.tolist() == np.stack(samples).tolist()  # type: ignore[attr-defined]


def test_structures_are_entered() -> None:
    samples = [
        {"image": array(i, i), "meta": [i, (f"n{i}", float(i))], "pair": Pair(i, array(i))}
        for i in range(3)
    ]
    batch = default_collate(samples)
    assert batch["image"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert batch["meta"][0].tolist() == [0, 1, 2]
    assert batch["meta"][1][0] == ("n0", "n1", "n2")
    assert batch["meta"][1][1].tolist() == [0, 1, 2]
    assert isinstance(batch["pair"], Pair)
    assert batch["pair"].y.tolist() == [[0], [1], [2]]


def test_containers_keep_their_type() -> None:
    result = default_collate([OrderedDict(b=1, a=2)] * 2)
    assert type(result) is OrderedDict
    assert list(result) == ["b", "a"]
    assert type(default_collate([UserDict(a=1)] * 2)) is UserDict
    result = default_collate([Sample(array(1), "a"), Sample(array(2), "b")])
    assert isinstance(result, Sample)
    assert result.x.tolist() == [[1], [2]]
    assert result.name == ["a", "b"]


def test_all_arrays_of_a_batch_lie_aligned_in_one_block() -> None:
    batch = default_collate([{"a": array(1, 2, 3), "b": 1, "c": np.float64(2)}] * 5)
    arrays = [batch[name].numpy() for name in "abc"]
    addresses = [a.__array_interface__["data"][0] for a in arrays]
    assert len({id(a.base) for a in arrays}) == 1
    assert [address - addresses[0] for address in addresses] == [0, 64, 128]
    assert all(batch[name].is_shared() for name in "abc")


def test_the_samples_are_copied_not_kept() -> None:
    sample = array(1)
    batch = default_collate([sample])
    sample[0] = 9
    assert batch.tolist() == [[1]]


def test_gradients_flow_through_a_batch() -> None:
    x = st.as_tensor(array(1, 2)).requires_grad_()
    assert default_collate([x, x]).requires_grad


@pytest.mark.parametrize(
    ("samples", "kind", "message"),
    [
        (
            [array(1), array(1, 2)],
            RuntimeError,
            r"shapes differ.*: \(1,\) at sample 0, \(2,\) at sample 1",
        ),
        ([{"x": [array(1)]}, {"x": [array(1, 2)]}], RuntimeError, r"at \['x'\]\[0\]"),
        ([[1], [1, 2]], RuntimeError, r"different lengths: \[1, 2\]"),
        ([{"x": 1}, {"y": 1}], RuntimeError, "differ in their keys: 'x'"),
        ([{"x": 1}, 2], RuntimeError, "sample 0 is a mapping, sample 1 is int"),
        ([None, None], TypeError, "builtins.NoneType"),
        ([(1, object())], TypeError, r"at \[1\]: builtins.object"),
        ([np.array(["a"])], TypeError, "cannot be tensors: <U1"),
        ([np.array([None])], TypeError, "cannot be tensors: object"),
        ([2**70, 1], (RuntimeError, TypeError), "1180591620717411303424"),
    ],
)
def test_samples_that_cannot_be_batched_are_named(
    samples: list[Any], kind: Any, message: str
) -> None:
    with pytest.raises(kind, match=message):
        default_collate(samples)


LARGE = np.zeros(8192, np.float32)  # copied to the batch before collation


@pytest.mark.parametrize("workers", [None, 0, 1])
@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([{"a": 1}, {"a": 2, "b": 3}], "keys: 'b' not in both of samples 0 and 1"),
        ([{"a": 1, "b": 3}, {"a": 2}], "keys: 'b' not in both of samples 0 and 1"),
        ([{"a": 1, "b": 3}, {"a": 2, "c": 3}], "keys: 'b', 'c' not in both"),
        ([{"a": 1, "b": 3}, defaultdict(int, {"a": 2, "c": 3})], "keys: 'b', 'c' not in both"),
        ([defaultdict(int, {"a": 1}), {"a": 2}, {"a": 3, "b": 3}], "samples 0 and 2"),
        ([MappingProxyType({"a": 1}), {"a": 2, "b": 3}], "keys: 'b'"),
        ([([{"a": 1}],), ([{"a": 2, "b": 3}],)], r"keys at \[0\]\[0\]: 'b'"),
        ([{"a": {}}, {"a": {"b": 3}}], r"keys at \['a'\]: 'b'"),
        ([{"a": LARGE.copy()}, {"a": LARGE.copy(), "b": LARGE.copy()}], "keys: 'b'"),
        ([{"a": LARGE.copy(), "b": LARGE.copy()}, {"a": LARGE.copy()}], "keys: 'b'"),
    ],
)
def test_a_key_that_some_samples_lack_is_named(
    samples: list[Any], message: str, workers: int | None
) -> None:
    expected = pytest.raises(RuntimeError, match=message)
    if workers is None:
        with expected:
            default_collate(samples)
        return
    arguments = {"multiprocessing_context": "fork"} if workers else {}
    with DataLoader(samples, 3, num_workers=workers, **arguments) as loader, expected:
        next(iter(loader))


def test_another_order_of_the_keys_is_no_difference() -> None:
    batch = default_collate([{"a": 1, "b": 2}, {"b": 3, "a": 4}, OrderedDict(b=5, a=6)])
    assert {name: x.tolist() for name, x in batch.items()} == {"a": [1, 4, 6], "b": [2, 3, 5]}


def test_a_map_of_functions_decides() -> None:
    def shout(batch: list[str], *, collate_fn_map: Any) -> str:
        return "".join(batch).upper()

    custom = {**default_collate_fn_map, str: shout}
    batch = collate([("a", 1), ("b", 2)], collate_fn_map=custom)
    assert batch[0] == "AB"
    assert batch[1].tolist() == [1, 2]
    with pytest.raises(TypeError, match=r"builtins\.int"):
        collate([1, 2])


def test_a_function_for_tensors_gets_gathered_columns_row_by_row() -> None:
    rows = TensorDataset(np.arange(6).reshape(3, 2)).__getitems__([0, 2])
    assert default_collate(rows)[0].tolist() == [[0, 1], [4, 5]]
    custom = {st.Tensor: lambda batch, *, collate_fn_map: [row.tolist() for row in batch]}
    assert collate(rows, collate_fn_map=custom) == [[[0, 1], [4, 5]]]


def test_the_functions_of_the_map_can_be_called() -> None:
    stack = default_collate_fn_map[np.ndarray]
    assert stack([array(1), array(2)], collate_fn_map=None).tolist() == [[1], [2]]


def test_convert_wraps_arrays_without_a_copy() -> None:
    data = array(1, 2)
    converted = default_convert({"x": data, "pair": Pair(data, "text"), "t": (1, [data])})
    assert converted["x"].numpy() is data or converted["x"].numpy().base is data
    assert isinstance(converted["pair"], Pair)
    assert converted["pair"].y == "text"
    assert converted["t"][0] == 1
    assert isinstance(converted["t"][1][0], st.Tensor)
    data[0] = 7
    assert converted["x"].tolist() == [7, 2]


@pytest.mark.parametrize("other", [object(), "a", np.ones(2), None])
def test_other_types_beside_numbers_are_refused(other: Any) -> None:
    with pytest.raises(TypeError, match=r"different types at \[0\]: int at sample 0, .* sample 1"):
        default_collate([(5,), (other,)])
    if not isinstance(other, np.ndarray):
        with pytest.raises(TypeError, match="different types: ndarray at sample 0"):
            default_collate([np.ones(2), other])


@pytest.mark.parametrize("first", [5.0, (1, 2), st.ones(2)])
@pytest.mark.parametrize("other", ["5", None, object()])
def test_another_type_in_the_second_sample_is_refused(first: Any, other: Any) -> None:
    name = type(first).__name__
    with pytest.raises(TypeError, match=rf"types: {name} at sample 0, {type(other).__name__} at"):
        default_collate([first, other])


def test_buffers_and_numbers_are_not_entered() -> None:
    plain = [
        bytearray(b"ab"),
        memoryview(b"cd"),
        array_of_numbers("i", [1, 2]),
        range(3),
        list(range(9)),
    ]
    seen: list[Any] = []
    assert map_leaves(plain, seen.append, is_exact=True) is plain
    assert not seen
    assert default_convert(plain) == plain
    x = np.ones(2)
    assert map_leaves([1, "a", x, bytearray(9)], lambda leaf: seen.append(leaf), is_exact=True)
    assert seen == [x]
