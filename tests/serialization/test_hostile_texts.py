"""Texts of a file in messages: a terminal obeys none of them."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from shmtensor.errors import printable
from shmtensor.serialization import load, safe_globals, safetensors
from tests.pickle_programs import attempt, file_with, word

ESCAPE = "\x1b[2J\x1b]0;owned\x07"


class Slotted:
    __slots__ = ("x",)


def shown(error: Any) -> None:
    text = str(error.value)
    assert "\x1b" not in text, ascii(text)
    assert "x1b[2J" in text


def test_a_plain_text_is_shown_as_it_is() -> None:
    for text in ("a.weight", "ä b", "日本", ""):
        assert printable(text) == text
    for text in ("\x1b[0m", "a\nb", "a\u202eb", "\udc80", "a\x9bm", "\u2028"):
        assert printable(text) == repr(text)


@pytest.mark.parametrize(
    "stream",
    [
        b"c" + ESCAPE.encode() + b"\nx\n",
        b"cx\n" + ESCAPE.encode() + b"\n",
        word(ESCAPE) + word("x") + b"\x93",
        b"ctorch\nSize\n" + word(ESCAPE) + b"\x85R",
        b"cnumpy\ndtype\n" + word(ESCAPE) + b"\x85R",
        b"c_codecs\nencode\n" + word("x") + word(ESCAPE) + b"\x86R",
        b"c__builtin__\nint\n" + word(ESCAPE) + b"\x85R",
        b"I" + ESCAPE.encode() + b"\n",
        b"F" + ESCAPE.encode() + b"\n",
        b"ccollections\nOrderedDict\n)R}" + word(f"__{ESCAPE}__") + b"Nsb",
        b"("
        + word("storage")
        + b"ctorch\nFloatStorage\n"
        + word(ESCAPE)
        + word("cpu")
        + b"K\x01tQ",
        b"(" + word("storage") + word(ESCAPE) + word("0") + word("cpu") + b"K\x01tQ.",
        f"c{__name__}\nSlotted\n)\x81N}}".encode("latin1") + word(ESCAPE) + b"Ns\x86b",
    ],
)
def test_texts_of_a_pickle(stream: bytes) -> None:
    with safe_globals([Slotted]), pytest.raises((pickle.UnpicklingError, RuntimeError)) as error:
        attempt(stream, _0=bytes(4))
    assert "\x1b" not in str(error.value)


def test_the_device_of_a_storage() -> None:
    key = b"(" + word("storage") + b"ctorch\nFloatStorage\n" + word("0") + word(ESCAPE) + b"K\x01tQ"
    with pytest.raises(RuntimeError, match="no such device") as error:
        attempt(key, _0=bytes(4))
    shown(error)


def test_an_integer_that_python_does_not_show() -> None:
    large = b"\x8b" + struct.pack("<i", 20_000) + b"\x01" * 20_000
    for stream in (
        b"c__builtin__\nfloat\n" + large + b"\x85R",
        b"c__builtin__\nslice\n" + large + b"\x85R",
        b"ctorch\nSize\n(" + large + b"t\x85R",
        b"}]" + large + b"s",
    ):
        with pytest.raises(pickle.UnpicklingError):
            attempt(stream)


def test_names_in_an_archive() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{ESCAPE}/data.pkl", b"\x80\x02N.", zipfile.ZIP_DEFLATED)
    with pytest.raises(RuntimeError) as error:
        load(file)
    assert "\x1b" not in str(error.value)


def test_keys_of_a_safetensors_file(tmp_path: Path) -> None:
    for entry in ({"dtype": ESCAPE, "shape": [1], "data_offsets": [0, 4]}, {}, ESCAPE):
        header = json.dumps({ESCAPE: entry}).encode()
        with pytest.raises(RuntimeError) as error:
            safetensors.load(struct.pack("<Q", len(header)) + header + bytes(4))
        shown(error)
    with pytest.raises(RuntimeError) as error:
        safetensors.load(struct.pack("<Q", 9) + b'{"a\x1b[2J:1')
    assert "\x1b" not in str(error.value)


def test_keys_of_a_state_dict() -> None:
    model = st.nn.Linear(1, 1)
    state = OrderedDict(model.state_dict())
    state[ESCAPE] = state["weight"]
    state["other"] = state["weight"]
    with pytest.raises(
        RuntimeError, match=r'Unexpected key\(s\) in state_dict: .*, "other"'
    ) as error:
        model.load_state_dict(state)
    shown(error)
    assert load(file_with(pickle.dumps(ESCAPE))) == ESCAPE
