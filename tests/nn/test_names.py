"""The names of nn: every layer, and no module file."""

from __future__ import annotations

from types import ModuleType

from shmtensor import nn


def test_every_layer_of_modules_is_in_nn() -> None:
    layers = {name: x for name, x in vars(nn.modules).items() if isinstance(x, type)}
    assert len(layers) > 150
    assert {name: getattr(nn, name) for name in layers} == layers


def test_private_names_that_programs_import() -> None:
    from shmtensor.nn.modules.module import _addindent, _IncompatibleKeys

    assert _addindent("a\nb\nc", 2) == "a\n  b\n  c"
    keys = nn.Linear(1, 1).load_state_dict({}, strict=False)
    assert isinstance(keys, _IncompatibleKeys)


def test_files_of_layers_are_in_modules_only() -> None:
    packages = {name for name, x in vars(nn).items() if isinstance(x, ModuleType)}
    files = {"attention", "functional", "init", "modules", "parallel", "parameter", "utils"}
    later = {"common_types", "grad"}  # imported on first access
    assert files <= packages <= files | later
    assert nn.modules.conv.Conv2d is nn.Conv2d
    assert nn.utils.__name__ == "shmtensor.nn.utils"
    assert nn.modules.utils.__name__ == "shmtensor.nn.modules.utils"
