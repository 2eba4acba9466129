"""Walking a tree of modules."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import nn


def tree() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.LayerNorm(2)))


def test_dotted_names_lead_to_their_object() -> None:
    model = tree()
    assert model.get_submodule("1.1") is model[1][1]
    assert model.get_submodule("") is model
    assert model.get_parameter("1.1.weight") is model[1][1].weight
    model[1].register_buffer("b", st.ones(1))
    assert model.get_buffer("1.b") is model[1].b
    for call, name in [
        (model.get_submodule, "2"),
        (model.get_submodule, "0.weight"),
        (model.get_parameter, "1.1.none"),
        (model.get_buffer, "0.weight"),
    ]:
        with pytest.raises(AttributeError):
            call(name)


def test_shared_modules_and_parameters_come_once() -> None:
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)
    assert len(list(model.modules())) == 2
    assert len(list(model.parameters())) == 2
    assert len(list(model.named_parameters(remove_duplicate=False))) == 4
    assert len(list(model.children())) == 1
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    assert [n for n, _ in tied.named_parameters()] == ["0.weight", "0.bias", "1.bias"]


def test_recurse_false_stays_here() -> None:
    assert list(tree().parameters(recurse=False)) == []
    assert [n for n, _ in tree().named_modules(prefix="m")][:2] == ["m", "m.0"]
