"""Samples that are tensors of PyTorch are copied to the batch's block early, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dataloaders.loader.sample_rows import copy_tensors_to_rows

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
SHAPE = (3, 128, 128)


def new_part() -> Any:
    return np.zeros((2, *SHAPE), np.float32)


@pytest.mark.parametrize("kind", ["tuple", "list", "dict", "tensor"])
def test_a_new_tensor_becomes_a_row(kind: str) -> None:
    part, x = new_part(), torch.rand(SHAPE)
    kept = x.clone()
    samples = {"tuple": (x, 1), "list": [x, 1], "dict": {0: x, 1: 1}, "tensor": x}
    sample = samples[kind]
    del x, samples
    out = copy_tensors_to_rows(sample, [(None if kind == "tensor" else 0, part)], 1)
    row = out if kind == "tensor" else out[0]
    assert type(row) is torch.Tensor
    assert row.data_ptr() == part[1].ctypes.data
    assert torch.equal(row, kept)
    assert not part[0].any()


def test_a_permuted_tensor_becomes_a_row() -> None:
    part = new_part()
    sample = (torch.arange(128 * 128 * 3.0).view(128, 128, 3).permute(2, 0, 1), 1)
    row, _ = copy_tensors_to_rows(sample, [(0, part)], 0)
    assert torch.equal(row, sample[0])
    assert row.data_ptr() == part.ctypes.data


def test_arrays_and_tensors_of_one_sample() -> None:
    first, second = new_part(), new_part()
    sample = (torch.ones(SHAPE), np.full(SHAPE, 2, np.float32), 3)
    x, y, n = copy_tensors_to_rows(sample, [(0, first), (1, second)], 0)
    assert (type(x), type(y), n) == (torch.Tensor, np.ndarray, 3)
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
    assert copy_tensors_to_rows(sample, [(0, part)], 0) is sample
    assert not part.any()


def test_a_tensor_that_something_refers_to_stays() -> None:
    part, kept = new_part(), torch.ones(SHAPE)
    sample = (kept, 1)
    assert copy_tensors_to_rows(sample, [(0, part)], 0) is sample


def test_samples_of_another_structure_stay() -> None:
    part = new_part()
    for sample in ((), [], {1: 2}, 7, "text"):
        assert copy_tensors_to_rows(sample, [(0, part)], 0) is sample
