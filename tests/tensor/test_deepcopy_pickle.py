"""Copies of tensors by Python's protocols, and new tensors with another one's layout."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st


def test_deepcopy_keeps_aliases() -> None:
    x = st.arange(12.0).reshape(3, 4)
    table: dict[str, Any] = {"whole": x, "row": x[1], "turned": x.t(), "part": x[1:, ::2]}
    copies = copy.deepcopy(table)
    copies["whole"].add_(100)
    for name, old in table.items():
        assert copies[name].tolist() == (old + 100).tolist(), name
        assert copies[name].stride() == old.stride(), name
    assert x[0, 0] == 0
    assert copy.deepcopy(x[1]).tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("dtype", [st.bfloat16, st.float16, st.bool, st.complex64, st.int8])
def test_deepcopy_of_views_of_every_size_of_item(dtype: Any) -> None:
    x = st.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    full, part = copy.deepcopy([x, x[:, 1:]])
    assert part.dtype is full.dtype is dtype
    full.fill_(1)
    assert part.float().tolist() == [[1, 1], [1, 1]]
    assert x.float().tolist() == [[0, 1, 1], [1, 0, 1]]


def test_deepcopy_of_an_expanded_tensor_stays_expanded() -> None:
    clone = copy.deepcopy(st.ones(1, 3).expand(2, 3))
    assert clone.stride() == (0, 1)
    assert clone.tolist() == [[1, 1, 1]] * 2


def test_deepcopy_of_one_tensor_of_foreign_memory_in_steps() -> None:
    array = np.arange(12.0)[::2]
    clone = copy.deepcopy(st.from_numpy(array))
    clone.add_(1)
    assert clone.tolist() == [1, 3, 5, 7, 9, 11]
    assert array[0] == 0


def test_tied_parameters_stay_tied_and_models_stay_apart() -> None:
    model = st.nn.Sequential(st.nn.Linear(2, 2), st.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    clone = copy.deepcopy(model)
    assert clone[1].weight is clone[0].weight
    clone[0].weight.data.fill_(7)
    assert not (model[0].weight == 7).any()


def test_copy_of_a_subclass_keeps_its_attributes() -> None:
    class Tagged(st.Tensor):
        tag: Any = None

    x = st.ones(3).as_subclass(Tagged)
    x.tag = 5
    clone = copy.copy(x)
    assert type(clone) is Tagged
    assert clone.tag == 5
    clone.tag = 6
    assert x.tag == 5


def test_copy_of_a_result_does_not_warn_of_its_grad() -> None:
    clone = copy.copy(st.ones(2, requires_grad=True) * 3)
    assert clone.is_leaf
    assert clone.grad is None
    assert clone.tolist() == [3, 3]


LIKE: dict[str, Any] = {
    "zeros_like": st.zeros_like,
    "ones_like": st.ones_like,
    "empty_like": st.empty_like,
    "full_like": lambda x, **kwargs: st.full_like(x, 2, **kwargs),
    "double": lambda x, **kwargs: x.double() if not kwargs else x.contiguous().to(**kwargs),
}


@pytest.mark.parametrize("name", LIKE)
def test_like_functions_keep_the_layout(name: str) -> None:
    like = LIKE[name]
    x = st.ones(2, 3, 4, 5).to(memory_format=st.channels_last)
    assert like(x).stride() == x.stride() == (60, 1, 15, 3)
    assert like(st.ones(3, 4).t()).stride() == (1, 4)
    assert like(st.ones(6, 8)[::2, ::2].t()).stride() == (1, 4)
    assert like(st.ones(3, 1).expand(3, 4)).stride() == (4, 1)
    assert like(x.contiguous(), memory_format=st.channels_last).stride() == x.stride()
    if name != "double":
        assert like(x, memory_format=st.contiguous_format).stride() == (60, 20, 5, 1)
        with pytest.raises(RuntimeError, match="rank 4"):
            like(st.ones(2, 3), memory_format=st.channels_last)
    assert like(st.ones(3, 4).t(), dtype=st.int32).dtype is st.int32 if name != "double" else True


def test_values_survive_a_cast_that_keeps_the_layout() -> None:
    x = st.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)
    for dtype in (st.float64, st.int32, st.bool, st.complex64, st.bfloat16):
        result = x.to(dtype)
        assert result.stride() == x.stride()
        assert result.tolist() == st.tensor(x.tolist()).to(dtype).tolist()


def test_nothing_has_the_strides_of_rows() -> None:
    for empty in (st.zeros(0, 3), st.ones(0, 3).to(st.int32), st.ones(2, 0, 3)):
        assert empty.stride()[-2:] == (3, 1)


VIEWS: dict[str, Any] = {
    "whole": lambda x: x,
    "row": lambda x: x[1],
    "column": lambda x: x[:, 1],
    "turned": lambda x: x.t(),
    "gaps": lambda x: x[1:, ::2],
    "number": lambda x: x[1, 2],
    "stretched": lambda x: x[:1].expand(3, 4),
    "empty": lambda x: x[:0],
    "other dtype": lambda x: x.view(st.int32),
}


@pytest.mark.parametrize("name", VIEWS)
def test_pickle_keeps_geometry_and_aliases(name: str) -> None:
    x = st.arange(12.0).view(3, 4)
    view = VIEWS[name](x)
    clone = pickle.loads(pickle.dumps(view))
    assert clone.tolist() == view.tolist()
    assert (clone.dtype, clone.shape) == (view.dtype, view.shape)
    assert clone.stride() == view.stride()
    assert clone.storage_offset() == view.storage_offset()
    full, part = pickle.loads(pickle.dumps((x, view)))
    full.fill_(7)
    assert part.tolist() == VIEWS[name](st.full((3, 4), 7.0)).tolist()
    assert x[0, 1] == 1


def test_a_pickled_expanded_tensor_is_read_only() -> None:
    clone = pickle.loads(pickle.dumps(st.ones(1, 3).expand(2, 3)))
    with pytest.raises(RuntimeError, match="cannot be written"):
        clone += 1


def test_pickle_keeps_the_gradient_of_a_leaf() -> None:
    x = st.tensor([1.0, 2.0], requires_grad=True)
    (x * 3).sum().backward()
    clone = pickle.loads(pickle.dumps(x))
    assert clone.requires_grad
    assert clone.grad.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match=r"not a leaf.*detach\(\)"):
        pickle.dumps(x * 2)


def test_pickle_of_channels_last_and_bfloat16() -> None:
    x = st.arange(24.0).view(1, 2, 3, 4).bfloat16().to(memory_format=st.channels_last)
    clone = pickle.loads(pickle.dumps(x))
    assert clone.stride() == x.stride()
    assert clone.dtype is st.bfloat16
    assert clone.float().tolist() == x.float().tolist()


def test_pickle_of_a_part_of_a_file_has_that_part_alone(tmp_path: Any) -> None:
    path = tmp_path / "numbers"
    np.arange(100_000.0).tofile(path)
    x = st.from_file(str(path), size=100_000, dtype=st.float64)
    text = pickle.dumps(x[3:5])
    assert len(text) < 1000
    assert pickle.loads(text).tolist() == [3, 4]
    assert copy.deepcopy(x[3:5]).untyped_storage().nbytes() == 16


@pytest.mark.parametrize(
    "roundtrip", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_frozen_parameters_stay_frozen(roundtrip: Any) -> None:
    clone = roundtrip(st.nn.Parameter(st.ones(2), requires_grad=False))
    assert type(clone) is st.nn.Parameter
    assert not clone.requires_grad
    assert roundtrip(st.nn.Parameter(st.ones(2))).requires_grad


def test_formats_are_the_same_objects_after_a_copy() -> None:
    for kind in (st.channels_last, st.preserve_format, st.strided, st.sparse_coo):
        assert copy.deepcopy(kind) is kind
        assert pickle.loads(pickle.dumps(kind)) is kind


@pytest.mark.parametrize(
    "make", [lambda x: x.max(0), lambda x: st.linalg.qr(x), lambda x: x.sort()]
)
def test_named_results_are_pickled(make: Any) -> None:
    result = make(st.tensor([[1.0, 2.0], [3.0, 4.0]]))
    clone = pickle.loads(pickle.dumps(result))
    assert type(clone) is type(result)
    assert [t.tolist() for t in clone] == [t.tolist() for t in result]
