"""Docstrings of public names have NumPy's form, name every argument, and their examples run.

`python -m tests.test_docstrings MODULE ...` shows what those of a module lack.
"""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from tests.test_public import MODULES, public

# What every function of the table takes alike, as in PyTorch.
COMMON = {"out", "layout", "pin_memory"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def parameters(value: Any) -> list[str]:
    """Names of the arguments that the docstring has to explain."""
    if inspect.isclass(value) and issubclass(value, Enum):
        return []  # no one calls it: its members are its interface
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.name not in COMMON and not p.name.startswith("_")]


def sections(text: str) -> dict[str, str]:
    """Title -> text of the sections, which are underlined, of a docstring."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}$\n?", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def lacking(value: Any) -> list[str]:
    """The parts that a docstring lacks."""
    text = inspect.getdoc(value) or ""
    found = sections(text)
    lacks = []
    if not re.match(r"[^\n]+(\n[^\n]+){0,2}[.:]\s*(\n\n|$)", text):
        lacks.append("a first sentence, at most three lines, with a full stop")
    explained = re.findall(
        r"^(\*{0,2}\w[\w, *]*?)(?: :.*)?$", found.get("Parameters", ""), flags=re.M
    )
    names = {name.strip("* ") for line in explained for name in line.split(",")}
    if missing := [name for name in parameters(value) if name not in names]:
        lacks.append(f"Parameters: {', '.join(missing)}")
    if inspect.isclass(value):
        pass
    elif not {"Returns", "Yields"} & found.keys() and returns_something(value):
        lacks.append("Returns")
    if ">>> " not in found.get("Examples", ""):
        lacks.append("Examples")
    return lacks


def returns_something(function: Any) -> bool:
    try:
        return inspect.signature(function).return_annotation not in (None, "None", "NoReturn")
    except (TypeError, ValueError):
        return False


def documented(module: str) -> dict[str, Any]:
    """The public functions and classes whose docstrings are ours, each object once."""
    seen: dict[int, tuple[str, Any]] = {}
    for name, value in sorted(public(module).items()):
        if not callable(value) or isinstance(value, (st.dtype, type(st.float32))):
            continue
        if inspect.isclass(value) and issubclass(value, (BaseException, tuple)):
            continue
        if name.endswith("_") and hasattr(st.Tensor, name):
            continue  # the text is that of the function without underscore
        if (getattr(value, "__module__", None) or "shmtensor").partition(".")[0] == "shmtensor":
            seen.setdefault(id(value), (name, value))
    return dict(seen.values())


def incomplete(module: str) -> dict[str, list[str]]:
    """What the docstrings of the module lack, by name."""
    found = {name: lacking(value) for name, value in documented(module).items()}
    return {name: lacks for name, lacks in found.items() if lacks}


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_have_their_parts(module: str) -> None:
    found = incomplete(module)
    lines = [f"{name}: {'; '.join(lacks)}" for name, lacks in found.items()]
    assert not found, "\n".join(lines)


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class that are ours, with those of its bases."""
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] == "shmtensor":
            for name, value in vars(base).items():
                if not name.startswith("_"):
                    yield name, getattr(value, "__func__", value)


def examples(module: str) -> Iterator[doctest.DocTest]:
    """Those of functions, classes and their methods whose imports are installed."""
    parser = doctest.DocTestParser()
    texts: dict[str, str] = {}  # each text once, with the first name that has it
    for name, value in documented(module).items():
        texts.setdefault(inspect.getdoc(value) or "", name)
        for method, function in methods(value) if inspect.isclass(value) else ():
            texts.setdefault(inspect.getdoc(function) or "", f"{name}.{method}")
    for text, name in texts.items():
        imported = re.findall(r"^>>> (?:from|import) (\w+)", text, flags=re.M)
        if ">>> " in text and all(map(find_spec, imported)):
            names = {"st": st, "np": np, "F": st.nn.functional, "nn": st.nn}
            yield parser.get_doctest(text, names, f"{module}.{name}", None, None)


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what an example saves goes there
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    said: list[str] = []
    for example in examples(module):
        st.manual_seed(0)
        runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        (
            "Adds.\n\nParameters\n----------\nx : int\n    1.\ny : int\n    2.",
            ["Returns", "Examples"],
        ),
        ("Adds.\n\nParameters\n----------\nx, y : Tensor\n    Both.\n\nReturns\n-------\nTensor\n\n"
         "Examples\n--------\n>>> 1\n1", []),
        ("Adds", ["a first sentence", "Parameters: x, y", "Returns", "Examples"]),
    ],
)  # fmt: skip
def test_what_lacks_is_found(text: str, lacks: list[str]) -> None:
    def add(x: Any, y: Any) -> Any:
        return x + y

    add.__doc__ = text
    found = lacking(add)
    assert len(found) == len(lacks), found
    assert all(a.startswith(b) for a, b in zip(found, lacks, strict=True)), found


if __name__ == "__main__":
    for module in sys.argv[1:] or MODULES:
        for name, lacks in incomplete(module).items():
            print(f"{module}.{name}: {'; '.join(lacks)}")
