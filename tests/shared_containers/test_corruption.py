"""Whatever the bytes are: an error or some value, never a crash."""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import shmtensor as st
from shmtensor import native
from shmtensor.tensor import foreign_arrays

XS: list[Any] = [
    "abc", "é", b"bytes", 5, 300, 70_000, 2**40, 2**90, -1, 1.5, 2j, None, True, [1, (2, "x")],
    {"k": [3.0]}, np.arange(6.0).reshape(2, 3), st.ones(3), np.float32(2), np.ones((4, 4)).T,
    np.array(["text"]), range(4),
]  # fmt: skip
HEADER = 64
GAP = np.dtype({"names": ["a", "b"], "formats": ["i4", "f8"], "offsets": [0, 8], "itemsize": 16})
LOADS = pickle.loads


def bytes_of(container: Any) -> np.ndarray[Any, Any]:
    (block,) = container._blocks
    return np.frombuffer(block, np.uint8).copy()


LIST = bytes_of(st.SharedList(XS))
DICT = bytes_of(st.SharedDict((f"{i}", x) for i, x in enumerate(XS)))


@pytest.fixture(autouse=True, scope="module")
def _memo_within_reason() -> Iterator[None]:
    """Python's unpickler fills 16 bytes times any number that a PUT names: 64 GB by one byte. And
    no byte lets this process import another library.
    """

    def loads(data: bytes) -> Any:
        for code, argument, _ in pickletools.genops(data):
            if code.name.endswith("PUT") and int(argument or 0) > len(data):
                raise pickle.UnpicklingError(f"{code.name} {argument}")
        return LOADS(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pickle, "loads", loads)
        patch.setattr(foreign_arrays, "as_library", lambda array, library: array)
        yield


def read_everything(cls: Any, data: Any) -> None:
    """Only exceptions; arrays are touched, for they must lie in the block."""
    try:
        container = cls(data)
    except (ValueError, TypeError):
        return
    for i in range(min(len(container), 64)):
        try:
            value = container[i] if cls is native.PackedList else container.get(f"{i}")
            repr(value)
            if isinstance(value, np.ndarray):
                value.copy()
        except MemoryError:
            pass
        except Exception:  # what a broken pickle raises is anything
            continue


@settings(max_examples=400)
@given(some.data())
def test_changed_bytes_never_crash(data: Any) -> None:
    for cls, good in ((native.PackedList, LIST), (native.PackedDict, DICT)):
        bad = good.copy()
        for _ in range(data.draw(some.integers(1, 6))):
            bad[data.draw(some.integers(0, len(bad) - 1))] = data.draw(some.integers(0, 255))
        read_everything(cls, [bad])


@given(some.integers(0, len(LIST) - 1))
def test_cut_short_never_crashes(n: int) -> None:
    read_everything(native.PackedList, [LIST[:n].copy()])
    read_everything(native.PackedDict, [DICT[:n].copy()])


@given(some.binary(max_size=300))
def test_rubbish_after_a_header_never_crashes(rubbish: bytes) -> None:
    bad = np.frombuffer(LIST[:HEADER].tobytes() + rubbish, np.uint8)
    read_everything(native.PackedList, [bad])


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="packed data: corrupt: no header"):
        native.PackedList([b"nothing"])
    with pytest.raises(ValueError, match="packed data: corrupt: it is no dictionary"):
        native.PackedDict([LIST])
    with pytest.raises(ValueError, match="packed data: corrupt: no header"):
        native.PackedList([])
    with pytest.raises(ValueError, match="SharedList: the view leaves the list: start 5"):
        native.PackedList([bytes_of(st.SharedList([1, 2]))], 5, 1, 1)
    bad = bytes_of(st.SharedList(["abc"]))
    bad[HEADER] = 99  # the tag
    with pytest.raises(
        ValueError, match="packed data: corrupt: no such kind of element: byte 1 of"
    ):
        native.PackedList([bad])[0]


def test_a_pickle_that_asks_for_more_than_there_is_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pickle, "loads", LOADS)
    bad = bytes_of(st.SharedList([range(4)]))
    data = bad.tobytes()
    bad[data.index(pickle.BININT1 + b"\0" + pickle.BININT1 + b"\4")] = pickle.BINBYTES8[0]
    with pytest.raises(MemoryError):  # the pickle's next 8 bytes are read as a length
        native.PackedList([bad])[0]


@pytest.mark.parametrize(
    ("array", "good", "bad"),
    [
        (np.array(["text"]), b"<U4", b"<U)"),
        (np.array(["text"]), b"<U4", b"|O4"),  # objects
        (np.array(["text"]), b"<U4", b"<U9"),  # more bytes than there are
        (np.zeros(2, GAP), b"[0, 8]", b"[0, 9]"),  # bytes 9 to 17 of 16
        (np.zeros(2, GAP), b"[0, 8]", b"[0,-8]"),
        (np.zeros(2, GAP), b"<f8", b"|O8"),
        (np.zeros(2, GAP), b"<f8", b"<U8"),  # 32 bytes
        (np.zeros(2, [("a", "i4", 3)]), b"(3,)", b"(4,)"),
        (np.zeros(2, [("a", "i4", 3)]), b"(3,)", b"(-1)"),
    ],
)
def test_a_dtype_whose_items_leave_their_bytes_is_refused(
    array: Any, good: bytes, bad: bytes
) -> None:
    data = bytes_of(st.SharedList([array]))
    assert repr(native.PackedList([data])[0]) == repr(array)
    (at,) = (i for i in range(len(data)) if data[i : i + len(good)].tobytes() == good)
    data[at : at + len(good)] = np.frombuffer(bad, np.uint8)
    with pytest.raises(ValueError, match="packed data: corrupt: an array"):
        native.PackedList([data])[0]


def test_a_table_without_an_end_ends() -> None:
    bad = bytes_of(st.SharedDict({"a": 1}))
    bad[-64:] = 255
    with pytest.raises((KeyError, ValueError)):
        native.PackedDict([bad])["b"]
