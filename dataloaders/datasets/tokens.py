"""TokenDataset: windows of a file of token numbers, for language models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shmtensor.autograd import wrap

from ..dataset import Dataset
from ..loader.batch_block import allocate_parts, checked_rows
from ..tensor_dataset import Rows
from .in_memory_images import Array, PathLike, shared
from .npy import map_npy

IGNORED = -100  # the target that cross_entropy leaves out
CHUNK = 1 << 24  # tokens searched for boundaries at a time


class TokenDataset(Dataset[Any]):
    """Sample i is the i-th window of `block_size` tokens, and the same one token later.

    The files are mapped, not read, and sent to workers as paths. Windows follow one another without
    gap or overlap unless `stride` says otherwise; targets of one window reach one token into the
    next, so that each token but the first is predicted once. No window crosses files. For a
    reproducible random order, give the loader `shuffle=True` and a `generator`.

    Parameters
    ----------
    paths : path or sequence of path
        A file, or several: raw numbers (`ids.astype(np.uint16).tofile(path)`) or `.npy`.
    block_size : int
        Tokens in a window.
    dtype : dtype, optional
        Of raw files: uint16, uint32, int32, ...; `.npy` files know theirs.
    stride : int, optional
        Tokens from one window to the next; `block_size` if None.
    offset : int, optional
        Bytes before the first token of raw files.
    boundary : int, optional
        The token that ends a document.
    documents : str, optional
        What a boundary does. "join": nothing, windows cross it. "split": each window is of one
        document; a short one is padded with `boundary`, and with -100 (ignored by `cross_entropy`)
        in the targets. "mark": as "join", with a third part, the number of boundaries before each
        token in its window, for attention masks.

    Raises
    ------
    ValueError
        No window fits; a file's size is not a whole number of tokens; arguments that do not go
        together.

    Notes
    -----
    Samples: int64 `(block_size,)` each: (tokens, targets), or (tokens, targets, document). Copies:
    one (page cache to the batch's block).

    Examples
    --------
    >>> from shmtensor.dataloaders.datasets import TokenDataset
    >>> np.arange(10, dtype=np.uint16).tofile("tokens.bin")
    >>> tokens, targets = TokenDataset("tokens.bin", 4, np.uint16)[1]
    >>> tokens, targets
    (tensor([4, 5, 6, 7]), tensor([5, 6, 7, 8]))
    """

    def __init__(
        self,
        paths: PathLike | Sequence[PathLike],
        block_size: int,
        dtype: Any = None,
        stride: int | None = None,
        offset: int = 0,
        boundary: int | None = None,
        documents: str = "join",
    ) -> None:
        path_list: Any = paths if isinstance(paths, (list, tuple)) else [paths]
        self.paths = [Path(path).absolute() for path in path_list]
        self.block_size = block_size
        self.dtype = None if dtype is None else np.dtype(dtype)
        self.stride = block_size if stride is None else stride
        self.offset = offset
        self.boundary = boundary
        self.documents = documents
        for name, value in (("block_size", self.block_size), ("stride", self.stride)):
            if not isinstance(value, (int, np.integer)) or value <= 0:
                raise ValueError(f"TokenDataset: {name} is not a positive whole number: {value!r}")
        if documents not in ("join", "split", "mark"):
            raise ValueError(
                f"TokenDataset: documents is not 'join', 'split' or 'mark': {documents!r}"
            )
        if (documents != "join") and boundary is None:
            raise ValueError(f"TokenDataset: documents={documents!r} needs a boundary: None")
        self.open()
        # File f has the windows from ends[f - 1] to ends[f]. The stride determines their positions;
        # with documents="split", `starts` and `stops` hold each window's start and document's end.
        self.starts: Any = None
        self.stops: Any = None
        if documents == "split":
            windows = [self.split(array) for array in self.files]
            counts = [len(starts) for starts, _ in windows]
            self.starts = shared(np.concatenate([starts for starts, _ in windows]))
            self.stops = shared(np.concatenate([stops for _, stops in windows]))
        else:
            counts = [
                max((len(array) - 1 - block_size) // self.stride + 1, 0) for array in self.files
            ]
        self.ends: Array = np.cumsum(counts)
        if not self.ends[-1]:
            raise ValueError(
                f"TokenDataset: no window of {block_size} tokens and a target fits: "
                f"{[len(array) for array in self.files]} tokens in {list(map(str, self.paths))}"
            )

    def open(self) -> None:
        """Maps the files."""
        self.files = [self.map(path) for path in self.paths]

    def map(self, path: Path) -> Array:
        if path.suffix == ".npy":
            array = map_npy(path)
            if array.ndim != 1 or array.dtype.kind not in "iu":
                raise ValueError(f"{path}: not a row of whole numbers: {array.dtype} {array.shape}")
            return array
        if self.dtype is None or self.dtype.kind not in "iu":
            raise ValueError(
                f"TokenDataset: dtype is not a type of whole numbers: {self.dtype}, raw files do "
                f"not say theirs: {path}"
            )
        size = path.stat().st_size - self.offset
        if size <= 0 or size % self.dtype.itemsize:
            raise ValueError(
                f"{path}: not a whole number of {self.dtype} tokens: {size} bytes after the "
                f"first {self.offset}"
            )
        return np.memmap(path, self.dtype, "r", self.offset).view(np.ndarray)

    def split(self, array: Array) -> tuple[Array, Array]:
        """Windows within documents: where each begins, and where its document ends."""
        boundaries = [
            np.flatnonzero(array[start : start + CHUNK] == self.boundary) + start + 1
            for start in range(0, len(array), CHUNK)
        ]
        ends = np.unique(np.concatenate([*boundaries, [len(array)]]))
        begins = np.concatenate([[0], ends[:-1]])
        # A document of n tokens has n - 1 to predict; one of a single token has none.
        counts = np.maximum(-(-(ends - begins - 1) // self.stride), 0)
        earlier = np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.repeat(begins, counts) + (np.arange(counts.sum()) - earlier) * self.stride
        return starts, np.repeat(ends, counts)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The windows `indices`, written straight into the batch's block."""
        size = self.block_size
        windows = checked_rows("TokenDataset", indices, len(self), "windows")
        files = np.searchsorted(self.ends, windows, side="right")
        if self.starts is None:
            first = np.concatenate([[0], self.ends[:-1]])
            starts = (windows - first[files]) * self.stride
            stops = starts + size + 1
        else:
            starts = self.starts.array[windows]
            stops = np.minimum(self.stops.array[windows], starts + size + 1)
        shape = ((len(windows), size), np.dtype(np.int64))
        parts = allocate_parts([shape] * (3 if self.documents == "mark" else 2))
        tokens, targets = parts[:2]
        for row, (file, start, stop) in enumerate(
            zip(files.tolist(), starts.tolist(), stops.tolist())
        ):
            array, count = self.files[file], stop - start - 1
            if count == size:
                tokens[row] = array[start : stop - 1]
                targets[row] = array[start + 1 : stop]
            else:
                n_tokens = min(count + 1, size)
                tokens[row, :n_tokens] = array[start : start + n_tokens]
                tokens[row, n_tokens:] = self.boundary
                targets[row, :count] = array[start + 1 : stop]
                targets[row, count:] = IGNORED
        if self.documents == "mark":
            parts[2][:, 0] = 0
            np.cumsum(tokens[:, :-1] == self.boundary, axis=1, out=parts[2][:, 1:])
        return Rows([wrap(part) for part in parts], len(windows))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "files": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.open()

    def __repr__(self) -> str:
        tokens = sum(len(array) for array in self.files)
        return (
            f"TokenDataset({len(self)} windows of {self.block_size}, {tokens} tokens, "
            f"documents={self.documents!r})"
        )
