"""Names that can be imported and written in annotations, and say why when they are called."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import subprocess
import sys
from typing import Any, get_type_hints

import pytest

import shmtensor as st
from shmtensor import refused_names
from shmtensor.refused_names import MODULES, REASONS, is_class, is_question, names_of


def value_of(name: str) -> Any:
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(f"shmtensor.{module}"), own)


@pytest.mark.parametrize("name", sorted(REASONS))
def test_a_call_raises_the_reason(name: str) -> None:
    value, own = value_of(name), name.rpartition(".")[2]
    assert isinstance(value, type) == is_class(own)
    assert value.__module__ == f"shmtensor.{name.rpartition('.')[0]}"
    assert REASONS[name] in value.__doc__
    for arguments, options in (((), {}), ((True,), {}), ((None, 1), {"stream": None})):
        if is_question(own):
            assert value(*arguments, **options) is False
            continue
        with pytest.raises(NotImplementedError) as error:
            value(*arguments, **options)
        where, _, reason = str(error.value).partition(": ")
        assert reason == REASONS[name]
        assert getattr(importlib.import_module(f"shmtensor.{where.rpartition('.')[0]}"), own)
    assert pickle.loads(pickle.dumps(value)) is value


def test_modules_are_imported_by_every_road() -> None:
    assert {name.rpartition(".")[0] for name in REASONS} == {*MODULES, "cuda.nccl"}
    for name in MODULES:
        module = importlib.import_module(f"shmtensor.{name}")
        assert importlib.util.find_spec(module.__name__) is module.__spec__
        assert module.__all__ == names_of(name)
        names: dict[str, Any] = {}
        exec(f"from shmtensor.{name} import *\nimport shmtensor.{name} as module", names)
        assert names["module"] is module
        assert set(module.__all__) <= set(names)
        with pytest.raises(AttributeError, match=f"'shmtensor.{name}' has no attribute 'lod'"):
            module.lod  # noqa: B018
    assert st.hub is sys.modules["shmtensor.hub"]
    assert st.cuda.CUDAGraph is st.cuda.graphs.CUDAGraph
    assert st.cuda.MemPool is st.cuda.memory.MemPool


def test_annotations_questions_and_subclasses() -> None:
    def step(graph: st.cuda.CUDAGraph, pool: st.cuda.MemPool | None = None) -> None:
        """As a program writes it."""

    assert get_type_hints(step)["graph"] is st.cuda.CUDAGraph
    assert not isinstance(step, st.cuda.CUDAGraph)
    assert not st.cuda.is_current_stream_capturing()
    assert not st.cuda.tunable.is_enabled()
    for name in ("enable", "tuning_enable", "record_untuned_enable"):
        assert getattr(st.cuda.tunable, name)(False) is None
        assert getattr(st.cuda.tunable, name)(val=False) is None

    class Mine(st.cuda.CUDAGraph):
        def __init__(self) -> None:
            """Does not call the one above."""

    with pytest.raises(NotImplementedError, match="CUDA graphs are not supported: ops allocate"):
        Mine()
    with pytest.raises(NotImplementedError, match="CUDA graphs"), st.cuda.graph(None):
        pass


def test_programs_find_tqdm_in_hub() -> None:
    from tqdm import tqdm

    assert st.hub.tqdm is tqdm


def test_the_table_costs_the_import_nothing() -> None:
    program = "import sys, shmtensor; sys.exit('shmtensor.refused_names' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=100, check=False).returncode == 0
    assert refused_names.spec_of("shmtensor.nn") is None
