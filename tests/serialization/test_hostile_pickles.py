"""What a file must not do: crash, change the process, run code, or take memory without end."""

from __future__ import annotations

import enum
import io
import pickle
import struct
import tracemalloc
import types
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.serialization import load, safe_globals, save
from tests.attacks import survives
from tests.fuzz import pickles
from tests.pickle_programs import attempt, file_with, number, refuses, word

HERE = __name__
REGISTRY: list[Any] = []
SETTINGS: dict[Any, Any] = {}


class Point:
    def __init__(self, x: int = 0) -> None:
        self.x = x

    def method(self) -> int:
        return 1


class Restored:
    def __setstate__(self, state: Any) -> None:
        self.state = state


class Forwarded:
    """Its instances look up what they lack in a dict of the file."""

    state: Any = None
    target: Any = types.MappingProxyType({})

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state if "target" in state else {"state": state})

    def __getattr__(self, name: str) -> Any:
        try:
            return self.target[name]
        except KeyError:
            raise AttributeError(name) from None


class Names(dict[str, int]):
    """A dict of the user, with an attribute."""


class Outer:
    class Inner:
        pass


class Color(enum.Enum):
    RED = 1


class Single:
    instance: Any = None

    def __new__(cls) -> Single:
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance  # type: ignore[no-any-return]


def get_registry() -> list[Any]:
    return REGISTRY


def get_settings() -> dict[Any, Any]:
    return SETTINGS


# ------------------------------------------------------------------ state
DTYPE_STATE = b"(K\x03" + word("<") + b"NNNK\x40K\x01K\x00t"


@pytest.mark.parametrize(
    ("dtype", "match"),
    [
        (b"ctorch\nbfloat16\n", "sets attributes of something that is not trusted"),
        (b"ctorch\nfloat32\n", "sets attributes of something that is not trusted"),
        (b"cnumpy\ndtype\nU\x02f4\x85R", "only arrays of numbers are trusted"),
    ],
)
def test_no_state_reaches_a_dtype(dtype: bytes, match: str) -> None:
    def attack() -> None:
        before = [(d.itemsize, d.alignment, d.fields) for d in (st.bfloat16, st.float32)]
        with pytest.raises(pickle.UnpicklingError, match=match):
            attempt(dtype + DTYPE_STATE + b"b")
        assert [(d.itemsize, d.alignment, d.fields) for d in (st.bfloat16, st.float32)] == before
        x = st.zeros(4, dtype=st.bfloat16)
        assert x.array.strides == (2,)

    assert survives(attack)


def test_the_state_that_numpy_writes_is_accepted() -> None:
    for dtype in (st.bfloat16, st.float32, np.dtype("i2"), np.dtype("?"), np.dtype("c16")):
        for protocol in (0, 1, 2, 3, 4, 5):
            assert load(file_with(pickle.dumps(dtype, protocol))) is dtype
    with pytest.raises(pickle.UnpicklingError, match=r"this machine's byte order are trusted.*'>'"):
        load(file_with(pickle.dumps(np.dtype(">i4"))))


def global_of(name: str) -> bytes:
    return f"c{HERE}\n{name}\n".encode()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("Point", global_of("Point")),
        ("Point", global_of("Point") + b"q\x000h\x00"),
        ("Color", global_of("Color") + b"K\x01\x85R"),
        ("Single", global_of("Single") + b")\x81"),
        ("Single", global_of("Single") + b")R"),
        ("get_registry", global_of("get_registry") + b")R"),
        ("get_settings", global_of("get_settings") + b")R"),
        ("REGISTRY", global_of("REGISTRY")),
        ("SETTINGS", global_of("SETTINGS")),
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        b"}X\x01\0\0\0aK\x01sb",
        b"N}X\x01\0\0\0aK\x01s\x86b",
        b"K\x01a",
        b"(K\x01e",
        b"K\x01K\x01s",
        b"(K\x01K\x01u",
        b"(K\x01\x90",
    ],
    ids=["BUILD", "BUILD of slots", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS"],
)
def test_what_the_file_has_not_constructed_is_never_changed(
    name: str, target: bytes, change: bytes
) -> None:
    Single()
    item = globals()[name]

    def state() -> Any:
        classes = (Point, Color, Single)
        instances = [vars(Color.RED).copy(), vars(Single.instance).copy()]
        return [sorted(vars(c)) for c in classes], instances, list(REGISTRY), dict(SETTINGS)

    before = state()
    with safe_globals([(item, f"{HERE}.{name}")]):
        with pytest.raises(pickle.UnpicklingError, match=r"not constructed|not trusted|damaged"):
            attempt(target + change)
        attempt(target)  # it may be named and called
    assert state() == before


def test_what_the_file_has_constructed_is_filled() -> None:
    values = [Point(3), Restored(), Names(a=1)]
    values[1].__dict__["state"] = 1
    values[2].extra = [1]  # type: ignore[attr-defined]
    for protocol in (2, 3, 4, 5):
        with safe_globals([Point, Restored, Names]):
            back = load(file_with(pickle.dumps(values, protocol)))
        assert back[0].x == 3
        assert back[1].state == {"state": 1}
        assert back[2] == {"a": 1}
        assert back[2].extra == [1]


def test_set_state_is_looked_up_in_the_class() -> None:
    """Else a first state could say which function the second one calls."""
    instance = global_of("Forwarded") + b")\x81"
    first = b"}" + word("target") + b"}" + word("__setstate__") + b"cnumpy\nndarray\nssb"
    with safe_globals([Forwarded]):
        value = attempt(instance + first + b"}" + word("y") + b"K\x02sb")
    assert value.state == {"y": 2}


def test_an_attribute_of_python_is_not_set() -> None:
    state = b"N}" + word("__class__") + global_of("Color") + b"s\x86b"
    with safe_globals([Point, Color]), pytest.raises(pickle.UnpicklingError, match="__class__"):
        attempt(global_of("Point") + b")\x81" + state)


def test_an_alias_does_not_make_numpys_constructor_callable() -> None:
    call = b"calias\nndarray\n(K\x01U\x01OC\x08AAAAAAAAtR"
    with safe_globals([(np.ndarray, "alias.ndarray")]):
        with pytest.raises(
            pickle.UnpicklingError, match=r"calls something .* not trusted: ndarray"
        ):
            attempt(call)
    with safe_globals([np.ndarray, np.dtype]):
        assert load(file_with(pickle.dumps(np.arange(3)))).tolist() == [0, 1, 2]


# ------------------------------------------------------------------ arrays
def array_of(shape: bytes, dtype: bytes, data: bytes) -> bytes:
    make = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85C\x01btR"
    return make + b"(K\x01" + shape + dtype + b"\x89C" + bytes([len(data)]) + data + b"tb"


F4 = b"cnumpy\ndtype\nU\x02f4\x85R"
BOOL = b"cnumpy\ndtype\nU\x02b1\x85R"


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (array_of(b"K\x01\x85", b"cnumpy\ndtype\nU\x01O\x85R", b"A" * 8), "only arrays of numbers"),
        (array_of(b"K\x01\x85", b"U\x01O", b"A" * 8), "only arrays of numbers"),
        (array_of(b"K\x03\x85", F4, b"A" * 8), r"8 bytes, which is not shape \(3,\)"),
        (array_of(number(1 << 62) + number(4) + b"\x86", F4, b""), "0 bytes, which is not shape"),
        (array_of(b"K\0" + number(1 << 62) + b"\x86", F4, b""), "0 bytes, which is not shape"),
        (array_of(b"J\xfe\xff\xff\xff\x85", F4, b"A" * 8), "not a size of an array: -2"),
        (array_of(b"K\x02\x85", BOOL, b"\0\x02"), "a byte of a bool array is not 0 or 1: 2"),
        (array_of(b"K\x02\x85", F4, b"A" * 8) + DTYPE_STATE + b"b", "sets attributes"),
        (array_of(b"K\x02\x85", F4, b"A" * 8) + b"K\0a", "appends to what it has not"),
        (b"cnumpy\nndarray\n)R", "calls something .* not trusted: ndarray"),
        (b"cnumpy\nndarray\n(K\x01X\x01\0\0\0Ot\x81", "calls something .* not trusted: ndarray"),
        (
            F4 + b"(K\x03" + word("<") + b"N(" + word("a") + b"t}K\x08K\x08K\0tb",
            "the state of float32 has fields or a size",
        ),
    ],
)
def test_arrays_are_built_from_checked_parts(stream: bytes, text: str) -> None:
    assert survives(refuses(stream, text))


def test_an_array_keeps_its_identity_and_has_its_own_memory() -> None:
    data = bytes(range(256)) * 8
    shared = np.frombuffer(data, np.uint8).reshape(2, -1)
    for protocol in range(6):
        first, second, raw = load(file_with(pickle.dumps([shared, shared, data], protocol)))
        assert first is second
        assert (first == shared).all()
        first[...] = 0
        assert raw == data  # NumPy makes the memory of a bytes object writable


@pytest.mark.parametrize(
    "layout",
    [
        (0, (7,), (1,)),
        (1, (6,), (1,)),
        (-1, (1,), (1,)),
        (0, (2, 2), (6, 1)),
        (0, (1 << 62,), (1,)),
        (0, (1 << 40, 1 << 40), (0, 0)),
        (0, (-1,), (1,)),
        (0, (2,), (-1,)),
        (0, (2,), (1, 1)),
        (1 << 87, (1,), (1,)),
    ],
)
def test_tensors_stay_in_their_storage(layout: Any) -> None:
    offset, size, stride = layout
    sizes = [b"(" + b"".join(map(number, part)) + b"t" for part in (size, stride)]
    key = b"(" + word("storage") + b"ctorch\nFloatStorage\n" + word("0") + word("cpu") + b"K\x06tQ"
    stream = (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + key + number(offset) + sizes[0] + sizes[1] + b"\x89}tR"
    )  # fmt: skip
    assert survives(refuses(stream, "load: (a tensor reaches|not the)", _0=bytes(24)))


# ------------------------------------------------------------------ depth and time
@pytest.mark.parametrize(
    "stream",
    [
        b"}N" + b"\x85" * 2_000_000 + b"Ns",
        b"(N" + b"\x85" * 2_000_000 + b"\x91",
        b"(" * 100_000 + b"\x91" * 100_000,
        b"c__builtin__\ntuple\nq\0(N" + b"\x85" * 2_000_000 + b"ltR",
    ],
    ids=["key", "element", "frozenset", "tuple"],
)
def test_tuples_in_tuples_are_refused(stream: bytes) -> None:
    assert survives(refuses(stream, "nested too deep: 1001 of at most 1000 levels"))


def test_names_of_python_2_are_those_of_pythons_pickles() -> None:
    value = [int, str, range(2, 5), slice(1, None), bytearray(b"a"), b"", {1}, frozenset({2}), 1j]
    for protocol in range(6):
        back = load(file_with(pickle.dumps(value, protocol)))
        assert back == value
        assert list(map(type, back)) == list(map(type, value))


def test_honest_depth_is_loaded() -> None:
    value: Any = ()
    for _ in range(400):
        value = (value,)
    assert load(file_with(pickle.dumps({value: 1}))) == {value: 1}


@pytest.mark.parametrize(
    "stream",
    [b"}N" + b"2\x86" * 100 + b"Ns", b"}N" + b"2\x86" * 18 + b"q\x000" + b"h\x00Ns" * 1000],
    ids=["doubled", "again and again"],
)
def test_a_hash_that_never_ends_is_refused(stream: bytes) -> None:
    assert survives(refuses(stream, "hashes its objects too often"))


def size_bombs() -> bytes:
    items = b"(" + b"K\x01" * 100_000 + b"tq\0" + b"ctorch\nSize\nq\x010"
    return items + b"]" + b"h\x01h\0\x85Ra" * 10_000


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (size_bombs(), "not the sizes of a tensor"),
        (
            b"}(" + b"K\x01" * 50_000 + b"tNsq\0" + b"ccollections\nOrderedDict\nq\x010"
            b"h\x01h\0\x85R0" * 10_000 + b".",
            "hashes its objects too often",
        ),
        (
            b"c__builtin__\nrange\nK\0" + b"\x8b\xa0\x86\x01\0" + b"\x01" * 100_000 + b"\x86R",
            "an int that is too large",
        ),
        (
            b"ccollections\nOrderedDict\n)R}X\4\0\0\0keysc__builtin__\nlist\nsb",
            "hides a method of an OrderedDict",
        ),
    ],
    ids=["sizes", "dicts of a dict", "range", "method"],
)
def test_costs_that_grow_faster_than_the_file_are_refused(stream: bytes, message: str) -> None:
    assert survives(refuses(stream, message))


def test_deep_keys_that_are_equal_are_an_error() -> None:
    deep = b"N" + b"\x85" * 998
    assert survives(refuses(b"}" + deep + b"Ns" + deep + b"Ns", "damaged|RecursionError"))


def test_nested_classes_can_be_trusted() -> None:
    for trusted in (Outer.Inner, (Outer.Inner, f"{HERE}.Outer.Inner")):
        with safe_globals([trusted]):
            for protocol in (4, 5):  # earlier ones call getattr for it
                assert type(load(file_with(pickle.dumps(Outer.Inner(), protocol)))) is Outer.Inner


def test_arguments_of_trusted_functions_are_bounded() -> None:
    doubled = f"c{HERE}\nColor\n".encode() + b"]" + b"q\x000(h\0h\0l" * 60 + b"\x85R"
    with safe_globals([Color]):  # its error would show 2^60 elements
        assert survives(refuses(doubled, "too many elements or levels"))


@pytest.mark.parametrize("kind", [defaultdict, deque])
def test_what_python_frees_by_recursion_is_refused(kind: Any) -> None:
    make = b"ccollections\n" + kind.__name__.encode() + b"\nq\x00)R"
    again = b"h\x00)R"
    put = (
        (lambda value: b"N" + value + b"s") if kind is defaultdict else (lambda value: value + b"a")
    )
    inside_out = make + (b"q\x010" + again + put(b"h\x01")) * 100_000
    outside_in = make + b"q\x01" + (b"h\x01" + put(again + b"q\x01") + b"0") * 100_000
    assert survives(refuses(inside_out, "nested too deep"))
    assert survives(refuses(outside_in, "is filled with another one"))


def test_defaultdicts_and_deques_in_one_another_are_loaded() -> None:
    value = defaultdict(int, {1: defaultdict(list, {2: deque([deque([1]), defaultdict(dict)])})})
    for protocol in range(2, 6):
        assert load(file_with(pickle.dumps(value, protocol))) == value


# ------------------------------------------------------------------ memory
@pytest.mark.parametrize(
    "call",
    [
        b"c__builtin__\nbytearray\n" + number(1 << 40) + b"\x85R",
        b"c__builtin__\nbytes\n" + number(1 << 40) + b"\x85R",
        b"c__builtin__\nlist\nc__builtin__\nrange\n" + number(1 << 40) + b"\x85R\x85R",
        b"c__builtin__\nset\nc__builtin__\nrange\n" + number(1 << 40) + b"\x85R\x85R",
        b"c__builtin__\nint\n" + word("9" * 1_000_000) + b"\x85R",
        b"c__builtin__\nstr\n\x8b" + struct.pack("<I", 1 << 20) + b"\x01" * (1 << 20) + b"\x85R",
        b"I" + b"9" * 1_000_000 + b"\n",
        b"ccollections\ndeque\n]" + b"c__builtin__\nrange\nK\x09\x85R\x86R",
        b"ccollections\ndefaultdict\nctorch._utils\n_rebuild_tensor_v2\n\x85R",
        b"c_codecs\nencode\n" + word("x") + word("zlib") + b"\x86R",
        b"\x96" + struct.pack("<Q", 1 << 40),
        b"\x8e" + struct.pack("<Q", 1 << 40),
        b"\x8d" + struct.pack("<Q", (1 << 64) - 1),
        b"\x95" + struct.pack("<Q", 1 << 40),
        b"]q\x00(" + b"N" * 10_000 + b"e" + b"c__builtin__\nlist\nh\x00\x85R" * 2000,
        b"\x82\x01",
        b"(c__builtin__\nlist\no",
        b"Pstorage\n",
    ],
)  # fmt: skip
def test_no_size_is_taken_from_the_file(call: bytes) -> None:
    stream = b"\x80\x02" + call + b"."
    tracemalloc.start()
    try:
        with pytest.raises(pickle.UnpicklingError):
            load(file_with(stream))
        assert tracemalloc.get_traced_memory()[1] < 600 * len(stream) + (8 << 20)
    finally:
        tracemalloc.stop()


def test_memory_is_a_multiple_of_the_file() -> None:
    stream = b"\x80\x02(" + b"\x8f" * 50_000 + b"l."
    file = file_with(stream)
    tracemalloc.start()
    try:
        assert len(load(file)) == 50_000
        assert tracemalloc.get_traced_memory()[1] < 600 * len(stream)
    finally:
        tracemalloc.stop()


def test_records_that_share_their_bytes_are_refused() -> None:
    """A directory may name the same megabyte a thousand times."""
    keys = [
        b"(" + word("storage") + b"ctorch\nByteStorage\n" + word(str(n)) + word("cpu") + b"K\x01tQ0"
        for n in range(3)
    ]
    file = file_with(b"\x80\x02" + b"".join(keys) + b"N.", _0=bytes(1 << 20), _1=b"1", _2=b"2")
    assert load(file) is None
    data = bytearray(file.getvalue())
    # The entries of 1 and 2 in the directory get the sizes, checksum and position of 0.
    entry = data.index(b"PK\1\2", data.rindex(b"archive/data/0") - 60)
    for name in (b"archive/data/1", b"archive/data/2"):
        other = data.rindex(name) - 46
        data[other + 16 : other + 28] = data[entry + 16 : entry + 28]
        data[other + 42 : other + 46] = data[entry + 42 : entry + 46]
    with pytest.raises(RuntimeError, match=r"record 'data/1' is damaged.*of another record"):
        load(io.BytesIO(data))


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["data.pkl", "data/0", "byteorder"])
def test_a_compressed_record_is_refused(name: str, kind: int) -> None:
    """A few kilobytes would become gigabytes, and nobody writes one."""
    key = b"(" + word("storage") + b"ctorch\nByteStorage\n" + word("0") + word("cpu") + b"K\x01tQ"
    records = {"data.pkl": b"\x80\x02" + key + b".", "data/0": bytes(1000), "byteorder": b"little"}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for record, data in records.items():
            archive.writestr(f"x/{record}", data, kind if record == name else zipfile.ZIP_STORED)
    with pytest.raises(RuntimeError, match=rf"'{name}' is damaged.*compressed \(type {kind}, "):
        load(file)
    data = bytearray(file.getvalue())
    for entry in (data.index(f"x/{name}".encode()) - 22, data.rindex(f"x/{name}".encode()) - 36):
        data[entry : entry + 2] = struct.pack("<H", zipfile.ZIP_STORED)  # but the sizes differ
    with pytest.raises(RuntimeError, match=r"cannot be|CRC-32"):
        load(io.BytesIO(data))


# ------------------------------------------------------------------ documented errors
def test_any_cut_and_any_flipped_byte_raises_what_is_documented() -> None:
    file = io.BytesIO()
    state = OrderedDict(w=st.ones(2, 3), b=st.tensor([True]), n=np.float32(1), a=np.arange(2))
    save({"state": state, "more": [deque([1]), Counter("a"), {1, 2}, (1.5, None)]}, file)
    data = file.getvalue()
    inputs = [data[:n] for n in range(0, len(data), 7)]
    inputs += [data[:n] + bytes([data[n] ^ 0x41]) + data[n + 1 :] for n in range(0, len(data), 3)]
    texts = []
    for item in inputs:
        try:
            load(io.BytesIO(item), check_crc=False)
        except (RuntimeError, pickle.UnpicklingError) as error:
            texts.append(str(error))
    assert all(text.startswith("load: ") for text in texts)
    assert len(texts) > len(inputs) // 4


def test_the_cause_of_damage_is_chained() -> None:
    with pytest.raises(pickle.UnpicklingError, match="damaged at byte 4 of 6: KeyError: 7") as info:
        load(file_with(b"\x80\x02h\x07Q."))
    assert isinstance(info.value.__cause__, KeyError)


def test_forged_pickles_load_or_raise_what_is_documented() -> None:
    for seed in range(3):
        pickles.forge(seed, 300)


# ------------------------------------------------------------------ checksums
def flipped(path: Path, content: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(content)] ^= 1
    path.write_bytes(data)


def test_a_flipped_byte_of_a_tensor_is_found(tmp_path: Path) -> None:
    x = st.from_numpy(np.arange(100_000, dtype=np.int32))
    save({"x": x}, tmp_path / "x.pt")
    flipped(tmp_path / "x.pt", x.numpy()[50_000:50_004].tobytes())
    with pytest.raises(
        RuntimeError, match=r"'data/0' is damaged: .*x\.pt: its CRC-32 is .*check_crc"
    ):
        load(tmp_path / "x.pt")
    with pytest.raises(RuntimeError, match="CRC-32"):
        load(tmp_path / "x.pt", weights_only=False)
    assert load(tmp_path / "x.pt", check_crc=False)["x"][50_000] == 50_001
    assert load(tmp_path / "x.pt", mmap=True)["x"][50_000] == 50_001  # not looked at


def test_a_flipped_byte_of_the_pickle_is_found_in_any_case(tmp_path: Path) -> None:
    save({"name": "digits"}, tmp_path / "x.pt")
    flipped(tmp_path / "x.pt", b"digits")
    for options in ({}, {"mmap": True}):
        with pytest.raises(RuntimeError, match=r"'data\.pkl' is damaged"):
            load(tmp_path / "x.pt", **options)
    assert load(tmp_path / "x.pt", check_crc=False) == {"name": "eigits"}


@pytest.mark.torch
def test_files_that_pytorch_wrote_without_checksums(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "x.pt"
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"x": torch.arange(1000)}, path)
    finally:
        torch.serialization.set_crc32_options(True)
    assert load(path)["x"].tolist() == list(range(1000))
    torch.save({"x": torch.arange(1000)}, path)
    assert load(path)["x"].tolist() == list(range(1000))


def test_a_record_between_elements_is_not_mapped(tmp_path: Path) -> None:
    key = b"(" + word("storage") + b"ctorch\nDoubleStorage\n" + word("0") + word("cpu") + b"K\x04tQ"
    stream = (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + key + b"K\0K\x04\x85K\x01\x85\x89}tR."
    )
    for n in range(3):
        file = file_with(stream + b" " * n, _0=np.arange(4.0).tobytes())
        (tmp_path / "x.pt").write_bytes(file.getvalue())
        x = load(tmp_path / "x.pt", mmap=True)
        assert x.numpy().flags.aligned
        assert x.tolist() == [0, 1, 2, 3]
