"""Names that are the standard library's own, or stand in for it: present, and meaning the same."""

from __future__ import annotations

import logging
import multiprocessing as standard
import os

import pytest

from shmtensor import multiprocessing as mp

SAME = ["AuthenticationError", "BufferTooShort", "ProcessError", "TimeoutError", "active_children",
        "current_process", "parent_process"]  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_is_the_standard_librarys(name: str) -> None:
    assert getattr(mp, name) is getattr(standard, name)


def test_every_name_of_the_standard_library_is_here() -> None:
    assert not [name for name in standard.__all__ if not hasattr(mp, name)]


def test_start_methods() -> None:
    assert mp.get_all_start_methods() == standard.get_all_start_methods()
    assert mp.get_start_method() == standard.get_context().get_start_method()
    assert mp.cpu_count() == os.cpu_count()
    context = mp.get_context("spawn")
    assert context.get_start_method() == "spawn"
    with pytest.raises(ValueError, match="nonsense"):
        mp.set_start_method("nonsense", force=True)


def test_harmless_calls() -> None:
    mp.freeze_support()
    mp.allow_connection_pickling()
    assert isinstance(mp.get_logger(), logging.Logger)


def test_a_log_goes_to_stderr() -> None:
    logger = mp.get_logger()
    before = list(logger.handlers)
    try:
        assert mp.log_to_stderr(logging.ERROR) is logger
        assert len(logger.handlers) == len(before) + 1
    finally:
        for handler in logger.handlers[len(before) :]:
            logger.removeHandler(handler)


def test_executable_and_preload_are_taken() -> None:
    from multiprocessing import spawn

    before = spawn.get_executable()
    try:
        mp.set_executable("/nowhere/python")
        assert os.fsdecode(spawn.get_executable()) == "/nowhere/python"
    finally:
        mp.set_executable(before)
    with pytest.raises(TypeError):
        mp.set_forkserver_preload([1])
    mp.set_forkserver_preload([])


def test_one_sharing_strategy() -> None:
    assert mp.get_all_sharing_strategies() == {mp.get_sharing_strategy()}
    mp.set_sharing_strategy("file_descriptor")  # PyTorch's scripts call it
    with pytest.raises(ValueError, match="nonsense"):
        mp.set_sharing_strategy("nonsense")


def test_manager_serves() -> None:
    with mp.Manager() as manager:
        shared = manager.dict(a=1)
        assert shared["a"] == 1


def test_raw_array_is_shared() -> None:
    array = mp.RawArray("i", [1, 2, 3])
    assert list(array) == [1, 2, 3]


def test_process_context_is_the_spawn_context() -> None:
    assert mp.SpawnContext is mp.ProcessContext or issubclass(mp.SpawnContext, mp.ProcessContext)
