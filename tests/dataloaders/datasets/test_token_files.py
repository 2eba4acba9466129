"""Windows of token files, and tables by columns."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import DataLoader, datasets

IDS = np.random.default_rng(0).integers(0, 60_000, 1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    IDS.astype(np.uint16).tofile(tmp_path / "tokens.bin")
    return tmp_path / "tokens.bin"


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int32, ">u2"])
def test_windows_follow_one_another_and_predict_each_token_once(tmp_path: Path, dtype: Any) -> None:
    IDS.astype(dtype).tofile(tmp_path / "t.bin")
    dataset = datasets.TokenDataset(tmp_path / "t.bin", 37, dtype)
    windows = [dataset[i] for i in range(len(dataset))]
    assert len(dataset) == 27  # 999 targets
    assert all(x.dtype == y.dtype == np.int64 for x, y in windows)
    assert np.concatenate([x.numpy() for x, _ in windows]).tolist() == IDS[:999].tolist()
    assert np.concatenate([y.numpy() for _, y in windows]).tolist() == IDS[1:].tolist()


def test_stride_offset_and_negative_indices(path: Path) -> None:
    dataset = datasets.TokenDataset(path, 100, np.uint16, stride=10, offset=20)
    assert len(dataset) == (990 - 101) // 10 + 1
    assert dataset[5][0].tolist() == IDS[60:160].tolist()
    assert dataset[-1][1].tolist() == dataset[len(dataset) - 1][1].tolist()
    for index in (len(dataset), -len(dataset) - 1):
        with pytest.raises(IndexError, match=f"{index} of 89 windows"):
            dataset[index]


def test_no_window_crosses_files(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "more.npy", np.arange(25, dtype=np.int32))
    (tmp_path / "tiny.bin").write_bytes(b"\1\0")
    dataset = datasets.TokenDataset(
        [path, tmp_path / "tiny.bin", tmp_path / "more.npy"], 8, np.uint16
    )
    assert len(dataset) == 124 + 0 + 3
    assert dataset[123][1].tolist() == IDS[985:993].tolist()
    assert dataset[124][0].tolist() == list(range(8))
    assert dataset[126][1].tolist() == list(range(17, 25))


def test_workers_map_the_file_and_a_seed_fixes_the_order(path: Path) -> None:
    dataset = datasets.TokenDataset(path, 32, np.uint16)
    assert len(pickle.dumps(dataset)) < 2000
    runs = []
    for workers, method in ((0, None), (2, "fork"), (1, "spawn"), (0, None)):
        generator = st.Generator().manual_seed(9 if len(runs) < 3 else 10)
        loader = DataLoader(
            dataset, batch_size=5, shuffle=True, generator=generator, num_workers=workers,
            multiprocessing_context=method,
        )  # fmt: skip
        runs.append([(x.tolist(), y.tolist()) for x, y in loader])
    assert runs[0] == runs[1] == runs[2] != runs[3]
    assert sum(len(x) for x, _ in runs[0]) == len(dataset)


# ------------------------------------------------------------------ documents
DOCUMENTS = [[1, 2, 3, 4, 5, 0], [6, 0], [0], [7, 8, 9, 0], [10, 11]]
JOINED = [token for document in DOCUMENTS for token in document]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    np.array(JOINED, np.uint32).tofile(tmp_path / "d.bin")
    return tmp_path / "d.bin"


def test_split_windows_are_of_one_document(documents: Path) -> None:
    dataset = datasets.TokenDataset(documents, 4, np.uint32, boundary=0, documents="split")
    windows = [(x.tolist(), y.tolist()) for x, y in (dataset[i] for i in range(len(dataset)))]
    assert windows == [
        ([1, 2, 3, 4], [2, 3, 4, 5]),
        ([5, 0, 0, 0], [0, -100, -100, -100]),
        ([6, 0, 0, 0], [0, -100, -100, -100]),
        ([7, 8, 9, 0], [8, 9, 0, -100]),
        ([10, 11, 0, 0], [11, -100, -100, -100]),
    ]
    targets = [y for _, window in windows for y in window if y != -100]
    assert targets == [token for document in DOCUMENTS for token in document[1:]]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 50])
def test_split_predicts_what_follows_in_each_document_once(documents: Path, size: int) -> None:
    dataset = datasets.TokenDataset(documents, size, np.uint32, boundary=0, documents="split")
    x, y = next(iter(DataLoader(dataset, batch_size=len(dataset))))
    mask = y.numpy() != -100
    pairs = list(zip(x.numpy()[mask].tolist(), y.numpy()[mask].tolist()))
    assert pairs == [pair for document in DOCUMENTS for pair in pairwise(document)]


def test_mark_numbers_the_documents_of_a_window(documents: Path) -> None:
    dataset = datasets.TokenDataset(documents, 14, np.uint32, boundary=0, documents="mark")
    tokens, targets, document = dataset[0]
    assert tokens.tolist() == JOINED[:14]
    assert targets.tolist() == JOINED[1:15]
    assert document.tolist() == [0] * 6 + [1] * 2 + [2] + [3] * 4 + [4]


def test_long_files_are_scanned_in_parts(documents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = datasets.TokenDataset(documents, 4, np.uint32, boundary=0, documents="split")
    monkeypatch.setattr("shmtensor.dataloaders.datasets.tokens.CHUNK", 3)
    parts = datasets.TokenDataset(documents, 4, np.uint32, boundary=0, documents="split")
    assert parts.starts.tolist() == full.starts.tolist()
    assert parts.stops.tolist() == full.stops.tolist()


def test_invalid_arguments_are_refused(path: Path, tmp_path: Path) -> None:
    make = datasets.TokenDataset
    np.save(tmp_path / "f.npy", np.zeros(5))
    (tmp_path / "odd.bin").write_bytes(b"123")
    for call, text in (
        (lambda: make(path, 1000, np.uint16), r"no window of 1000 tokens .*\[1000\] tokens"),
        (lambda: make(path, 0, np.uint16), "block_size is not a positive whole number: 0"),
        (lambda: make(path, 8), "dtype is not a type of whole numbers: None"),
        (lambda: make(path, 8, np.float32), "dtype is not a type of whole numbers: float32"),
        (lambda: make(path, 8, np.uint16, documents="split"), "needs a boundary"),
        (lambda: make(path, 8, np.uint16, documents="cut"), "documents is not 'join'"),
        (lambda: make(tmp_path / "odd.bin", 1, np.uint16), "not a whole number of uint16 tokens"),
        (lambda: make(tmp_path / "f.npy", 2), "not a row of whole numbers"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    assert "31 windows of 32, 1000 tokens" in repr(make(path, 32, np.uint16))
