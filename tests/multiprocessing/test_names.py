"""Names that are the standard library's own, or stand in for it: present, and meaning the same."""

from __future__ import annotations

import importlib
import logging
import multiprocessing as standard
import os
from pathlib import Path

import pytest

from shmtensor import multiprocessing as mp

SAME = ["AuthenticationError", "BufferTooShort", "ProcessError", "TimeoutError", "active_children",
        "current_process", "parent_process"]  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_is_the_standard_librarys(name: str) -> None:
    assert getattr(mp, name) is getattr(standard, name)


# Public names of torch.multiprocessing 2.13 beside the standard library's.
PYTORCH = [
    "ENV_VAR_PARALLEL_START",
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
# Public names of the standard library's modules.
MODULES = {
    "connection": ["Client", "Listener", "Pipe", "wait"],
    "managers": ["BaseManager", "BaseProxy", "SharedMemoryManager", "SyncManager", "Token"],
    "pool": ["Pool", "ThreadPool"],
    "queues": ["JoinableQueue", "Queue", "SimpleQueue"],
    "reduction": [
        "DupFd",
        "ForkingPickler",
        "dump",
        "recv_handle",
        "recvfds",
        "register",
        "send_handle",
        "sendfds",
    ],
    "shared_memory": ["ShareableList", "SharedMemory"],
    "sharedctypes": ["Array", "RawArray", "RawValue", "Value", "copy", "synchronized"],
    "synchronize": ["BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"],
    "context": [],
    "dummy": [],
    "process": [],
    "util": [],
    "heap": [],
    "resource_sharer": [],
    "resource_tracker": [],
}
# What is not here; docs/design/multiprocessing.md answers each.
ANSWERED = {
    "init_reductions",
    "reductions",
    "heap",
    "resource_sharer",
    "resource_tracker",
    "managers.SharedMemoryManager",
    "reduction.DupFd",
    "reduction.dump",
    "reduction.recv_handle",
    "reduction.recvfds",
    "reduction.register",
    "reduction.send_handle",
    "reduction.sendfds",
}


def test_every_name_is_present_or_answered() -> None:
    absent = {name for name in [*standard.__all__, *PYTORCH, *MODULES] if not hasattr(mp, name)}
    for module, names in MODULES.items():
        absent |= {f"{module}.{n}" for n in names if not hasattr(getattr(mp, module, mp), n)}
    assert absent == ANSWERED
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "design" / "multiprocessing.md").read_text()
    assert not [name for name in ANSWERED if f"`{name}`" not in page]


@pytest.mark.parametrize("name", MODULES)
def test_the_list_of_a_module_is_whole(name: str) -> None:
    if MODULES[name]:
        module = importlib.import_module(f"multiprocessing.{name}")
        assert set(module.__all__) <= set(MODULES[name])


def test_a_module_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = mp.nonsense


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


def test_process_context_is_the_spawn_context() -> None:
    assert mp.SpawnContext is mp.ProcessContext or issubclass(mp.SpawnContext, mp.ProcessContext)


def test_ctypes_objects_are_copied_and_get_locks() -> None:
    array = mp.RawArray("i", [1, 2])
    other = mp.sharedctypes.copy(array)
    other[0] = 5
    assert (list(array), list(other)) == ([1, 2], [5, 2])
    with mp.sharedctypes.synchronized(other, mp.RLock()).get_lock():
        assert mp.sharedctypes.Value("d", 1.5).value == 1.5
