"""After every test: no child process, no block, no descriptor and no /dev/shm entry is left."""

from __future__ import annotations

import gc
import os
import re
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from multiprocessing import forkserver, process, resource_tracker, shared_memory
from pathlib import Path

import pytest
from hypothesis import settings

# `tests` is found where only the package is installed, too; the sources hide nothing.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from tests.cuda.api.fixtures import cuda, two  # noqa: F401
from tests.cuda.convolution.fixtures import cudnn, plans  # noqa: F401
from tests.cuda.memory.fixtures import mc  # noqa: F401
from tests.cuda.standin.fixtures import (  # noqa: F401
    cp,
    device,
    last_device,
    late_work,
    misuses,
    no_background,
    two_devices,
    warm,
)
from tests.cuda.standin.install import ON_GPU, missing

# No deadline: a loaded machine would fail tests of values.
settings.register_profile("values", deadline=None)
settings.load_profile("values")


# Comparisons with PyTorch are not collected where it is not installed.
HAS_TORCH = find_spec("torch") is not None
collect_ignore_glob = [] if HAS_TORCH else ["*against_torch*", "models"]

# Nor are tests on a CUDA device where there is none, but for those of kernels on the host, and for
# one that says why.
if missing():
    collect_ignore_glob += ["cuda/[!ks]*/test_*", "cuda/serialization/test_*"]


def pytest_configure() -> None:
    # A shell tells what it starts in the background to ignore Ctrl-C, which tests send.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if ON_GPU and (reason := missing()):
        raise pytest.UsageError(f"TESTS_ON_GPU=1: {reason}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not HAS_TORCH:
        left_out = [item for item in items if item.get_closest_marker("torch")]
        items[:] = [item for item in items if not item.get_closest_marker("torch")]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests are collected without the garbage collector, which finds nothing there; then freezes
    the imported and collected objects: no later collection has to walk over them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _elsewhere() -> Iterator[None]:
    """Tests run in an empty folder: children import the installed package, not the sources."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="tests-") as folder:
        os.chdir(folder)
        yield
        os.chdir(before)


@pytest.fixture(scope="session", autouse=True)
def _compiled_once() -> Iterator[None]:
    """Under PYTHONDONTWRITEBYTECODE, children share compiled modules in a folder that ends with the
    session: else each child would compile every module again, which is half of its start."""
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
    processes: list[object] = [forkserver._forkserver, resource_tracker._resource_tracker]  # type: ignore[attr-defined]
    return [*processes, ours.server] if ours else processes


def children() -> set[int]:
    """Direct children, running or not reaped."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            pids.update(int(pid) for pid in (task / "children").read_text().split())
        except OSError:  # the thread has ended meanwhile
            continue
    servant_pids = {
        getattr(servant, name, None)
        for servant in servants()
        for name in ("_forkserver_pid", "_pid")
    }
    return {pid for pid in pids if pid not in servant_pids}


def is_of_the_driver(target: str) -> bool:
    """Whether NVIDIA's driver may have opened a descriptor, which it does in some calls and keeps
    as long as the process."""
    if target.startswith("/dev/nvidia"):
        return True
    return ON_GPU and target.startswith(("/dev/shm/cuda.shm.", "anon_inode:[eventfd]"))


def descriptors() -> dict[int, str]:
    opened = [
        getattr(servant, name, None)
        for servant in servants()
        for name in ("_forkserver_alive_fd", "_fd", "_socket")
    ]
    servant_fds = {fd.fileno() if isinstance(fd, socket.socket) else fd for fd in opened}
    targets = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
            if int(name) not in servant_fds and not is_of_the_driver(target):
                targets[int(name)] = target
        except OSError:  # the descriptor of this listing
            continue
    return targets


# Names that this code could leave, by itself or through the standard library, loky and joblib.
PREFIXES = ("shmtensor-", "psm_", "sem.", "pym-", "joblib_")
# Of these the standard library's say by themselves that this session made them: processes started
# by multiprocessing inherit the prefix of semaphores, forked ones that of shared memory. Spawned
# processes that import this file are of the session.
_VARIABLE = f"TESTS_SESSION{os.environ.get('PYTEST_XDIST_WORKER', '')}"
SESSION = os.environ.setdefault(_VARIABLE, secrets.token_hex(2))
process.current_process()._config["semprefix"] = f"/mp-{SESSION}"  # type: ignore[attr-defined]
shared_memory._SHM_NAME_PREFIX = f"/psm_{SESSION}"  # type: ignore[attr-defined]
OURS = ("shmtensor-", f"sem.mp-{SESSION}", f"psm_{SESSION}")
# Other kinds have the creator's pid in the name.
MAKER = re.compile(r"(?:sem\.loky-|joblib_memmapping_folder_|pym-)(\d+)")


def shm_names() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith(PREFIXES)}


def descendants(pid: int) -> set[int]:
    """Pids of a process and of all that descend from it."""
    pids = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            kids = [int(kid) for kid in task.read_text().split()]
        except OSError:  # it ended meanwhile
            continue
        for kid in kids:
            pids |= descendants(kid)
    return pids


def mapped_names(pid: int) -> set[str]:
    """The names in /dev/shm that a process has mapped."""
    try:
        return set(re.findall(r" /dev/shm/(\S+)", Path(f"/proc/{pid}/maps").read_text()))
    except OSError:  # it has ended meanwhile, or belongs to another user
        return set()


def left_in_shm(before: set[str]) -> set[str]:
    """New names that this session made: other programs on the machine use /dev/shm, too.

    The name says so, or a process of this session has it mapped. A name of shmtensor's is not ours
    if only others have it mapped; each process has a new one for a moment.
    """
    new = shm_names() - before
    if not new:
        return new
    family = descendants(os.getpid())
    makers = {name: int(maker[1]) for name in new if (maker := MAKER.match(name))}
    ours = {name for name in new if name.startswith(OURS) or makers.get(name) in family}
    for pid in family:
        ours |= new & mapped_names(pid)
    return ours - names_of_others(family) if any(n.startswith("shmtensor-") for n in ours) else ours


def names_of_others(family: set[int]) -> set[str]:
    """What processes outside of the family have mapped, and none in it."""
    names: set[str] = set()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in family:
            names |= mapped_names(int(name))
    return names.difference(*map(mapped_names, family))


def are_gone(names: set[str], before: set[str]) -> bool:
    """Whether none of the names is there any more; removes those that are gone, once and for all:
    names that come and go are of other programs that use this library."""
    if names:
        names &= left_in_shm(before)
    return not names


def blocks() -> int:
    from shmtensor import memory

    now = memory.statistics()
    return now.private_blocks + now.shared_blocks + now.held_blocks


def settled(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether `condition` becomes true in time; collects garbage only if it is false at first, the
    youngest before all: a test that met an exception often leaves a cycle."""
    end = time.monotonic() + seconds
    if condition():
        return True
    gc.collect(1)
    while not condition():
        gc.collect()
        if condition():
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    from shmtensor import native

    native.domain_ensure()
    shm, kids, fds, blocks_before = shm_names(), children(), set(descriptors()), blocks()
    yield
    assert settled(lambda: children() <= kids), f"a child process is left: {children() - kids}"
    assert settled(lambda: blocks() <= blocks_before), (
        f"{blocks() - blocks_before} more blocks are held than before"
    )
    assert settled(lambda: set(descriptors()) <= fds), (
        f"descriptors are open: {[v for k, v in descriptors().items() if k not in fds]}"
    )
    names = left_in_shm(shm)
    assert settled(lambda: are_gone(names, shm)), f"left in /dev/shm: {names}"
