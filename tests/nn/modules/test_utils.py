"""Sizes as tuples, and names without their prefix."""

from __future__ import annotations

import re

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.modules.utils import (
    _list_with_default,
    _ntuple,
    _pair,
    _quadruple,
    _reverse_repeat_tuple,
    _single,
    _triple,
    consume_prefix_in_state_dict_if_present,
)


def test_one_number_is_repeated() -> None:
    assert (_single(2), _pair(2), _triple(2)) == ((2,), (2, 2), (2, 2, 2))
    assert _quadruple("abcd") == ("a", "b", "c", "d")
    assert _ntuple(5)(None) == (None,) * 5
    assert _pair([1, 2, 3]) == (1, 2, 3)
    assert _pair.__name__ == "_pair"
    assert _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)


def test_missing_sizes_are_those_of_the_input() -> None:
    assert _list_with_default((None, 7), [2, 3, 4, 5]) == [4, 7]
    assert _list_with_default(3, [2]) == 3
    with pytest.raises(ValueError, match=r"3 dimensions or more: \(4, 5\)"):
        _list_with_default((1, 2), [4, 5])


def test_prefix_is_taken_from_names_and_metadata() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    wrapped = nn.Module()
    wrapped.module = model
    state = wrapped.state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == list(model.state_dict())
    assert set(state._metadata) == {"", "0"}
    model.load_state_dict(state)
    plain = {"a": st.ones(1)}
    consume_prefix_in_state_dict_if_present(plain, "module.")
    assert list(plain) == ["a"]


def test_the_package_of_the_same_name_is_seen() -> None:
    assert nn.utils.clip_grad_norm_ is not None
    assert nn.modules.utils._pair is _pair


@pytest.mark.parametrize(
    ("layer", "arguments", "text"),
    [
        (nn.Linear, ("4", 2), "Linear: in_features must be an int: got str, '4'"),
        (nn.Linear, (4, 2.0), "Linear: out_features must be an int: got float, 2.0"),
        (nn.Bilinear, (4, None, 3), "Bilinear: in2_features must be an int: got NoneType, None"),
        (nn.Conv2d, (3, "8", 3), "Conv2d: out_channels must be an int: got str, '8'"),
        (nn.Conv2d, (3, 8, "3"), "Conv2d: kernel_size must be an int: got tuple, ('3',)"),
        (nn.ConvTranspose1d, (3, 8, 2, 1.5), "stride must be an int: got tuple, (1.5,)"),
        (nn.BatchNorm2d, ("3",), "BatchNorm2d: num_features must be an int: got str, '3'"),
        (nn.LayerNorm, (3.0,), "LayerNorm: normalized_shape must be an int: got float, 3.0"),
        (nn.RMSNorm, ((3, "4"),), "normalized_shape must be an int: got tuple, (3, '4')"),
        (nn.GroupNorm, (2, 4.0), "GroupNorm: num_channels must be an int: got float, 4.0"),
        (nn.Embedding, ("3", 4), "Embedding: num_embeddings must be an int: got str, '3'"),
    ],
)
def test_sizes_that_are_no_numbers_are_shown(layer, arguments, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        layer(*arguments)


def test_sizes_may_be_numpys_numbers() -> None:
    two = np.int64(2)
    assert nn.Linear(two, two)(st.ones(1, 2)).shape == (1, 2)
    assert nn.Conv1d(two, two, two)(st.ones(1, 2, 3)).shape == (1, 2, 2)
    for layer in (nn.LayerNorm(two), nn.RMSNorm(two), nn.LayerNorm(range(2, 3))):
        assert layer.normalized_shape == (2,)
    assert nn.TransformerEncoderLayer(two, two, two)(st.ones(2, 2)).shape == (2, 2)


def test_a_size_that_is_not_used_may_be_none() -> None:
    assert nn.BatchNorm1d(None, affine=False, track_running_stats=False)(st.ones(2, 2)).sum() == 0
