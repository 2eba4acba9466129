"""SharedDict is a dict that cannot be changed: the same keys, the same order, the same errors."""

from __future__ import annotations

import copy
import enum
import pickle
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import shmtensor as st
from shmtensor.shared_containers import SharedDict
from tests.environment import environment

from .test_list import elements, keys

ROOT = Path(st.__file__).resolve().parent.parent


@settings(max_examples=40)
@given(some.lists(some.tuples(keys, elements), max_size=12))
def test_it_is_the_dict_of_the_same_pairs(pairs: list[Any]) -> None:
    table = dict(pairs)
    for container in (st.SharedDict(pairs), st.SharedDict(table), st.SharedDict(iter(pairs))):
        assert container == table
        assert table == container
        assert list(container) == list(container.keys()) == list(table)
        assert list(container.values()) == list(table.values())
        assert list(container.items()) == list(table.items())
        assert list(reversed(container)) == list(reversed(table))
        assert len(container) == len(container.keys()) == len(table)
        for key, value in table.items():
            assert key in container
            assert container[key] == container.get(key) == value


@given(some.dictionaries(keys, some.integers()), keys)
def test_a_missing_key_is_missing(table: dict[Any, int], key: Any) -> None:
    container = st.SharedDict(table)
    assert (key in container) == (key in table)
    assert container.get(key, "none") == table.get(key, "none")
    if key not in table:
        with pytest.raises(KeyError) as caught:
            container[key]
        assert caught.value.args == (key,)


def test_equal_numbers_are_one_key() -> None:
    container = st.SharedDict([(1, "a"), (True, "b"), (2.0, "c"), (2**80, "d")])
    assert list(container.items()) == [(1, "b"), (2.0, "c"), (2**80, "d")]
    for key in (1, 1.0, True, 1 + 0j, Fraction(1), np.int64(1), np.float32(1)):
        assert container[key] == "b"
    assert container[2] == "c"
    assert container[float(2**80)] == "d"
    assert -0.0 in st.SharedDict({0: 1})
    assert float("nan") not in st.SharedDict({float("nan"): 1})


def test_subclasses_of_str_are_equal_to_it() -> None:
    class Color(str, enum.Enum):
        RED = "red"

    container = st.SharedDict({np.str_("blue"): 1, "red": 2})
    assert container["blue"] == 1
    assert container[np.str_("red")] == 2
    assert container[Color.RED] == 2


@pytest.mark.parametrize(
    "key", [frozenset([1]), object(), ("a", object())], ids=["frozenset", "object", "tuple"]
)
def test_keys_of_other_types_are_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="SharedDict: a key is a str, bytes, number"):
        st.SharedDict({key: 1})
    assert key not in st.SharedDict({1: 1})


def test_unhashable_keys_are_refused() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        st.SharedDict([([], 1)])
    with pytest.raises(TypeError, match="unhashable"):
        st.SharedDict({1: 1})[[]]


@pytest.mark.parametrize(
    ("pairs", "error"),
    [([1], TypeError), (["abc"], ValueError), ([(1,)], ValueError), (5, TypeError)],
)
def test_what_is_no_pair_is_refused(pairs: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        st.SharedDict(pairs)


def test_it_cannot_be_changed() -> None:
    container: Any = SharedDict({"a": 1})
    with pytest.raises(TypeError):
        container["a"] = 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(container)
    assert isinstance(container, Mapping)
    assert copy.copy(container) is copy.deepcopy(container) is container
    assert container != {"a": 2}
    assert container != {"b": 1}
    assert container != 5


def test_views_are_those_of_a_dict() -> None:
    container = st.SharedDict({"a": 1, "b": 2})
    assert container.keys() & {"a", "c"} == {"a"}
    assert ("b", 2) in container.items()
    assert 2 in container.values()
    assert list(reversed(container.items())) == [("b", 2), ("a", 1)]
    assert list(reversed(container.values())) == [2, 1]
    assert list(reversed(container.keys())) == ["b", "a"]
    assert dict(container) == {**container} == {"a": 1, "b": 2}


def test_arrays_are_views() -> None:
    container = st.SharedDict({"x": np.arange(3), "t": st.ones(2)}, readonly=False)
    container["x"][0] = 9
    assert container["x"].tolist() == [9, 1, 2]
    assert isinstance(container["t"], st.Tensor)
    assert not container.readonly
    assert st.SharedDict({"x": np.arange(3)})["x"].flags.writeable is False


def test_the_repr_is_short() -> None:
    assert repr(st.SharedDict({"a": 1})) == "SharedDict({'a': 1})"
    assert repr(st.SharedDict(zip(range(100), range(100)))).endswith("4: 4, ...}, 100 pairs)")


def test_many_keys() -> None:
    n = 200_000
    container = st.SharedDict((f"key {i}", i) for i in range(n))
    assert container["key 0"] == 0
    assert container[f"key {n - 1}"] == n - 1
    assert f"key {n}" not in container
    assert sum(container.values()) == n * (n - 1) // 2
    assert container.nbytes > 2 * n * 8


def test_hashes_are_those_of_every_process() -> None:
    """A child whose strings hash differently finds every key."""
    table = {"a": 1, "é": 2, b"b": 3, 1.5: 4, ("t", None, 2): 5, 2**90: 6, None: 7}
    code = (
        "import pickle, sys; d, keys = pickle.load(sys.stdin.buffer);"
        "assert [d[k] for k in keys] == [1, 2, 3, 4, 5, 6, 7]"
    )
    for seed in ("1", "2"):
        process = subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps((st.SharedDict(table), list(table))),
            env=environment(ROOT, PYTHONHASHSEED=seed),
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert process.returncode == 0, process.stderr.decode()
