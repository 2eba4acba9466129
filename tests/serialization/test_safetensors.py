"""The safetensors format."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import dtypes
from shmtensor.serialization import safetensors


def tensor(array: Any) -> st.Tensor:
    return st.from_numpy(np.asarray(array))


def encode(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_named_tensors_come_back(tmp_path: Path) -> None:
    tensors = {
        "w": tensor(np.arange(6, dtype=np.float32).reshape(2, 3)),
        "turned": tensor(np.arange(6).reshape(2, 3).T),
        "b": tensor(np.array([True, False])),
        "half": tensor(np.float16([1.5])),
        "empty": tensor(np.zeros((0, 2))),
        "scalar": tensor(np.float64(2)),
    }
    safetensors.save_file(tensors, tmp_path / "x", {"format": "pt"})
    back = safetensors.load_file(tmp_path / "x")
    assert back.keys() == tensors.keys()
    for name, expected in tensors.items():
        assert back[name].dtype == expected.dtype, name
        assert back[name].shape == expected.shape, name
        assert back[name].tolist() == expected.tolist(), name
        assert back[name].is_shared()
    assert safetensors.metadata(tmp_path / "x") == {"format": "pt"}


def test_bytes_come_back() -> None:
    assert safetensors.load(safetensors.save({"x": tensor([1, 2])}))["x"].tolist() == [1, 2]


def test_bfloat16_there_and_back() -> None:
    words = (np.float32([1.5, -2]).view(np.uint32) >> 16).astype(np.uint16)
    entry = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    x = safetensors.load(encode({"x": entry}, words.tobytes()))["x"]
    assert x.dtype is st.bfloat16
    assert x.tolist() == [1.5, -2]
    assert safetensors.save({"x": x})[-4:] == words.tobytes()
    empty, number = (st.tensor(v, dtype=dtypes.bfloat16) for v in ([], 3.0))
    back = safetensors.load(safetensors.save({"empty": empty, "number": number}))
    assert back["empty"].shape == (0,)
    assert back["number"].item() == 3


def test_the_layout_is_that_of_the_format() -> None:
    data = safetensors.save({"x": tensor(np.float32([1, 2]))})
    n = struct.unpack("<Q", data[:8])[0]
    assert (8 + n) % 8 == 0
    assert json.loads(data[8 : 8 + n]) == {
        "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    }
    assert data[8 + n :] == np.float32([1, 2]).tobytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"empty \(0 bytes\)"),
        (struct.pack("<Q", 1 << 60), "header of 1152921504606846976 bytes"),
        (struct.pack("<Q", 2) + b"xx", "not a safetensors file"),
        (struct.pack("<Q", 2) + b"[]", "the header is not an object"),
        (encode({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b""), "truncated"),
        (
            encode({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, bytes(8)),
            "sizes disagree",
        ),
        (
            encode({"x": {"dtype": "F9", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
            "unknown dtype.*F9",
        ),
    ],
)
def test_what_is_not_whole_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        safetensors.load(data)


def test_a_dtype_without_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match="no name for this dtype: complex128 of 'x'"):
        safetensors.save({"x": tensor([1j])})


def entry(shape: Any, offsets: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    "header",
    [
        {"x": None},
        {"x": []},
        {"x": {"dtype": "F32"}},
        {"x": entry([2], [0])},
        {"x": entry([2], [0, 8, 8])},
        {"x": entry([-2], [0, 8])},
        {"x": entry([2.0], [0, 8])},
        {"x": entry([True], [0, 4])},
        {"x": entry("2", [0, 8])},
        {"x": entry([2], [0, 8], ["F32"])},
        {"x": entry([1 << 32, 1 << 32], [0, 0])},
        {"x": entry([1 << 63, 0], [0, 0])},
        {"x": entry([0, 1 << 57, 1 << 57], [0, 0])},
        {"x": entry([1] * 65, [0, 4])},
        {"x": entry([2], [8, 0])},
        {"x": entry([2], [-8, 0])},
        {"x": entry([2], [0, 8]), "y": entry([2], [4, 12])},
        {"x": entry([2], [0, 8]), "y": entry([2], [0, 8])},
    ],
    ids=str,
)
def test_no_number_of_the_header_is_believed(header: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match="load_file: "):
        safetensors.load(encode(header, bytes(16)))


def test_a_bool_is_0_or_1() -> None:
    header = {"x": entry([2], [0, 2], "BOOL")}
    assert safetensors.load(encode(header, b"\0\1"))["x"].tolist() == [False, True]
    with pytest.raises(RuntimeError, match="not 0 or 1 in 124 bytes: 'x': 2"):
        safetensors.load(encode(header, b"\1\2".ljust(124 - len(encode(header, b"")), b"\0")))


def test_a_header_that_nests_deep_is_refused(tmp_path: Path) -> None:
    text = b"[" * 100_000
    with pytest.raises(RuntimeError, match="not a safetensors file"):
        safetensors.load(struct.pack("<Q", len(text)) + text)
    for value in (3, {"a": 1}, [1]):
        (tmp_path / "x").write_bytes(encode({"__metadata__": value}, b""))
        with pytest.raises(RuntimeError, match="metadata are not strings"):
            safetensors.metadata(tmp_path / "x")


def test_an_empty_file_and_one_cut_short_anywhere_are_called_so(tmp_path: Path) -> None:
    path = tmp_path / "x"
    full = safetensors.save({"a": tensor(np.arange(5.0)), "b": tensor(np.ones(3, np.uint8))})
    for n in range(len(full)):
        path.write_bytes(full[:n])
        with pytest.raises(RuntimeError, match="truncated" if n else r"empty \(0 bytes\): .*x"):
            safetensors.load_file(path)
