"""Pickles for `load`: programs by a grammar of what pickles say, and mutants of real ones.

Each input loads, or raises pickle.UnpicklingError or RuntimeError. None changes what it has not
constructed: the dtypes, the tables of names, and the classes and objects of the user below.
"""

from __future__ import annotations

import enum
import io
import pickle
import random
import struct
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import dtypes
from shmtensor.serialization import constructors, load, safe_globals, save
from shmtensor.serialization.load import TORCH_NAMES

REGISTRY: list[Any] = []
SETTINGS: dict[Any, Any] = {"a": 1}


class Point:
    """A class that the user trusts."""

    size = 3

    def __init__(self, *args: Any) -> None:
        self.args = args


class Registered(list[Any]):
    """One of Python's containers, with a state of its own."""

    def __setstate__(self, state: Any) -> None:
        self.state = state


class Slots:
    __slots__ = ("x",)


class Single:
    """A class with one instance."""

    instance: Any = None

    def __new__(cls, *args: Any) -> Single:
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance  # type: ignore[no-any-return]


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def registry(*args: Any) -> list[Any]:
    """A function that hands out an object of the process."""
    return REGISTRY


def settings(*args: Any) -> dict[Any, Any]:
    return SETTINGS


Single()
TRUSTED: list[Any] = [
    Point, Registered, Slots, Single, Color, registry, settings,
    (np.ndarray, "alias.ndarray"), (np.dtype, "alias.dtype"), (REGISTRY, "alias.REGISTRY"),
]  # fmt: skip
NAMES: list[tuple[str, str]] = [
    *constructors.NAMES,
    *TORCH_NAMES,
    *((__name__, item.__qualname__) for item in TRUSTED if not isinstance(item, tuple)),
    ("alias", "ndarray"),
    ("alias", "dtype"),
    ("alias", "REGISTRY"),
    ("builtins", "eval"),
    ("os", "system"),
]
PROTOCOLS = ["__array_interface__", "__array_struct__", "__array__", "__cuda_array_interface__",
             "__dlpack__", "__buffer__"]  # fmt: skip
WORDS = [
    "", "x", "latin1", "utf-8", "utf-7", "rot13", "|", "<", ">", "=", "f4", "f8", "i1", "u1", "b1",
    "O", "V8", "O8", "S0", "bfloat16", "storage", "cpu", "cuda:0", "0", "1", "2", "../0", "C", "F",
    "__class__", "__dict__", "__setstate__", "__reduce__", "size", "args", "instance", "9" * 5000,
    "_metadata", "keys", "\x1b[2J", *PROTOCOLS,
]  # fmt: skip
NUMBERS = [0, 1, 2, 3, 4, -1, 8, 24, 255, 1 << 16, (1 << 31) - 1, -(1 << 31), 1 << 62, 1 << 63,
           1 << 87, -(1 << 70)]  # fmt: skip
STORAGES = {"0": np.arange(6, dtype=np.float32).tobytes(), "1": bytes(range(64))}


class Grammar:
    """Writes expressions: each `write` method leaves one object on the unpickler's stack."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.out = bytearray()
        self.memo = 0
        self.left = 0

    def program(self) -> bytes:
        self.out = bytearray(b"\x80" + bytes([self.rng.choice([2, 2, 4, 5])]))
        self.memo = 0
        self.left = self.rng.choice([3, 10, 40, 100])  # expressions
        self.any()
        while self.rng.random() < 0.3:
            self.out += self.rng.choice([b"0", b"2", b"1", b"(", b"a", b"s", b"b", b"R", b"\x81"])
            self.any()
        return bytes(self.out) + b"."

    def any(self) -> None:
        self.left -= 1
        if self.left <= 0:
            self.atom()
            return
        choice: Callable[[], None] = self.rng.choices(EXPRESSIONS, WEIGHTS)[0].__get__(self)
        choice()
        if self.rng.random() < 0.25:
            self.out += b"q" + bytes([self.memo % 256])
            self.memo += 1

    def atom(self) -> None:
        rng = self.rng
        kind = rng.randrange(9)
        if kind < 3:
            self.number(rng.choice(NUMBERS))
        elif kind < 6:
            self.text(rng.choice(WORDS))
        elif kind == 6:
            data = rng.randbytes(rng.choice([0, 1, 2, 4, 8, 24]))
            self.out += b"C" + bytes([len(data)]) + data
        elif kind == 7:
            self.out += rng.choice([b"N", b"\x88", b"\x89", b"}", b"]", b")", b"\x8f"])
        else:
            self.out += b"G" + struct.pack(">d", rng.choice([0.0, -1.5, 1e308, float("nan")]))

    def number(self, value: int) -> None:
        if 0 <= value < 256:
            self.out += b"K" + bytes([value])
        else:
            data = value.to_bytes(12, "little", signed=True)
            self.out += b"\x8a\x0c" + data

    def text(self, value: str) -> None:
        data = value.encode()
        self.out += b"X" + struct.pack("<I", len(data)) + data

    def name(self, *key: str) -> None:
        module, name = key or self.rng.choice(NAMES)
        self.out += f"c{module}\n{name}\n".encode()

    def get(self) -> None:
        index = self.rng.randrange(self.memo + 1) if self.memo else 0
        self.out += b"h" + bytes([index % 256])

    def each(self, n: int) -> None:
        for _ in range(n):
            self.any()

    def tuple(self) -> None:
        n = self.rng.randrange(4)
        self.out += b"("
        self.each(n)
        self.out += b"t"

    def deep_tuple(self) -> None:
        self.any()
        step, n = self.rng.choice([(b"\x85", 3000), (b"2\x86", 40), (b"2\x86", 400), (b"\x85", 3)])
        self.out += step * n

    def again(self) -> None:
        """The same object, or a call with the same arguments, many times: as keys or elements."""
        rng = self.rng
        kind = rng.randrange(3)
        if kind == 0:
            self.name()
            self.out += b"q\xfe0"
            self.tuple()
            expression, item = b"h\xfeh\xffR", b"h\xfeh\xffR"
        else:
            rng.choice([self.any, self.deep_tuple, self.colliding, self.large])()
            expression, item = b"h\xff", b"h\xffN"
        self.out += b"q\xff0"
        n = rng.choice([1, 10, 1000])
        self.out += rng.choice([
            b"](" + expression * n + b"e", b"}(" + item * n * (kind > 0) + b"u",
            b"}" + b"h\xffNs" * n * (kind > 0), b"\x8f(" + expression * n + b"\x90",
            b"(" + expression * n + b"\x91",
        ])  # fmt: skip

    def large(self) -> None:
        n = self.rng.choice([300, 5000])
        self.out += b"(" + b"\x8b" + struct.pack("<i", n) + b"\x01" * n + b"K\x01t"

    def colliding(self) -> None:
        """A frozenset of numbers of one hash, or that begin at one slot."""
        step = self.rng.choice([(1 << 61) - 1, 1 << 40, 3])
        self.out += b"("
        for i in range(self.rng.choice([3, 300, 2000])):
            self.number(i * step)
        self.out += b"\x91"

    def list(self) -> None:
        self.container(b"]", b"e", 1)

    def dict(self) -> None:
        self.container(b"}", b"u", 2)

    def set(self) -> None:
        self.container(b"\x8f", b"\x90", 1)

    def frozenset(self) -> None:
        self.out += b"("
        self.each(self.rng.randrange(3))
        self.out += b"\x91"

    def container(self, empty: bytes, fill: bytes, width: int) -> None:
        self.out += empty
        if self.rng.random() < 0.8:
            self.out += b"("
            self.each(width * self.rng.randrange(3))
            self.out += fill

    def call(self) -> None:
        """A constructor with arguments."""
        self.name()
        self.tuple()
        self.out += self.rng.choice([b"R", b"R", b"R", b"\x81"])

    def change(self) -> None:
        """Any object as the target of an opcode that changes one."""
        rng = self.rng
        rng.choice([self.any, self.name, self.call, self.get])()
        kind = rng.randrange(6)
        if kind == 0:
            self.state()
            self.out += b"b"
        elif kind == 1:
            self.any()
            self.out += b"a"
        elif kind == 2:
            self.each(2)
            self.out += b"s"
        else:
            self.out += b"("
            self.each(2)
            self.out += (b"e", b"u", b"\x90")[kind - 3]

    def state(self) -> None:
        rng = self.rng
        if rng.random() < 0.3:
            self.any()
            return
        self.out += b"}("
        for _ in range(rng.randrange(1, 3)):
            self.text(rng.choice(WORDS))
            self.any()
        self.out += b"u"
        if rng.random() < 0.3:
            self.out += b"N" + rng.choice([b"\x86", b"2\x87"])

    def attributes(self) -> None:
        """An instance with attributes, among them a protocol that reads memory at an address."""
        rng = self.rng
        module, name = rng.choice([("collections", "OrderedDict"), (__name__, "Point")])
        self.name(module, name)
        self.out += b")" + rng.choice([b"R", b"\x81"]) + b"}("
        self.text(rng.choice([*PROTOCOLS, rng.choice(WORDS)]))
        self.out += b"}("
        values = {"shape": b"K\x08\x85", "typestr": b"U\x03<f4", "version": b"K\x03"}
        for key, value in values.items():
            self.text(key)
            self.out += value
        self.text("data")
        self.number(rng.choice(NUMBERS))
        self.out += b"\x89\x86uu" + rng.choice([b"", b"", b"N\x86", b"N2\x87"]) + b"b"

    def dtype(self) -> None:
        """As NumPy writes it, or with something else in one place."""
        rng = self.rng
        if rng.random() < 0.2:
            self.name("torch", rng.choice(["bfloat16", "float32", "bool"]))
        else:
            self.name("numpy", "dtype")
            self.text(rng.choice(WORDS[10:20]))
            self.out += b"\x89\x88\x87R"
        if rng.random() < 0.7:
            order = rng.choice("|<=>")
            fields = [b"K\x03", f"X\x01\0\0\0{order}".encode(), b"N", b"N", b"N",
                      b"J\xff\xff\xff\xff", b"J\xff\xff\xff\xff", b"K\0"]  # fmt: skip
            self.fields(fields)
            self.out += b"b"

    def array(self) -> None:
        self.name(rng_module(self.rng), "_reconstruct")
        self.name("numpy", "ndarray")
        self.out += b"K\0\x85C\x01b\x87R"
        if self.rng.random() < 0.2:
            self.out += b"q" + bytes([self.memo % 256])
            self.memo += 1
        self.out += b"("
        self.out += b"K\x01"
        self.sizes()
        self.rng.choice([self.dtype, self.dtype, self.dtype, self.any])()
        self.out += self.rng.choice([b"\x88", b"\x89"])
        data = self.rng.randbytes(self.rng.choice([0, 1, 8, 24, 24, 48]))
        self.out += b"C" + bytes([len(data)]) + data + b"tb"

    def sizes(self) -> None:
        self.out += b"("
        for _ in range(self.rng.choice([0, 1, 1, 2, 3, 40])):
            self.number(self.rng.choice([1, 1, 2, 3, 6, self.rng.choice(NUMBERS)]))
        self.out += b"t"

    def tensor(self) -> None:
        rng = self.rng
        version = rng.choice(["_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"])
        self.name("torch._utils", version)
        self.out += b"("
        if version == "_rebuild_parameter":
            self.tensor() if self.left > 0 else self.any()
            self.left -= 1
            self.out += b"\x89}"
        else:
            self.storage()
            self.number(rng.choice([0, 0, 0, 1, rng.choice(NUMBERS)]))
            self.sizes()
            self.sizes()
            self.out += b"\x89}"
            if version == "_rebuild_tensor_v3":
                self.dtype()
        self.out += b"tR"

    def storage(self) -> None:
        rng = self.rng
        kinds = [b"ctorch\nFloatStorage\n", b"ctorch\nBoolStorage\n", b"ctorch\nBFloat16Storage\n",
                 b"ctorch.storage\nUntypedStorage\n"]  # fmt: skip
        key = rng.choice("0001129")
        self.fields([
            b"X\x07\0\0\0storage", rng.choice(kinds), b"X\x01\0\0\0" + key.encode(),
            b"X\x03\0\0\0cpu", b"K\x06",
        ])  # fmt: skip
        self.out += b"Q"

    def fields(self, parts: list[bytes]) -> None:
        """A tuple of these, at times with something else in one place."""
        other = self.rng.randrange(len(parts)) if self.rng.random() < 0.2 else -1
        self.out += b"("
        for i, part in enumerate(parts):
            if i == other:
                self.any()
            else:
                self.out += part
        self.out += b"t"


def rng_module(rng: random.Random) -> str:
    return rng.choice(["numpy.core.multiarray", "numpy._core.multiarray"])


EXPRESSIONS = [
    Grammar.atom, Grammar.name, Grammar.get, Grammar.tuple, Grammar.deep_tuple, Grammar.list,
    Grammar.dict, Grammar.set, Grammar.frozenset, Grammar.call, Grammar.change, Grammar.dtype,
    Grammar.array, Grammar.tensor, Grammar.attributes, Grammar.again,
]  # fmt: skip
WEIGHTS = [4, 2, 3, 3, 0.2, 3, 3, 1, 1, 6, 6, 2, 3, 3, 1, 0.2]


def real_pickles() -> list[bytes]:
    """The pickle in a file of `save`, and what Python and NumPy write by themselves."""
    x = st.from_numpy(np.arange(6, dtype=np.float32))
    values: list[Any] = [
        {"x": x, "part": x[2:4], "p": st.nn.Parameter(x.clone()), "n": 3},
        OrderedDict(a=st.tensor([True, False]), b=st.zeros(2, dtype=st.bfloat16)),
        [np.arange(4), np.float32(1.5), np.array([[1.5, 2]]).T, np.zeros(3, ">i2")],
    ]
    plain: list[Any] = [
        {"d": deque([1, 2]), "c": Counter("aab"), "s": {1, 2}, "f": frozenset("ab"), "z": 2j},
        [defaultdict(list, a=[1]), bytearray(b"abc"), b"", slice(1, 2), range(3), 1 << 90],
        [Point(1), Registered([1, 2]), Color.RED, np.arange(300, dtype=np.int16)],
    ]
    pickles = [pickle.dumps(value, protocol) for value in plain for protocol in range(6)]
    for value in values:
        file = io.BytesIO()
        save(value, file)
        with zipfile.ZipFile(file) as archive:
            pickles.append(archive.read("archive/data.pkl"))
    return pickles


def mutant(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """`data` with a few bytes changed, removed or put in from `other`."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(out):
            out[at] = rng.choice([rng.randrange(256), rng.choice(OPCODES)])
        elif kind == 1:
            out[at:at] = bytes([rng.choice(OPCODES)])
        elif kind == 2:
            del out[at : at + rng.choice([1, 1, 2, 8])]
        else:
            start = rng.randrange(len(other))
            out[at : at + rng.choice([0, 4])] = other[start : start + rng.randrange(40)]
    return bytes(out)


OPCODES = [getattr(pickle, name)[0] for name in pickle.__all__ if name.isupper() and
           type(getattr(pickle, name)) is bytes]  # fmt: skip


def archive_of(data: bytes) -> io.BytesIO:
    """A file of tensors with this pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        for key, storage in STORAGES.items():
            archive.writestr(f"archive/data/{key}", storage)
    return file


def process_state() -> Any:
    """What no file may change."""
    all_dtypes = [*dtypes.ALL, *map(np.dtype, "OSUVMm")]
    classes = (Point, Registered, Slots, Single, Color, *map(type, all_dtypes))
    return (
        [(d.itemsize, d.alignment, d.str, d.fields, d.flags, d.kind) for d in all_dtypes],
        [sorted(vars(c)) for c in classes],
        list(REGISTRY), dict(SETTINGS), vars(Single.instance).copy(), Point.size,
        [vars(color).copy() for color in Color],
        len(constructors.NAMES), len(constructors.CONSTRUCTORS), len(TORCH_NAMES),
    )  # fmt: skip


def leaves(obj: Any, limit: int = 300) -> Iterator[Any]:
    """The objects in containers, up to `limit` of them."""
    todo, seen = [obj], set()
    while todo and len(seen) < limit:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, dict):
            todo += item.values()
        elif isinstance(item, (list, tuple, set, frozenset, deque)):
            todo += item


def read_all(obj: Any) -> None:
    """Reads every byte of the arrays and tensors in `obj`, and what NumPy looks up in others."""
    for item in leaves(obj):
        if isinstance(item, (dict, Point)):
            assert np.asarray(item).shape == ()
        array = item.array if isinstance(item, st.Tensor) else item
        if isinstance(array, np.ndarray) and array.size < 1 << 16:
            assert not array.dtype.hasobject
            array.tobytes()


def check_text(error: Exception, data: bytes) -> None:
    """Checks that a terminal obeys nothing in an error's text."""
    assert "\x1b" not in str(error), f"{error!a}: {data!r}"


def forge(seed: int, count: int) -> None:
    """Loads `count` pickles."""
    rng = random.Random(seed)
    grammar, real = Grammar(rng), real_pickles()
    before = process_state()
    loaded = 0
    with safe_globals(TRUSTED):
        for n in range(count):
            data = grammar.program() if rng.random() < 0.7 else rng.choice(real)
            if rng.random() < 0.4:
                data = mutant(rng, data, rng.choice(real))
            try:
                read_all(load(archive_of(data)))
                loaded += 1
            except (pickle.UnpicklingError, RuntimeError) as error:
                check_text(error, data)
            except BaseException:
                print(f"pickles: seed {seed}, input {n}: {data!r}")
                raise
            if n % 50 == 0:
                assert process_state() == before, f"seed {seed}: one of 50 inputs before {n}"
    assert process_state() == before
    assert loaded > count // 50, f"only {loaded} of {count} inputs load: the grammar is broken"
