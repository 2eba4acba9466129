"""Programs that tests start find this checkout, and what the environment's PYTHONPATH holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.environment import ROOT, environment


def test_the_root_comes_first_and_the_rest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/elsewhere", "", str(ROOT), "/third"]))
    path = environment(SOMETHING=3)["PYTHONPATH"].split(os.pathsep)
    assert path == [str(ROOT), "/elsewhere", "/third"]
    assert environment(SOMETHING=3)["SOMETHING"] == "3"
    path = environment(Path("/first"), ROOT)["PYTHONPATH"].split(os.pathsep)
    assert path == ["/first", str(ROOT), "/elsewhere", "/third"]


def test_without_a_path_it_is_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert environment() == {**os.environ, "PYTHONPATH": str(ROOT)}
