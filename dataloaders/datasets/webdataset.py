"""WebDataset: samples from tar shards, in the layout of the library of that name."""

from __future__ import annotations

import glob
import io
import itertools
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor.errors import printable
from shmtensor.tensor import Tensor
from shmtensor.tensor.from_data import as_tensor

from ..dataset import IterableDataset
from ..distributed import check_rank, default_group
from ..loader.seeding import new_seed
from ..loader.worker_info import get_worker_info
from .image_decoding import decode_image
from .in_memory_images import PathLike
from .npy import load_npy
from .tar import MAX_EXPANSION, BrokenShard, expansion_limit, read_samples

Sample = dict[str, Any]


def load_npz(data: bytes, limit: int | None = None) -> dict[str, Any]:
    """The arrays in an `.npz` file, of at most `limit` bytes, or of `expansion_limit`."""
    limit = expansion_limit(len(data)) if limit is None else limit
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        kinds = {member.compress_type for member in members}
        if not kinds <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise ValueError(f"npz: compression that NumPy does not write: {kinds}")
        if sum(member.compress_size for member in members) > len(data):
            raise ValueError(f"npz: members overlap: more than the {len(data)} bytes of the file")
        if (total := sum(member.file_size for member in members)) > limit:
            raise ValueError(
                f"npz: the members expand to {total} bytes, more than {limit}, hint: max_expansion"
            )
        return {m.filename.removesuffix(".npy"): load_npy(archive.read(m)) for m in members}


# By the last part of an extension. Pickles (.pyd, .pth) are left out: they can run code.
# Whatever a decoder raises, `decode_sample` makes a BrokenShard of it.
decoders: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("jpg", "jpeg", "png", "ppm", "pgm", "bmp", "webp", "tif"), decode_image),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), int),
    **dict.fromkeys(("txt", "text", "transcript"), bytes.decode),
    **dict.fromkeys(("json", "jsn"), json.loads),
    "npy": load_npy,
    "npz": load_npz,
}


class WebDataset(IterableDataset[Any]):
    """A stream of samples from tar shards: members of one base name are one sample.

    train-000.tar with a/1.jpg, a/1.cls, a/2.jpg, a/2.cls has two samples of a "jpg" and a "cls".
    Shards are shared out over ranks first, then over a rank's workers: each is read by one worker,
    from start to end. Give at least as many as there are workers in all, of about the same size.

    Parameters
    ----------
    urls : path or sequence of path
        A tar file (.tar, .tar.gz), several, or a pattern: "train-{000..127}.tar", "*.tar".
    keys : sequence of str, optional
        The members of a sample, as a tuple; "jpg;png" is the first of these that exists. None: a
        dict of all members, with "__key__" and "__url__".
    shuffle : int, optional
        Size of a buffer from which the next sample is drawn at random; the shards come in a random
        order, too. 0: the order of the files.
    seed : int, optional
        Of the orders, together with the number of `set_epoch`. None: the loader draws a seed for
        each epoch, so each has another order.
    decode : mapping or bool, optional
        Extension -> function of bytes, in addition to `decoders` or overriding them; other members
        stay bytes. False: nothing is decoded.
    transform : callable, optional
        Of a decoded sample.
    handler : str or callable, optional
        For damaged data: "raise"; "warn" or "ignore": skip a sample that cannot be decoded or lacks
        a key, and the rest of a damaged shard; or a function of the exception that returns whether
        to go on.
    num_replicas : int, optional
        The number of ranks; that of the default process group, or 1, if None.
    rank : int, optional
        This rank; that of the default process group, or 0, if None.
    max_expansion : int, optional
        Bytes that a sample may have when it is decompressed (a shard that is compressed, arrays in
        `.npz`, images), if that is more than 100 times the size of the shard; 256 MiB by default.

    Raises
    ------
    FileNotFoundError
        No such shard.
    ValueError
        Fewer shards than ranks.
    BrokenShard
        An OSError, while iterating, see `handler`; names the shard.

    Notes
    -----
    The stream can be resumed (`state_dict`): shards are read again, but consumed samples are not
    decoded again. Copies: one (file to bytes), and what decoding does.

    Examples
    --------
    >>> import io
    >>> import tarfile
    >>> from shmtensor.dataloaders.datasets import WebDataset
    >>> with tarfile.open("train-000.tar", "w") as tar:
    ...     for name, data in ("1.txt", b"a cat"), ("1.cls", b"3"):
    ...         member = tarfile.TarInfo(name)
    ...         member.size = len(data)
    ...         tar.addfile(member, io.BytesIO(data))
    >>> list(WebDataset("train-000.tar", keys=["txt", "cls"]))
    [('a cat', 3)]
    """

    def __init__(
        self,
        urls: PathLike | Sequence[PathLike],
        keys: Sequence[str] | None = None,
        shuffle: int = 0,
        seed: int | None = None,
        decode: Mapping[str, Callable[[bytes], Any]] | bool = True,
        transform: Callable[[Any], Any] | None = None,
        handler: str | Callable[[Exception], bool] = "raise",
        num_replicas: int | None = None,
        rank: int | None = None,
        max_expansion: int = MAX_EXPANSION,
    ) -> None:
        if shuffle < 0:
            raise ValueError(f"WebDataset: shuffle is negative: {shuffle}")
        if isinstance(handler, str) and handler not in ("raise", "warn", "ignore"):
            raise ValueError(f"WebDataset: handler is not 'raise', 'warn', 'ignore': {handler!r}")
        self.urls = expand_paths(urls)
        self.keys = None if keys is None else [key.split(";") for key in keys]
        self.shuffle = int(shuffle)
        self.seed = seed
        self.decoders = {} if decode is False else dict(decoders)
        if isinstance(decode, Mapping):
            self.decoders.update(decode)
        self.transform = transform
        self.handler = handler
        self.max_expansion = int(max_expansion)
        if num_replicas is None:
            try:
                num_replicas, group_rank = default_group()
            except RuntimeError:  # no group: one rank
                num_replicas, group_rank = 1, 0
            rank = group_rank if rank is None else rank
        self.num_replicas, self.rank = num_replicas, rank or 0
        check_rank("WebDataset", self.rank, self.num_replicas)
        if len(self.urls) < self.num_replicas:
            raise ValueError(
                f"WebDataset: fewer shards than ranks: {len(self.urls)} shards, "
                f"{self.num_replicas} ranks"
            )
        self.epoch: Tensor = as_tensor(np.zeros(1, np.int64)).share_memory_()
        self.position: dict[str, int] | None = None
        self.resumed: dict[str, int] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Makes the next order that of `epoch`, in this process and in workers that run."""
        self.epoch.array[0] = epoch

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        start, self.resumed = self.resumed, None
        if start is None:
            epoch = int(self.epoch.array[0])
            if self.seed is not None:
                seed = self.seed
            else:  # the same in all workers of this rank
                seed = new_seed() if info is None else info.seed - info.id
            start = {"seed": seed, "epoch": epoch, "count": 0}
        self.position = position = dict(start)
        stream = self.samples(position["seed"], position["epoch"], worker, workers)
        for sample in itertools.islice(stream, start["count"], None):
            position["count"] += 1
            try:
                decoded = self.decode_sample(sample)
            except Exception as error:
                where = f"{printable(sample['__url__'])}: sample {printable(sample['__key__'])}"
                text = f"{where}: {type(error).__name__}: {printable(error)}"
                self.handle_error(BrokenShard(text), error)
                continue
            yield decoded

    def samples(self, seed: int, epoch: int, worker: int, workers: int) -> Iterator[Sample]:
        """This worker's samples, not decoded, in the order of seed and epoch."""
        urls, seeds = self.urls, [seed % 2**63, epoch]
        if self.shuffle and self.seed is not None:  # an order that all ranks share
            urls = permute(urls, seeds)
        urls = urls[self.rank :: self.num_replicas]
        if self.shuffle and self.seed is None:  # seeds of ranks differ
            urls = permute(urls, seeds)
        stream = itertools.chain.from_iterable(map(self.read, urls[worker::workers]))
        if not self.shuffle:
            return stream
        source = np.random.PCG64([*seeds, self.rank, worker])
        return shuffled(stream, self.shuffle, np.random.Generator(source))

    def read(self, path: Path) -> Iterator[Sample]:
        try:
            yield from read_samples(path, self.max_expansion)
        except OSError as error:
            self.handle_error(error, None)

    def handle_error(self, error: Exception, cause: Exception | None) -> None:
        """Raises `error`, or returns to go on, as the handler says."""
        if callable(self.handler):
            goes_on = self.handler(error)
        else:
            goes_on = self.handler != "raise"
            if self.handler == "warn":
                warnings.warn(f"WebDataset: left out: {error}", RuntimeWarning, stacklevel=3)
        if not goes_on:
            raise error from cause

    def decode_sample(self, sample: Sample) -> Any:
        """Decodes the members of `keys`, or all, and applies the transform."""
        left = expansion_limit(Path(sample["__url__"]).stat().st_size, self.max_expansion)
        names = sample if self.keys is None else [self.find_member(k, sample) for k in self.keys]
        values = []
        for name in names:
            value = self.decode_member(name, sample, left)
            left -= nbytes_of(value)
            if left < 0:
                raise ValueError(
                    f"the sample expands to {-left} bytes more than allowed, at {name!r}, hint: "
                    "max_expansion"
                )
            values.append(value)
        members = dict(zip(names, values)) if self.keys is None else tuple(values)
        return members if self.transform is None else self.transform(members)

    def find_member(self, names: list[str], sample: Sample) -> str:
        for name in names:
            if name in sample:
                return name
        raise KeyError(f"no {' or '.join(names)} among {[n for n in sample if n[:2] != '__']}")

    def decode_member(self, name: str, sample: Sample, limit: int) -> Any:
        value = sample[name]
        if isinstance(value, str):  # __key__ and __url__
            return value
        decoder: Any = self.decoders.get(name) or self.decoders.get(name.rpartition(".")[2])
        if decoder is load_npz:
            return decoder(value, limit)
        return value if decoder is None else decoder(value)

    # -------------------------------------------------------------- resuming
    def state_dict(self) -> dict[str, int]:
        """The position of this process's stream: seed, epoch, and number of consumed samples."""
        return dict(self.position or self.resumed or {})

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Makes the next iteration go on where `state_dict` was taken."""
        self.resumed = dict(state) or None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "position": None}

    def __repr__(self) -> str:
        return (
            f"WebDataset({len(self.urls)} shards, shuffle={self.shuffle}, seed={self.seed}, "
            f"rank {self.rank} of {self.num_replicas})"
        )


def nbytes_of(value: Any) -> int:
    """The bytes of an array or tensor, or of a dict of them."""
    values = value.values() if type(value) is dict else [value]
    return sum(getattr(v, "nbytes", 0) for v in values if isinstance(v, (np.ndarray, Tensor)))


def shuffled(stream: Iterator[Sample], size: int, random: np.random.Generator) -> Iterator[Sample]:
    """`stream` in a random order, with `size` samples in memory at a time."""
    buffer: list[Sample] = []
    for sample in stream:
        if len(buffer) < size:
            buffer.append(sample)
            continue
        i = int(random.integers(size))
        yield buffer[i]
        buffer[i] = sample
    for i in random.permutation(len(buffer)).tolist():
        yield buffer[i]


def permute(urls: list[Path], seeds: list[int]) -> list[Path]:
    order = np.random.Generator(np.random.PCG64([*seeds, 2**32])).permutation(len(urls))
    return [urls[i] for i in order.tolist()]


def expand_paths(urls: PathLike | Sequence[PathLike]) -> list[Path]:
    """The paths of the shards in order, with braces and stars expanded.

    Raises:
        FileNotFoundError: a shard does not exist.
    """
    patterns: Any = urls if isinstance(urls, (list, tuple)) else [urls]
    names = [name for url in patterns for name in expand_braces(str(url))]
    paths: list[Path] = []
    for name in names:
        matches = sorted(glob.glob(name)) if re.search(r"[*?\[]", name) else [name]
        paths += [Path(match).absolute() for match in matches]
    missing = [path for path in paths if not path.is_file()]
    if missing or not paths:
        raise FileNotFoundError(
            f"WebDataset: no such shard: {', '.join(map(printable, missing[:3])) or patterns}, "
            f"{len(missing)} of {len(paths)} are not there; shards are local files"
        )
    return paths


def expand_braces(text: str) -> list[str]:
    """ "a{00..02}" as a00, a01, a02; "a{x,y}" as ax, ay."""
    match = re.search(r"\{([^{}]*)\}", text)
    if match is None:
        return [text]
    span = re.fullmatch(r"(\d+)\.\.(\d+)", match[1])
    if span:
        width = len(span[1])
        parts = [f"{n:0{width}}" for n in range(int(span[1]), int(span[2]) + 1)]
    else:
        parts = match[1].split(",")
    tails = expand_braces(text[match.end() :])
    return [text[: match.start()] + part + tail for part in parts for tail in tails]
