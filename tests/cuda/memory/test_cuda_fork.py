"""After a fork the child has nothing of its parent's GPU memory, and touches nothing."""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from tests.cuda.memory.peer import peers, until


def in_child(function: Callable[[], object]) -> int:
    """The exit code of a forked child that runs `function`."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def holds_of_a_child() -> int:
    """How many blocks a child forked now holds: those of its parent's in the heap."""
    reader, writer = os.pipe()
    try:
        assert not in_child(
            lambda: os.write(writer, native.statistics()["held_blocks"].to_bytes(4, "little"))
        )
        return int.from_bytes(os.read(reader, 4), "little")
    finally:
        os.close(reader)
        os.close(writer)


def test_every_entry_point_names_spawn_and_forkserver(cp: Any, mc: ModuleType) -> None:
    x = cp.zeros(10)
    message = mc.export(x)

    def child() -> None:
        for name, call in {
            "empty": lambda: cp.empty(10),
            "install": mc.install,
            "uninstall": mc.uninstall,
            "export": lambda: mc.export(x),
            "receive": lambda: mc.receive(message),
            "empty_cache": mc.empty_cache,
            "memory_allocated": mc.memory_allocated,
            "memory_stats": mc.memory_stats,
            "memory_summary": mc.memory_summary,
            "note_use": lambda: mc.note_use(x),
            "check_alive": lambda: mc.check_alive(x),
            "poll": mc.poll,
        }.items():
            with pytest.raises(RuntimeError, match="'spawn' or 'forkserver'"):
                call()
                print("no error:", name)

    assert in_child(child) == 0
    assert float(mc.receive(message).sum()) == 0


def test_a_childs_finalisers_touch_nothing(cp: Any, mc: ModuleType) -> None:
    arrays = [cp.zeros(10), cp.zeros(20)]
    mc.note_use(arrays[0], cp.cuda.Stream(non_blocking=True))
    with peers() as [peer]:
        arrays.append(mc.receive(peer.do("x = cupy.zeros(10); out = mc.export(x)")))
        arrays.append(mc.receive(mc.export(arrays[0])))
        allocated, held = mc.memory_allocated(), mc.memory_stats()["held_blocks"]

        def child() -> None:
            arrays.clear()
            gc.collect()

        assert in_child(child) == 0
        assert (mc.memory_allocated(), mc.memory_stats()["held_blocks"]) == (allocated, held)
        assert native.check() is None
        assert float(arrays[2].sum()) == 0
        arrays.clear()


def test_a_child_has_no_holds_of_slabs(cp: Any, mc: ModuleType) -> None:
    """Its row has holds of its parent's blocks in the heap alone, so its end changes nothing here,
    and while it lives the block comes back.
    """
    kept = st.ones(10)
    with peers() as [peer]:
        expected = holds_of_a_child()
        assert expected >= 1
        x = mc.receive(peer.do("x = cupy.full(1000, 4, np.uint8); out = mc.export(x)"))

        def child() -> None:
            assert native.check() is None
            assert native.statistics()["held_blocks"] == expected
            os.read(reader, 1)

        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.close(writer)
                child()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        del x
        peer.do("del x")
        came_back = until(lambda: peer.do("mc.poll(); out = mc.memory_stats()['lent_blocks']") == 0)
        os.close(writer)
        os.close(reader)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert came_back
    assert kept.tolist() == [1.0] * 10


def test_a_child_of_a_process_without_cuda_may_use_it() -> None:
    from tests.cuda.standin.program import run

    code = """
        import shmtensor.memory.cuda as mc
        pid = os.fork()
        mc.install()
        x = cupy.ones(3)
        assert float(x.sum()) == 3
        if not pid:
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """
    code, out, errors = run(code)  # type: ignore[assignment]
    assert (code, out.strip(), errors) == (0, "0", "")


def test_values_survive_a_fork(cp: Any, mc: ModuleType) -> None:
    x = cp.arange(100, dtype=np.uint8)
    assert in_child(lambda: None) == 0
    y = x + 1
    assert (y.get() == np.arange(1, 101)).all()
