"""The codec: what goes in comes out, sharing included, and no bytes whatever make it crash."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import shmtensor as st
from shmtensor import native
from shmtensor.multiprocessing import reduction

# On a busy machine an example may take any time.
CALM = settings(suppress_health_check=[HealthCheck.too_slow])

PLAIN = (
    some.none()
    | some.booleans()
    | some.integers(-(1 << 63), (1 << 63) - 1)
    | some.floats(allow_nan=False)
    | some.complex_numbers(allow_nan=False)
    | some.text(some.characters(exclude_categories=["Cs"]))
    | some.binary()
)
KEYS = some.none() | some.booleans() | some.integers(-1000, 1000) | some.text("abc") | some.binary()
NESTED = some.recursive(
    PLAIN,
    lambda inner: (
        some.lists(inner)
        | some.lists(inner).map(tuple)
        | some.dictionaries(KEYS | some.tuples(KEYS, KEYS), inner)
    ),
)


def through(obj: Any) -> Any:
    """`obj` as another process would get it, by the codec alone."""
    message = native.encode(obj)
    assert message is not None, "left to the pickler"
    data, carriers = message
    handles = [native.export(carrier) for carrier in carriers]
    return native.decode(data, [native.receive(handle, True) for handle in handles])


def is_equal(x: Any, y: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(x) is not type(y):
        return False
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and all(map(is_equal, x, y))
    if isinstance(x, dict):
        return is_equal(list(x.items()), list(y.items()))
    if isinstance(x, float):
        return x == y and math.copysign(1, x) == math.copysign(1, y)
    return bool(x == y)


@CALM
@given(NESTED)
def test_what_goes_in_comes_out(obj: Any) -> None:
    message = reduction.dumps(obj)
    assert is_equal(reduction.loads(message[0], []), obj)
    if (written := native.encode(obj)) is not None:
        assert is_equal(native.decode(written[0], []), obj)


@CALM
@given(
    some.lists(some.integers(1, 4), max_size=4),
    some.sampled_from(["?", "i1", "i8", "u2", "f2", "f4", "f8", "c16"]),
    some.randoms(),
)
def test_views_keep_their_place(sizes: list[int], dtype: str, rng: random.Random) -> None:
    with st.memory.shared_numpy():
        full = np.zeros([2 * n for n in sizes], dtype)
    full[...] = np.arange(full.size).reshape(full.shape) % 2
    steps = tuple(
        slice(None, None, rng.choice([1, 2, -1])) if rng.random() < 0.8 else 0 for _ in sizes
    )
    view = full[steps + (...,)].transpose()
    for message in (view, st.from_numpy(view)):
        result = through(message)
        assert type(result) is type(message)
        array = np.asarray(result)
        assert array.dtype == view.dtype
        assert array.shape == view.shape
        for n, ours, theirs in zip(view.shape, array.strides, view.strides, strict=True):
            assert ours == theirs or n < 2
        assert array.ctypes.data == view.ctypes.data


def test_a_tensor_arrives_as_the_same_memory() -> None:
    x = st.zeros(3, 4)
    result = through({"x": x, "rows": [x[0], x[1:]], "t": (x.t(), 7)})
    result["t"][0][2, 1] = 5.0
    assert x[1, 2] == 5.0
    assert result["rows"][1][0, 2] == 5.0
    assert len(native.encode([x, x[1:], x.t()])[1]) == 1, "one block, named once"
    many = [st.full((2,), float(i)) for i in range(300)]
    assert [float(y[0]) for y in through(many)] == [float(i) for i in range(300)]


def test_what_has_no_elements_names_no_block() -> None:
    """Where an empty view begins another block may begin, which is not its own."""
    x = st.zeros(4, 3)
    for empty in (st.zeros(0, 3), x[4:], x[:, 3:].t(), st.zeros(0, dtype=st.int8)):
        data, blocks = native.encode(empty)
        assert blocks == []
        result = native.decode(data, [])
        assert (result.shape, result.dtype) == (empty.shape, empty.dtype)
        assert result.is_shared()
        queue = st.Queue(1)
        queue.put({"x": empty, "set": {1}})  # the pickler's way
        assert queue.get()["x"].shape == empty.shape
        queue.close()
    assert len(reduction.pickle_dumps({"x": x[4:], "set": {1}})[1]) == 1
    data, _ = native.encode(st.zeros(0, 3))
    for at in (2, -16):  # another block, another size
        forged = bytearray(data)
        forged[at] = 1
        with pytest.raises(ValueError, match="malformed"):
            native.decode(bytes(forged), [])


def test_a_read_only_array_stays_so() -> None:
    with st.memory.shared_numpy():
        array = np.zeros(3)
    array.flags.writeable = False
    assert not through(array).flags.writeable


def cyclic() -> list[Any]:
    out: list[Any] = []
    out.append(out)
    return out


def deep(n: int) -> list[Any]:
    out: list[Any] = []
    for _ in range(n):
        out = [out]
    return out


class Pair(tuple):
    """A subclass, which is not its base."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: 1 << 63,
        lambda: "\ud800",
        lambda: {1, 2},
        lambda: Pair((1, 2)),
        lambda: np.float32(1),
        lambda: np.zeros(3),
        lambda: st.from_numpy(np.zeros(3)),
        lambda: st.nn.Parameter(st.zeros(2)),
        lambda: st.zeros(2, requires_grad=True),
        lambda: print,
        cyclic,
        lambda: deep(64),
        lambda: [x := [1], x],
        lambda: [x := st.zeros(2), x],
        lambda: ["".join(["x"] * 300)] * 2,
    ],
)
def test_what_does_not_fit_is_left_to_the_pickler(make: Any) -> None:
    obj = make()
    assert native.encode(obj) is None
    assert native.encode([1, obj]) is None


def test_what_occurs_twice_arrives_as_one() -> None:
    queue = st.Queue(4)
    x, items = st.zeros(2), [1]
    queue.put([x, x, items, items])
    result = queue.get()
    assert result[0] is result[1]
    assert result[2] is result[3]
    queue.put(cyclic())
    result = queue.get()
    assert result[0] is result
    queue.put(deep(100))
    result, n = queue.get(), 0
    while result:
        result, n = result[0], n + 1
    assert n == 100
    queue.close()


def test_a_tower_of_shared_tuples_is_written_once() -> None:
    tower: tuple[Any, ...] = (1, 2)
    for _ in range(60):
        tower = (tower, tower)
    assert native.encode(tower) is None
    assert len(reduction.dumps(tower)[0]) < 10_000


@CALM
@given(NESTED, some.data())
def test_malformed_bytes_give_an_error(obj: Any, data: Any) -> None:
    message = native.encode(obj)
    if message is None:
        return
    good = message[0]
    n = data.draw(some.integers(0, len(good) - 1))
    with pytest.raises(ValueError, match="malformed"):
        native.decode(good[:n], [])
    with pytest.raises(ValueError, match="something follows"):
        native.decode(good + b"N", [])


@CALM
@given(some.binary())
def test_any_bytes_give_an_object_or_an_error(tail: bytes) -> None:
    block = native.allocate(256)
    for data in (tail, b"\x01" + tail):
        try:
            native.decode(data, [block])
        except ValueError:
            continue


def test_bytes_changed_at_random_give_an_object_or_an_error() -> None:
    """As a hostile writer would send them: nothing outside of the block can be reached."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    x = st.zeros(4, 5)
    data, carriers = native.encode({"x": [x, x.t(), x[1:, ::2]], "n": (1, 2.0, "text", b"bytes")})
    block = native.receive(native.export(carriers[0]), True)
    low, high = block.address, block.address + block.nbytes
    refused = 0
    for _ in range(20_000):
        corrupted = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            corrupted[rng.randrange(1, len(corrupted))] = rng.choice(
                [0, 1, 127, 255, rng.randrange(256)]
            )
        try:
            result = native.decode(corrupted, [block])
        except ValueError:
            refused += 1
            continue
        for tensor in result.get("x", []) if isinstance(result, dict) else []:
            if isinstance(tensor, st.Tensor) and tensor.numel():
                first, last = np.lib.array_utils.byte_bounds(tensor.array)
                assert low <= first
                assert last <= high
    assert refused > 1000


def test_decode_asks_for_blocks() -> None:
    with pytest.raises(TypeError, match="not a Block"):
        native.decode(b"\x01N", [b"x"])
