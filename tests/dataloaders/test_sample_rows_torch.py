"""Samples that are tensors of PyTorch are copied to the batch's block early, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shmtensor.dataloaders import DataLoader
from shmtensor.native import copy_to_rows

torch: Any = pytest.importorskip("torch")
data: Any = pytest.importorskip("torch.utils.data")
pytestmark = pytest.mark.torch
SHAPE = (3, 128, 128)


def new_part() -> Any:
    return np.zeros((2, *SHAPE), np.float32)


@pytest.mark.parametrize("kind", ["tuple", "list", "dict", "tensor"])
def test_a_new_tensor_becomes_a_row(kind: str) -> None:
    part, x = new_part(), torch.rand(SHAPE)
    copy = x.clone()
    samples = {"tuple": (x, 1), "list": [x, 1], "dict": {0: x, 1: 1}, "tensor": x}
    sample = samples[kind]
    del x, samples
    key = None if kind == "tensor" else 0
    out = copy_to_rows(sample, [(key, part)], 1, torch.Tensor)
    row = out if kind == "tensor" else out[0]
    assert type(row) is np.ndarray
    assert row.base is part
    assert np.array_equal(part[1], copy.numpy())
    assert not part[0].any()


def test_a_permuted_tensor_stays() -> None:
    """It is a view of another tensor, of which nothing says whether it is kept."""
    part = new_part()
    sample = (torch.arange(128 * 128 * 3.0).view(128, 128, 3).permute(2, 0, 1), 1)
    assert copy_to_rows(sample, [(0, part)], 0, torch.Tensor) is sample


def test_arrays_and_tensors_of_one_sample() -> None:
    first, second = new_part(), new_part()
    sample = (torch.ones(SHAPE), np.full(SHAPE, 2, np.float32), 3)
    x, y, n = copy_to_rows(sample, [(0, first), (1, second)], 0, torch.Tensor)
    assert x.base is first
    assert y.base is second
    assert n == 3
    assert first[0].min() == 1
    assert second[0].min() == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, *SHAPE)[0],  # a part of another
        lambda: torch.ones(SHAPE, requires_grad=True),
        lambda: torch.ones(SHAPE, dtype=torch.float64),
        lambda: torch.ones(SHAPE, dtype=torch.bfloat16),
        lambda: torch.ones(SHAPE).to_sparse(),
        lambda: torch.ones(SHAPE, device="meta"),
        lambda: torch.ones(3, 128),
        lambda: torch.nn.Parameter(torch.ones(SHAPE)),
        lambda: "text",
    ],
)
def test_other_tensors_stay(make: Any) -> None:
    part = new_part()
    sample = (make(), 1)
    assert copy_to_rows(sample, [(0, part)], 0, torch.Tensor) is sample
    assert not part.any()


def test_samples_of_another_structure_stay() -> None:
    part = new_part()
    for sample in ((), [], {1: 2}, 7, "text"):
        assert copy_to_rows(sample, [(0, part)], 0, torch.Tensor) is sample


class Buffered(data.Dataset):  # type: ignore[misc]
    """Each sample overwrites the one buffer."""

    def __init__(self, give: Callable[[Any], Any], keep: Callable[[Any], Any]) -> None:
        self.buffer = torch.zeros(SHAPE)
        self.give = give
        self.kept = keep(self.buffer)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        self.buffer.fill_(index)
        return self.give(self)


KEPT: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tensor": (lambda d: d.buffer, lambda x: None),
    "in a new tuple": (lambda d: (d.buffer, 1), lambda x: None),
    "kept tuple": (lambda d: d.kept, lambda x: (x, 1)),
    "kept list": (lambda d: d.kept, lambda x: [x, 1]),
    "kept dict": (lambda d: d.kept, lambda x: {"x": x}),
    "copy of a kept dict": (lambda d: dict(d.kept), lambda x: {"x": x}),
    "row": (lambda d: d.buffer[0], lambda x: None),
    "transposed": (lambda d: d.buffer.mT, lambda x: None),
    "kept row": (lambda d: d.kept, lambda x: x[0]),
}


@pytest.mark.parametrize("kind", KEPT)
def test_a_kept_tensor_that_is_written_over_is_collated_last(kind: str) -> None:
    """As in PyTorch: all samples are the one tensor, as its last sample left it."""
    (ours,) = DataLoader(Buffered(*KEPT[kind]), 4)
    (theirs,) = data.DataLoader(Buffered(*KEPT[kind]), 4)
    for batch in (ours, theirs):
        if isinstance(batch, dict):
            x = batch["x"]
        else:
            x = batch[0] if isinstance(batch, list) else batch
        assert type(x) is torch.Tensor
        assert x.flatten(1)[:, 0].tolist() == [3] * 4


def test_new_tensors_are_batched_as_in_pytorch() -> None:
    dataset = [(torch.full(SHAPE, float(i)), i) for i in range(8)]

    class New(data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            return dataset[index][0].clone(), index

    for workers in (0, 1):
        for (x, y), (their_x, their_y) in zip(
            DataLoader(New(), 4, num_workers=workers), data.DataLoader(dataset, 4), strict=True
        ):
            assert torch.equal(x, their_x)
            assert torch.equal(y, their_y)
