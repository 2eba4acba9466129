"""What a file must not do: keep `load` busy for longer than its size allows."""

from __future__ import annotations

import pickle
import random
import struct
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.serialization import load
from shmtensor.serialization.limits import FREE, Slots
from tests.attacks import survives
from tests.pickle_programs import attempt, file_with, number, refuses, word

OFTEN = "hashes its objects too often"
PRIME = (1 << 61) - 1  # the hash of an int is its remainder
ORDERED = b"ccollections\nOrderedDict\n)R"
LARGE = b"\x8b" + struct.pack("<i", 20_000) + b"\x01" * 20_000  # an int


def many(expression: bytes, n: int = 50_000) -> bytes:
    """Makes the same object again and again, from parts that the memo has."""
    return (expression + b"0") * n


def ints(values: list[int]) -> bytes:
    return b"".join(map(number, values))


def colliding(n: int) -> list[int]:
    """Numbers of one hash."""
    return [i * PRIME for i in range(1, n + 1)]


def same_slots(n: int, size: int = 1 << 12) -> list[int]:
    """Numbers of different hashes that visit the same slots of a dict: a chain of a third of all
    slots, each the successor of the one before it, and numbers that come to its beginning.
    """
    orbit = np.zeros(size, np.int64)
    for i in range(1, size):
        orbit[i] = (5 * orbit[i - 1] + 1) % size
    position = np.empty(size, np.int64)
    position[orbit] = np.arange(size)
    length = size // 3 + 8
    rng = np.random.default_rng(0)
    keys: list[int] = []
    while len(keys) < n:
        hashes = rng.integers(size, size << 12, 1 << 18)
        slot, rest = hashes % size, hashes.copy()
        is_full = position[slot] < length
        while rest.any():
            rest >>= 5
            slot = (5 * slot + rest + 1) % size
            is_full &= position[slot] < length
        keys += hashes[is_full & (position[slot] < length // 4)].tolist()
    return [*orbit[:length].tolist(), *dict.fromkeys(keys[:n])]


KINDS: dict[str, Callable[[list[int]], bytes]] = {
    "SETITEMS": lambda keys: b"}(" + b"".join(number(key) + b"N" for key in keys) + b"u",
    "SETITEM": lambda keys: b"}" + b"".join(number(key) + b"Ns" for key in keys),
    "DICT": lambda keys: b"(" + b"".join(number(key) + b"N" for key in keys) + b"d",
    "ADDITEMS": lambda keys: b"\x8f(" + ints(keys) + b"\x90",
    "ADDITEMS, one each": lambda keys: b"\x8f" + b"".join(
        b"(" + number(key) + b"\x90" for key in keys
    ),
    "FROZENSET": lambda keys: b"(" + ints(keys) + b"\x91",
    "set": lambda keys: b"c__builtin__\nset\n](" + ints(keys) + b"e\x85R",
    "frozenset": lambda keys: b"c__builtin__\nfrozenset\n](" + ints(keys) + b"e\x85R",
    **{
        f"{kind} of pairs": lambda keys, kind=kind: kind.encode() + b"](" + b"".join(  # type: ignore[misc]
            number(key) + b"N\x86" for key in keys
        ) + b"e\x85R"
        for kind in ("c__builtin__\ndict\n", "ccollections\nOrderedDict\n",
                     "ccollections\nCounter\n")
    },
    "defaultdict": lambda keys: b"ccollections\ndefaultdict\nN](" + b"".join(
        number(key) + b"N\x86" for key in keys
    ) + b"e\x86R",
    "OrderedDict": lambda keys: b"ccollections\nOrderedDict\n)R(" + b"".join(
        number(key) + b"N" for key in keys
    ) + b"u",
}  # fmt: skip


SETS = ("ADDITEMS", "ADDITEMS, one each", "FROZENSET", "set", "frozenset")


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_equal_hash_are_counted(kind: str) -> None:
    assert survives(refuses(KINDS[kind](colliding(20_000)), OFTEN))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in SETS])
def test_keys_that_visit_the_same_slots_are_counted(kind: str) -> None:
    keys = same_slots(1200)
    assert len(set(map(hash, keys))) == len(keys)
    assert survives(refuses(KINDS[kind](keys), OFTEN))


@pytest.mark.parametrize("mixed", [b"", b"(X\x01\0\0\0aNu", b"(NNu"])
def test_a_dict_that_has_keys_already_is_counted(mixed: bytes) -> None:
    """Also if they came in batches, or others between them."""
    stream = b"}" + mixed
    keys = colliding(20_000)
    for i in range(0, len(keys), 500):
        stream += b"(" + b"".join(number(key) + b"N" for key in keys[i : i + 500]) + b"u"
        stream += b"(" + word(f"text {i}") + b"Nu"
    assert survives(refuses(stream, OFTEN))


def test_a_key_that_is_set_again_and_again_is_counted() -> None:
    keys = colliding(900)  # a small dict, in which each look-up compares with all of them
    stream = KINDS["SETITEMS"](keys) + number(900 * PRIME) + b"q\x010" + b"h\x01Ns" * 50_000
    assert survives(refuses(stream, OFTEN))


def test_a_copy_of_a_dict_or_set_is_counted() -> None:
    keys = colliding(900)
    for make, kind in (("SETITEMS", "dict"), ("ADDITEMS", "set"), ("FROZENSET", "frozenset")):
        stream = KINDS[make](keys) + b"q\x000c__builtin__\n" + kind.encode() + b"\nq\x010"
        assert survives(refuses(stream + many(b"h\x01h\0\x85R"), f"{OFTEN}|copies"))


def test_frozensets_of_equal_hash_are_compared_in_bounded_time() -> None:
    keys = ints(colliding(1200))
    stream = b"(" + keys + b"\x91q\x000(" + keys + b"\x91q\x010" + b"}h\0Ns" + b"h\x01Ns" * 50_000
    assert survives(refuses(stream, OFTEN))


@pytest.mark.parametrize(
    "key",
    [
        b"(" + LARGE + b"t",
        b"(" + LARGE + b"K\x01t\x85",
        LARGE,
        b"L" + b"9" * 4300 + b"L\n",
        b"c__builtin__\nint\n" + word("9" * 4300) + b"\x85R",
        b"(" + LARGE + b"\x91",
        b"(" + b"c__builtin__\nint\n" + word("f" * 4300) + b"K\x10\x86R" + b"t",
    ],
    ids=["tuple", "tuple in a tuple", "int", "decimal", "int()", "frozenset", "int of a base"],
)
def test_large_integers_in_keys_are_counted(key: bytes) -> None:
    assert survives(refuses(b"}" + key + b"q\x010" + b"h\x01Ns" * 150_000, OFTEN))


@pytest.mark.parametrize("kind", ["int", "float", "complex"])
def test_texts_that_become_numbers_are_counted(kind: str) -> None:
    stream = f"c__builtin__\n{kind}\nq\x010".encode() + word("9" * 4300) + b"\x85q\x020"
    assert survives(refuses(stream + many(b"h\x01h\x02R", 200_000), "copies|damaged"))


def test_a_size_has_the_numbers_of_a_tensor() -> None:
    stream = b"ctorch\nSize\n(" + LARGE + b"t\x85R"
    assert survives(refuses(stream, "not the sizes of a tensor"))
    assert attempt(b"ctorch\nSize\n(K\x02K\x03t\x85R") == st.Size((2, 3))


def test_texts_that_are_compared_are_counted() -> None:
    text = b"X" + struct.pack("<I", 500_000) + b"a" * 500_000
    stream = b"}" + text + b"q\x000" + text + b"q\x010h\0Ns" + b"h\x01Ns" * 150_000
    assert survives(refuses(stream, OFTEN))


def test_the_attributes_of_an_ordered_dict_are_counted() -> None:
    names = b"}(" + b"".join(word(f"a{i}") + b"N" for i in range(20_000)) + b"uq\x010"
    stream = ORDERED + names + b"h\x01b" * 50_000
    assert survives(refuses(stream, OFTEN))


def test_sizes_of_an_array_are_compared_before_they_are_multiplied() -> None:
    shape = b"(" + LARGE + b"q\x01" + b"h\x01" * 31 + b"t"
    stream = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85C\x01btR(K\x01" + shape
        + b"cnumpy\ndtype\nU\x02f4\x85R\x89C\0tb"
    )  # fmt: skip
    assert survives(refuses(stream, "not a size of an array: a int"))


# ------------------------------------------------------------------ tensors
def storage_of(kind: str, key: str, count: int) -> bytes:
    return (
        b"(" + word("storage") + f"ctorch\n{kind}\n".encode() + word(key) + word("cpu")
        + number(count) + b"tQ"
    )  # fmt: skip


def tensor_of(kind: str, key: str, size: list[int], stride: list[int]) -> bytes:
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage_of(kind, key, 1) + b"K\0("
        + ints(size) + b"t(" + ints(stride) + b"t\x89}tR"
    )  # fmt: skip


SPARSE = b"ctorch._utils\n_rebuild_sparse_tensor\nq\x020"
LAYOUT = b"ctorch.serialization\n_get_layout\n" + word("torch.sparse_coo") + b"\x85R"


def test_sparse_tensors_that_are_rebuilt_again_and_again_are_counted() -> None:
    n = 100_000
    parts = tensor_of("LongStorage", "0", [1, n], [n, 1]) + tensor_of("ByteStorage", "1", [n], [1])
    stream = SPARSE + b"(" + LAYOUT + b"(" + parts + number(n) + b"\x85\x89tt" + b"q\x010"
    storages = {"_0": np.zeros(n, np.int64).tobytes(), "_1": bytes(n)}
    assert survives(refuses(stream + many(b"h\x02h\x01R", 1000), "copies", **storages))
    assert attempt(stream + b"h\x02h\x01R", **storages).shape == (n,)


def test_expanded_indices_are_counted() -> None:
    n = 1 << 40
    parts = tensor_of("LongStorage", "0", [1, n], [0, 0]) + tensor_of("ByteStorage", "1", [n], [0])
    stream = SPARSE + b"h\x02(" + LAYOUT + b"(" + parts + number(9) + b"\x85\x89ttR"
    assert survives(refuses(stream, "copies its objects too often", _0=bytes(8), _1=b"1"))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("_rebuild_tensor_v2", storage_of("ByteStorage", "0", 8) + b"K\0(K\x02t(K\x01t\x89}t"),
        ("_rebuild_tensor_v2", storage_of("ByteStorage", "0", 8) + b"K\0(K\0t(K\x01t\x89}t"),
        ("_rebuild_parameter", tensor_of("FloatStorage", "0", [2], [1]) + b"\x89}t"),
        ("_rebuild_meta_tensor_no_storage", b"ctorch\nfloat32\n(K\x02t(K\x01t\x89t"),
    ],
)
def test_tensors_that_are_rebuilt_again_and_again_are_counted(name: str, arguments: bytes) -> None:
    stream = b"ctorch._utils\n" + name.encode() + b"\nq\x010(" + arguments + b"q\x020"
    refused = refuses(stream + many(b"h\x01h\x02R", 200_000), "copies", _0=bytes(8))
    assert survives(refused)


# ------------------------------------------------------------------ the memo
@pytest.mark.parametrize("index", [b"99", b"-1", b"99999999999999999999"])
def test_numbers_in_the_memo_are_bounded(index: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError, match=f"IndexError: an object has .* {int(index)}"):
        attempt(b"Np" + index + b"\n")
    with pytest.raises(pickle.UnpicklingError, match=f"KeyError: {int(index)}"):
        attempt(b"Ng" + index + b"\n")


def test_any_order_of_the_memo_is_read() -> None:
    stream = b"(K\x05q\x07K\x06q\x02K\x07q\x07h\x07h\x02l"
    assert attempt(stream + b" " * 0) == [5, 6, 7, 7, 6]
    with pytest.raises(pickle.UnpicklingError, match="KeyError: 4"):
        attempt(stream + b"h\x04")


# ------------------------------------------------------------------ what is legal
def nested_frozensets(depth: int) -> frozenset[Any]:
    value = frozenset[Any]()
    for i in range(depth):
        value = frozenset([value, i])
    return value


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_legal_keys_of_any_number_are_loaded(protocol: int) -> None:
    rng = random.Random(0)
    numbers = [rng.getrandbits(rng.choice([8, 20, 60, 90])) for _ in range(20_000)]
    values: list[Any] = [
        dict.fromkeys(range(20_000)),
        dict.fromkeys(range(-10_000, 10_000)),
        dict.fromkeys(numbers),
        set(numbers),
        frozenset(numbers),
        {(i, f"{i}"): i for i in range(5000)},
        {i / 7: None for i in range(5000)},
        {i / 1024 for i in range(60_000)},  # their hashes share the last bits
        {None: 1, True: 2, -1: 3, -2: 4, "a": 5, b"b": 6, 1.5: 7, (1, 2): 8, 1 << 80: 9},
        [{7: 1, 3: 2, (3, 3): 1}] * 10,
        [{3: i, 9: 1, 27: 2} for i in range(2000)],
        OrderedDict((key, 0) for key in numbers[:3000]),
        Counter(numbers[:3000]),
        defaultdict(list, {key: [1] for key in numbers[:3000]}),
        nested_frozensets(60),
        {"x" * 100_000: 1, "y" * 100_000: 2},
    ]
    for value in values:
        assert load(file_with(pickle.dumps(value, protocol))) == value


# ------------------------------------------------------------------ the slots are CPython's
def test_the_table_of_a_set_is_pythons() -> None:
    rng = random.Random(1)
    values = [rng.getrandbits(50) << rng.choice([0, 7, 30]) for _ in range(3000)]
    slots, real = Slots(is_set=True), set[int]()
    for value in values:
        real.add(value)
        slots.place([hash(value)], [1], 1 << 40)
    # As many slots, and in each the same number; one that is too large is another than its hash.
    assert len(slots.table) >= 8192
    assert [n for n in slots.table.tolist() if n != FREE] == [hash(value) for value in real]


def test_the_table_of_a_dict_grows_as_pythons() -> None:
    slots, real = Slots(is_set=False), dict[int, None]()
    sizes, tables = [], []
    for value in range(5000):
        real[value * 3] = None
        slots.place([value * 3], [1], 1 << 40)
        sizes.append(sys.getsizeof(real))
        tables.append(len(slots.table))
    grown = [[i for i in range(1, 5000) if row[i] != row[i - 1]] for row in (sizes, tables)]
    assert grown[0] == grown[1]


def test_work_ends_at_the_limit() -> None:
    slots = Slots(is_set=False)
    assert slots.place([5] * 100, [10] * 100, 1000) in range(1001, 3000)
    assert Slots(is_set=False).place([5] * 3, [10] * 3, 1000) == 3 * (8 + 10)
