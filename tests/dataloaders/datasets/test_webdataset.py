"""Tar shards: grouping, sharing out, shuffling, resuming, damage."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tar_files import write_tar

from shmtensor.dataloaders import DataLoader, datasets
from shmtensor.dataloaders.datasets import webdataset as web
from shmtensor.dataloaders.datasets.tar import read_members

SHARDS, EACH = 6, 10


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """60 samples, "cls" from 0 on, in six shards."""
    paths = []
    for shard in range(SHARDS):
        members = []
        for n in range(shard * EACH, (shard + 1) * EACH):
            members += [(f"a/{n:04}.cls", b"%d" % n), (f"a/{n:04}.txt", b"text %d" % n)]
        paths.append(write_tar(tmp_path / f"train-{shard:03}.tar", members))
    return paths


def numbers(dataset: Any, **options: Any) -> list[int]:
    return [n for batch in DataLoader(dataset, **options) for n in batch[0].tolist()]


def test_members_of_one_base_name_are_a_sample(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.save(file, np.arange(3))
    path = write_tar(
        tmp_path / "x.tar",
        [
            ("a/1.left.npy", file.getvalue()),
            ("a/1.JSON", json.dumps({"k": [1]}).encode()),
            ("a/1.cls", b"7"),
            ("readme", b"no extension: left out"),
            (".hidden", b""),
            ("__meta__.txt", b"left out"),
            ("b/1.txt", "é".encode()),
            ("b/1.bin", b"\0\1"),
        ],
    )
    first, second = datasets.WebDataset(path)
    assert first["__key__"] == "a/1"
    assert first["__url__"] == str(path)
    assert first["left.npy"].tolist() == [0, 1, 2]
    assert first["json"] == {"k": [1]}
    assert first["cls"] == 7
    assert second["txt"] == "é"
    assert second["bin"] == b"\0\1"
    raw = list(datasets.WebDataset(path, decode=False))
    assert raw[0]["cls"] == b"7"


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_those_of_tarfile(tmp_path: Path, kind: int) -> None:
    random = np.random.default_rng(0)
    names = ["a.x", "d" * 90 + "/" + "f" * 60 + ".x", "ü/é.x", "b.x"]
    if kind != tarfile.USTAR_FORMAT:
        names.append("very/" * 60 + "long.x")
    members = [(name, random.bytes(int(random.integers(0, 2000)))) for name in names]
    path = write_tar(tmp_path / "x.tar", members, kind)
    with tarfile.open(path, "a", format=kind) as file:
        for info in (tarfile.TarInfo("folder.x"), tarfile.TarInfo("link.x")):
            info.type = tarfile.DIRTYPE if info.name == "folder.x" else tarfile.SYMTYPE
            info.linkname = "a.x"
            file.addfile(info)
    assert list(read_members(path)) == members
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_members(tmp_path / "x.tar.gz")) == members


def test_keys_make_tuples(shards: list[Path]) -> None:
    found = list(datasets.WebDataset(shards[0], keys=("jpg;cls", "txt")))
    assert found == [(n, f"text {n}") for n in range(EACH)]
    mapped = datasets.WebDataset(shards[0], keys=("cls",), transform=lambda sample: -sample[0])
    assert list(mapped)[3] == -3
    dataset = datasets.WebDataset(shards[0], keys=("cls", "txt"), decode={"txt": len})
    assert next(iter(dataset)) == (0, 6)


def test_images_are_decoded(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("RGB", (5, 4), (1, 2, 3)).save(file, "PNG")
    path = write_tar(tmp_path / "x.tar", [("1.png", file.getvalue()), ("1.cls", b"2")])
    pixels, label = next(iter(DataLoader(datasets.WebDataset(path, ("jpg;png", "cls")), 1)))
    assert pixels.shape == (1, 3, 4, 5)
    assert pixels.numpy()[0, :, 0, 0].tolist() == [1, 2, 3]
    assert label.tolist() == [2]


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("shuffle", [0, 7])
def test_each_sample_comes_once_over_ranks_and_workers(
    shards: list[Path], workers: int, shuffle: int
) -> None:
    samples: list[int] = []
    for rank in range(2):
        part = datasets.WebDataset(
            shards, ("cls",), shuffle=shuffle, seed=3, num_replicas=2, rank=rank
        )
        samples += numbers(part, batch_size=4, num_workers=workers)
    assert sorted(samples) == list(range(SHARDS * EACH))
    assert (samples == sorted(samples)) is (
        not shuffle and not workers and samples == sorted(samples)
    )


def test_order_is_that_of_seed_and_epoch(shards: list[Path]) -> None:
    dataset = datasets.WebDataset(shards, ("cls",), shuffle=10, seed=1)
    first = numbers(dataset, batch_size=8)
    assert first != sorted(first)
    assert numbers(dataset, batch_size=8) == first
    assert numbers(dataset, batch_size=5, num_workers=1) == first
    dataset.set_epoch(1)
    assert numbers(dataset, batch_size=8) != first
    dataset.set_epoch(0)
    assert numbers(dataset, batch_size=8) == first
    shard_indices = [first.index(n) // EACH for n in range(EACH)]
    assert len(set(shard_indices)) > 1  # a shard's samples are spread by the buffer
    plain = datasets.WebDataset(shards, ("cls",))
    assert numbers(plain, batch_size=8) == list(range(SHARDS * EACH))


def test_without_a_seed_each_epoch_has_its_own_order(shards: list[Path]) -> None:
    dataset = datasets.WebDataset(shards, ("cls",), shuffle=5)
    for workers in (0, 2):
        loader = DataLoader(dataset, batch_size=4, num_workers=workers)
        epochs = [[n for batch in loader for n in batch[0].tolist()] for _ in range(2)]
        assert epochs[0] != epochs[1]
        assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(SHARDS * EACH))


@pytest.mark.parametrize("seed", [None, 4])
def test_a_stream_resumes_at_its_state(shards: list[Path], seed: int | None) -> None:
    dataset = datasets.WebDataset(shards, ("cls",), shuffle=9, seed=seed)
    stream: Iterator[Any] = iter(dataset)
    head = [next(stream)[0] for _ in range(17)]
    state = json.loads(json.dumps(dataset.state_dict()))
    tail = [n for (n,) in stream]
    resumed = datasets.WebDataset(shards, ("cls",), shuffle=9, seed=seed)
    resumed.load_state_dict(state)
    assert [n for (n,) in resumed] == tail
    assert sorted(head + tail) == list(range(SHARDS * EACH))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_resumes_in_the_middle_of_the_shards(shards: list[Path], workers: int) -> None:
    def loader() -> Any:
        dataset = datasets.WebDataset(shards, ("cls",), shuffle=9, seed=4)
        return DataLoader(dataset, batch_size=4, num_workers=workers)

    first = loader()
    batches = iter(first)
    head = [next(batches)[0].tolist() for _ in range(7)]
    state = first.state_dict()
    tail = [batch[0].tolist() for batch in batches]
    resumed = loader()
    resumed.load_state_dict(state)
    assert [batch[0].tolist() for batch in resumed] == tail
    assert sorted(n for batch in head + tail for n in batch) == list(range(SHARDS * EACH))


# ------------------------------------------------------------------ damage
def broken(path: Path, damage: str) -> str:
    """Damages a shard in its sixth sample, number 25; returns the error's text."""
    raw = bytearray(path.read_bytes())
    at = raw.index(b"a/0025.cls")
    if damage == "header":
        raw[at + 3] ^= 1
        text = f"damaged at byte {at}, after a/0024.txt: bad checksum"
    elif damage == "cut":
        raw = raw[: at + 513]
        text = "ends in the middle of a/0025.cls: 1 of 2 bytes"
    elif damage == "end":
        raw = raw[:at]
        text = f"damaged at byte {at}, after a/0024.txt: empty header"
    else:
        raw = bytearray(gzip.compress(bytes(raw)))
        raw = raw[: len(raw) // 2]
        text = "the gzip stream is damaged"
    path.write_bytes(raw)
    return text


@pytest.mark.parametrize("damage", ["header", "cut", "end", "gzip"])
def test_a_damaged_shard_is_named_or_skipped(shards: list[Path], damage: str) -> None:
    text = broken(shards[2], damage)
    with pytest.raises(datasets.BrokenShard, match=f"train-002.tar: {text}"):
        list(datasets.WebDataset(shards, ("cls",)))
    with pytest.warns(RuntimeWarning, match=f"left out: .*train-002.tar: {text}"):
        samples = [n for (n,) in datasets.WebDataset(shards, ("cls",), handler="warn")]
    missing = set(range(60)) - set(samples)
    assert missing <= set(range(20, 30))
    if damage != "gzip":
        # The sample before the damage was not known to be complete.
        assert missing == set(range(24, 30))


def test_an_undecodable_sample_is_named_or_skipped(tmp_path: Path) -> None:
    members = [("1.cls", b"1"), ("2.cls", b"two"), ("3.cls", b"3"), ("4.txt", b"no cls")]
    path = write_tar(tmp_path / "x.tar", members)
    with pytest.raises(datasets.BrokenShard, match=r"x\.tar: sample 2: ValueError: invalid"):
        list(datasets.WebDataset(path, ("cls",)))
    errors = []
    samples = datasets.WebDataset(
        path, ("cls",), handler=lambda e: bool(errors.append(str(e)) or 1)
    )
    assert list(samples) == [(1,), (3,)]
    assert [text.rpartition("sample ")[2][0] for text in errors] == ["2", "4"]
    assert "no cls among ['txt']" in errors[1]
    assert list(datasets.WebDataset(path, ("cls",), handler="ignore")) == [(1,), (3,)]


def test_one_extension_twice_is_damage(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", [("1.cls", b"1"), ("1.CLS", b"2")])
    with pytest.raises(datasets.BrokenShard, match="twice in the shard: 1"):
        list(datasets.WebDataset(path))


def test_pickles_are_left_as_bytes(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", [("1.pyd", b"cos\nsystem\n."), ("1.pth", b"x")])
    (sample,) = datasets.WebDataset(path)
    assert sample["pyd"] == b"cos\nsystem\n."
    file = io.BytesIO()
    np.save(file, np.array([None]), allow_pickle=True)
    path = write_tar(tmp_path / "x.tar", [("1.npy", file.getvalue())])
    with pytest.raises(datasets.BrokenShard, match=r"it holds no numbers: dtype \|O"):
        list(datasets.WebDataset(path))


# ------------------------------------------------------------------ names
def test_braces_and_stars(shards: list[Path], tmp_path: Path) -> None:
    assert web.expand_braces("a{08..11}b{x,y}")[:3] == ["a08bx", "a08by", "a09bx"]
    assert web.expand_braces("plain") == ["plain"]
    for urls in (str(tmp_path / "train-{000..005}.tar"), str(tmp_path / "*.tar"), shards):
        assert len(datasets.WebDataset(urls).urls) == SHARDS
    with pytest.raises(FileNotFoundError, match=r"train-006\.tar, 1 of 3 are not there"):
        datasets.WebDataset(str(tmp_path / "train-{004..006}.tar"))
    with pytest.raises(FileNotFoundError, match="no such shard"):
        datasets.WebDataset(str(tmp_path / "*.zip"))


def test_invalid_arguments_are_refused(shards: list[Path]) -> None:
    with pytest.raises(ValueError, match="fewer shards than ranks: 6 shards, 7 ranks"):
        datasets.WebDataset(shards, num_replicas=7, rank=0)
    with pytest.raises(ValueError, match="rank is not between 0 and 1: 2"):
        datasets.WebDataset(shards, num_replicas=2, rank=2)
    with pytest.raises(ValueError, match="shuffle is negative: -1"):
        datasets.WebDataset(shards, shuffle=-1)
    with pytest.raises(ValueError, match="handler is not"):
        datasets.WebDataset(shards, handler="skip")
    assert "6 shards, shuffle=0, seed=None, rank 0 of 1" in repr(datasets.WebDataset(shards))
