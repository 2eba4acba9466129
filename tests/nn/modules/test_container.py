"""Sequential, lists and dictionaries of modules and parameters."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import shmtensor as st
from shmtensor import nn


def test_sequential_indexes_like_a_list() -> None:
    m = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(m) == 3
    assert m[-1] is m[2]
    assert [type(x).__name__ for x in m[1:]] == ["ReLU", "Linear"]
    m[1] = nn.Tanh()
    assert isinstance(m[1], nn.Tanh)
    m.insert(1, nn.Identity())
    m.append(nn.Flatten()).extend([nn.Identity()])
    assert list(m._modules) == [str(i) for i in range(6)]
    del m[1]
    assert isinstance(m.pop(-1), nn.Identity)
    assert len(m) == 4
    assert len(m + nn.Sequential(nn.ReLU())) == 5
    with pytest.raises(IndexError, match="out of range"):
        m[9]
    with pytest.raises(TypeError, match="integers or slices"):
        m["a"]


def test_sequential_of_a_list_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"list is not a Module.*: \[Identity.*Sequential\(\*layers"
    ):
        nn.Sequential([nn.Identity()])


def test_sequential_of_a_class_or_a_function_is_refused() -> None:
    with pytest.raises(TypeError, match=r"hint: ReLU\(\) makes a module"):
        nn.Sequential(nn.Linear(1, 1), nn.ReLU)
    with pytest.raises(TypeError, match=r"function relu.*hint: a function is called in forward"):
        nn.Sequential(nn.Linear(1, 1), nn.functional.relu)


def test_sequential_of_a_dictionary_keeps_names() -> None:
    m = nn.Sequential(OrderedDict(first=nn.Linear(2, 2), second=nn.ReLU()))
    assert list(m.state_dict()) == ["first.weight", "first.bias"]
    assert list(m[:1]._modules) == ["first"]
    assert m(st.ones(1, 2)).shape == (1, 2)


def test_module_list_registers_and_refuses_calls() -> None:
    m = nn.ModuleList([nn.Linear(1, 1) for _ in range(2)])
    m += [nn.Linear(1, 1)]
    assert len(list(m.parameters())) == 6
    assert len(m) == 3
    assert [n for n, _ in nn.ModuleList([*m])[0].named_parameters()] == ["weight", "bias"]
    with pytest.raises(NotImplementedError, match="ModuleList"):
        m(1)
    with pytest.raises(TypeError, match="Module subclass"):
        m.append(3)


def test_module_dict_is_a_dictionary() -> None:
    m = nn.ModuleDict({"a": nn.Linear(1, 1)})
    m["b"] = nn.ReLU()
    m.update([("c", nn.Tanh())])
    assert list(m) == ["a", "b", "c"]
    assert "b" in m
    assert len(m) == 3
    assert isinstance(m.pop("c"), nn.Tanh)
    del m["b"]
    assert [k for k, _ in m.items()] == ["a"]
    assert list(m.keys()) == ["a"]
    assert len(list(m.parameters())) == 2
    with pytest.raises(ValueError, match="length 3"):
        m.update([(1, 2, 3)])
    m.clear()
    assert len(m) == 0


def test_parameter_list_makes_parameters() -> None:
    m = nn.ParameterList([st.ones(1), nn.Parameter(st.ones(2))])
    m.append(st.ones(3)).extend([st.ones(4)])
    assert [p.numel() for p in m] == [1, 2, 3, 4]
    assert all(isinstance(p, nn.Parameter) for p in m)
    assert m[-1].numel() == 4
    assert len(m[1:3]) == 2
    m[0] = st.ones(7)
    assert [n for n, _ in m.named_parameters()] == ["0", "1", "2", "3"]
    assert "(0): Parameter containing: [float32 of size 7]" in repr(m)
    with pytest.raises(IndexError):
        m[4]


def test_parameter_dict_makes_parameters() -> None:
    m = nn.ParameterDict({"a": st.ones(1)})
    m["b"] = st.ones(2)
    assert list(m) == ["a", "b"]
    assert isinstance(m["b"], nn.Parameter)
    assert m.get("x") is None
    assert m.pop("a").numel() == 1
    assert list(m.state_dict()) == ["b"]
    with pytest.raises(AttributeError, match="no attribute 'a'"):
        m["a"]


def test_sequential_times_a_number_repeats_the_same_modules() -> None:
    s = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert [type(m).__name__ for m in s * 2] == ["ReLU", "Tanh"] * 2
    assert (2 * s)[2] is s[0]
    s *= 3
    assert len(s) == 6
    for factor, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error):
            s * factor


def test_module_list_shows_equal_neighbours_once() -> None:
    m = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])
    assert repr(m) == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_parameter_dict_keeps_an_order() -> None:
    p = nn.Parameter(st.ones(1))
    assert list(nn.ParameterDict({"b": p, "a": p})) == ["a", "b"]  # as PyTorch sorts a plain one
    m = nn.ParameterDict([("b", p), ("a", p)])
    assert list(m) == ["b", "a"]
    assert list(reversed(m)) == ["a", "b"]
    m |= nn.ParameterDict({"c": p})
    assert list(m.copy() | {"d": p}) == ["b", "a", "c", "d"]
    assert m.popitem() == ("c", p)
    assert m.setdefault("a") is p
    assert list(m.fromkeys(["x"], 1)) == ["x"]
    m.clear()
    assert len(m) == 0
    with pytest.raises(TypeError, match="must be a string"):
        m[1] = p
    with pytest.raises(TypeError, match="element #0 is no pair: int"):
        m.update([3])
