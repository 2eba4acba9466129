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
from tests.environment import environment

from .test_list import elements, keys

ROOT = Path(st.__file__).resolve().parent.parent


@settings(max_examples=40)
@given(some.lists(some.tuples(keys, elements), max_size=12), keys)
def test_it_is_the_dict_of_the_same_pairs(pairs: list[Any], other: Any) -> None:
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
        assert (other in container) == (other in table)
        assert container.get(other, "none") == table.get(other, "none")


def test_equal_numbers_are_one_key() -> None:
    container = st.SharedDict([(1, "a"), (True, "b"), (2.0, "c"), (2**80, "d")])
    assert list(container.items()) == [(1, "b"), (2.0, "c"), (2**80, "d")]
    for key in (1, 1.0, True, 1 + 0j, Fraction(1), np.int64(1), np.float32(1)):
        assert container[key] == "b"
    assert container[2] == "c"
    assert container[float(2**80)] == "d"
    assert -0.0 in st.SharedDict({0: 1})
    nan = float("nan")
    assert nan not in st.SharedDict({nan: 1, (nan,): 2})
    assert len(st.SharedDict([(nan, 1), (nan, 2)])) == 2


def test_subclasses_of_str_are_equal_to_it() -> None:
    class Color(str, enum.Enum):
        RED = "red"

    container = st.SharedDict({np.str_("blue"): 1, "red": 2})
    assert (container["blue"], container[np.str_("red")], container[Color.RED]) == (1, 2, 2)


@pytest.mark.parametrize(
    ("pairs", "error", "match"),
    [([(key, 1)], TypeError, "SharedDict: a key is a str, bytes, number")
     for key in (frozenset([1]), object(), ("a", object()))]
    + [([([], 1)], TypeError, "unhashable"), (5, TypeError, "not iterable"),
       ([1], TypeError, "SharedDict: element 0 is no pair: int"),
       (["abc"], ValueError, "is no pair, its length is 3"),
       ([(1, 2), (1,)], ValueError, "SharedDict: element 1 is no pair")],
)  # fmt: skip
def test_what_is_no_pair_of_key_and_value_is_refused(
    pairs: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        st.SharedDict(pairs)


def test_a_key_that_cannot_be_in_it_is_missing() -> None:
    container = st.SharedDict({1: 1})
    for key in (frozenset([1]), object(), ("a", object())):
        assert key not in container
        with pytest.raises(KeyError) as caught:
            container[key]
        assert caught.value.args == (key,)
    with pytest.raises(TypeError, match="unhashable"):
        container[[]]


def test_it_cannot_be_changed() -> None:
    container: Any = st.SharedDict({"a": 1})
    with pytest.raises(TypeError):
        container["a"] = 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(container)
    assert isinstance(container, Mapping)
    assert copy.copy(container) is copy.deepcopy(container) is container
    for other in ({"a": 2}, {"b": 1}, {}, 5):
        assert container != other


def test_views_are_those_of_a_dict() -> None:
    container: Any = st.SharedDict({"a": 1, "b": 2})
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
    """Also keys that come again when the block of their first value is full."""
    n, large = 200_000, b"z" * (65 << 20)
    pairs = [(f"key {i}", i) for i in range(n)]
    container = st.SharedDict([*pairs[: n // 2], ("large", large), *pairs[n // 2 :], ("key 0", 5)])
    assert len(container._blocks) == 2
    assert container["large"] == large
    assert container[f"key {n - 1}"] == n - 1
    assert f"key {n}" not in container
    assert next(iter(container.items())) == ("key 0", 5) == ("key 0", container["key 0"])
    assert sum(x for x in container.values() if x != large) == n * (n - 1) // 2 + 5
    assert container.nbytes > 2 * n * 8 + len(large)


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
