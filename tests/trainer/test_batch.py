"""Parts of batches are views and cover the batch once; private tensors are moved and counted."""

from __future__ import annotations

from collections import UserDict, namedtuple
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.trainer.batches import Counter, as_tensors, part_of, samples_in, share

Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 64])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_parts_cover_the_batch_once(n: int, ranks: int) -> None:
    x = st.arange(float(n))
    parts = [part_of((x, {"again": x}), rank, ranks) for rank in range(ranks)]
    gathered = np.concatenate([part[0][0].numpy() for part in parts])
    np.testing.assert_array_equal(gathered, x.numpy())
    assert sum(size for _, size, _ in parts) == n
    assert {total for _, _, total in parts} == {n}
    for (a, mapping), _, _ in parts:
        assert np.shares_memory(a.numpy(), x.numpy()) or not a.numel()
        np.testing.assert_array_equal(mapping["again"].numpy(), a.numpy())


def test_nests_and_sizes() -> None:
    pair, size, total = part_of(Pair(st.zeros(4, 2), [st.ones(4)]), 1, 2)
    assert isinstance(pair, Pair)
    assert (tuple(pair.x.shape), size, total) == ((2, 2), 2, 4)
    assert samples_in(pair) == 2
    with pytest.raises(TypeError, match="no tensor"):
        samples_in("text")


def test_members_for_each_sample_are_split() -> None:
    boxes = [{"boxes": st.full((n, 4), n)} for n in (1, 3, 4, 0)]
    batch = {
        "x": st.arange(4), "text": list("abcd"), "boxes": boxes, "pair": (st.arange(4), None),
        "names": np.array(list("abcd")), "lengths": [1, 3, 4, 0], "task": "words", "two": [5, 6],
    }  # fmt: skip
    part, n, total = part_of(batch, 1, 2)
    assert (n, total, part["x"].tolist(), part["text"]) == (2, 4, [2, 3], ["c", "d"])
    assert [tuple(each["boxes"].shape) for each in part["boxes"]] == [(4, 4), (0, 4)]
    assert (part["pair"][0].tolist(), part["pair"][1]) == ([2, 3], None)
    assert (part["names"].tolist(), part["lengths"]) == (["c", "d"], [4, 0])
    assert (part["task"], part["two"]) == ("words", [5, 6])
    assert part_of(st.arange(4), 1, 2)[0].tolist() == [2, 3]
    two_by_two = [st.arange(2), st.arange(2)]  # no member for each sample: two tensors of a batch
    assert [x.tolist() for x in part_of((st.ones(2), two_by_two), 0, 2)[0][1]] == [[0, 1], [0, 1]]


def test_a_tensor_that_ranks_cannot_split_is_refused() -> None:
    batch = (st.ones(4, 2), st.ones(3))
    assert part_of(batch, 0, 1)[0] is batch
    with pytest.raises(ValueError, match=r"of 4 samples has a tensor of shape \(3,\).*nprocs=1"):
        part_of(batch, 0, 2)


def test_mappings_and_texts_of_arrays() -> None:
    batch = as_tensors(UserDict(x=np.ones(2), names=np.array(["a", "b"])))
    assert type(batch) is dict
    assert isinstance(batch["x"], st.Tensor)
    assert batch["names"].tolist() == ["a", "b"]


@pytest.mark.torch
def test_any_tensor_of_pytorch_becomes_one_of_ours() -> None:
    torch: Any = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.ones(2))
    assert isinstance(as_tensors([parameter])[0], st.Tensor)


def test_a_number_beside_the_samples_goes_to_all() -> None:
    batch = (st.tensor(0.5), st.arange(6))
    assert samples_in(batch) == 6
    part, n, total = part_of(batch, 1, 2)
    assert (part[0].item(), part[1].tolist(), n, total) == (0.5, [3, 4, 5], 3, 6)
    with pytest.raises(TypeError, match="has no tensor with a dimension"):
        samples_in((st.tensor(0.5),))


def test_sharing_copies_only_private_data() -> None:
    counter = Counter()
    shared = st.zeros(3)
    batch = share((shared, np.ones(4)), counter)
    assert batch[0] is shared
    assert counter.nbytes == 32
    assert native.is_shared(batch[1].array)
