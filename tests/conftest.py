"""After every test: no child process, no block, no descriptor and no /dev/shm entry is left."""

from __future__ import annotations

import gc
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes is the machine's affair: a loaded one would fail tests of values.
settings.register_profile("values", deadline=None)
settings.load_profile("values")


# What compares with PyTorch is left out where that is not installed.
HAS_TORCH = find_spec("torch") is not None
collect_ignore_glob = [] if HAS_TORCH else ["*against_torch*", "models"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not HAS_TORCH:
        left_out = [item for item in items if item.get_closest_marker("torch")]
        items[:] = [item for item in items if not item.get_closest_marker("torch")]
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish() -> None:
    """What was imported and collected is no garbage: no collection has to walk over it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _elsewhere() -> Iterator[None]:
    """Tests run in an empty folder: children import the installed package, not what lies there."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="tests-") as folder:
        os.chdir(folder)
        yield
        os.chdir(before)


@pytest.fixture(scope="session", autouse=True)
def _compiled_once() -> Iterator[None]:
    """Under PYTHONDONTWRITEBYTECODE, children find what earlier ones compiled in a folder that goes
    with the session: else each would compile every module again, half of its start."""
    with (
        tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as m,
    ):
        if sys.dont_write_bytecode:
            m.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            m.setenv("PYTHONPYCACHEPREFIX", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def _light_main() -> Iterator[None]:
    """Spawned children do not import pytest: bin/pytest counts as `python -m pytest`, and the
    `__main__` of a package is what multiprocessing does not import again."""
    main = sys.modules["__main__"]
    before = main.__spec__
    if before is None:
        main.__spec__ = ModuleSpec("pytest.__main__", None)
    yield
    main.__spec__ = before


def servants() -> list[object]:
    """Helper processes, ours and the standard library's, meant to outlive a test."""
    ours = sys.modules.get("shmtensor.multiprocessing.forkserver")
    known: list[object] = [forkserver._forkserver, resource_tracker._resource_tracker]  # type: ignore[attr-defined]
    return [*known, ours.server] if ours else known


def children() -> set[int]:
    """Direct children, running or not reaped."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found.update(int(pid) for pid in (task / "children").read_text().split())
        except OSError:  # the thread ended meanwhile
            continue
    known = {
        getattr(servant, name, None)
        for servant in servants()
        for name in ("_forkserver_pid", "_pid")
    }
    return {pid for pid in found if pid not in known}


def descriptors() -> dict[int, str]:
    known = {
        getattr(servant, name, None)
        for servant in servants()
        for name in ("_forkserver_alive_fd", "_fd")
    }
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) not in known:
                found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the descriptor of this very listing
            continue
    return found


# Names of what this code could leave, by itself or through the standard library, loky and joblib.
PREFIXES = ("shmtensor-", "psm_", "sem.", "pym-", "joblib_")
# loky and joblib write into the name which process made it.
MAKER = re.compile(r"(?:sem\.loky-|joblib_memmapping_folder_)(\d+)")


def shm_names() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith(PREFIXES)}


def descendants(pid: int) -> set[int]:
    """Pids of a process and of all that descend from it."""
    found = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            kids = [int(kid) for kid in task.read_text().split()]
        except OSError:  # it ended meanwhile
            continue
        for kid in kids:
            found |= descendants(kid)
    return found


def is_mapped(name: str, pid: int) -> bool:
    try:
        return f"/dev/shm/{name}" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:  # it ended meanwhile, or belongs to somebody else
        return False


def left_in_shm(before: set[str]) -> set[str]:
    """New names, but for those that a living process made or uses that does not descend from this
    one: other programs on the machine come and go there, too."""
    new = shm_names() - before
    if not new:
        return new
    own = descendants(os.getpid())
    others = {int(name) for name in os.listdir("/proc") if name.isdigit()} - own
    makers = {name: int(maker[1]) for name in new if (maker := MAKER.match(name))}
    return {
        name
        for name in new
        if makers.get(name) not in others and not any(is_mapped(name, pid) for pid in others)
    }


def blocks() -> int:
    from shmtensor import memory

    now = memory.statistics()
    return now.private_blocks + now.shared_blocks + now.held_blocks


def settled(look: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether `look` becomes true in time. Garbage is collected only if it is not so at once."""
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            return False
        gc.collect()
        time.sleep(0.01)
    return True


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    from shmtensor import native

    native.domain_ensure()
    shm, kids, fds, held = shm_names(), children(), set(descriptors()), blocks()
    yield
    assert settled(lambda: children() <= kids), f"a child process is left: {children() - kids}"
    assert settled(lambda: blocks() <= held), f"{blocks() - held} more blocks are held than before"
    assert settled(lambda: set(descriptors()) <= fds), (
        f"descriptors are open: {[v for k, v in descriptors().items() if k not in fds]}"
    )
    assert settled(lambda: not left_in_shm(shm)), f"left in /dev/shm: {left_in_shm(shm)}"
