"""Stores: one battery for all of them, and tests of each."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shmtensor import distributed as dist
from shmtensor import multiprocessing as mp
from shmtensor.distributed.rendezvous.store import FIRST
from shmtensor.errors import StoreTimeout

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request: Any, tmp_path: Path) -> Iterator[dist.Store]:
    if request.param == "file":
        yield dist.FileStore(str(tmp_path / "store"), 2)
    elif request.param == "tcp":
        with dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=20) as tcp_store:
            yield tcp_store
    elif request.param == "prefix":
        yield dist.PrefixStore("run", dist.HashStore())
    else:
        yield dist.HashStore()


def test_every_store_keeps_values(store: dist.Store) -> None:
    store.set("a", "one")
    store.set("b", b"\x00\xff")
    assert store.get("a") == b"one"
    assert store.multi_get(["a", "b"]) == [b"one", b"\x00\xff"]
    assert (store.add("n", 3), store.add("n", -1)) == (3, 2)
    assert store.get("n") == b"2"
    store.append("a", " more")
    store.append("new", "x")
    assert store.get("a") == b"one more"
    assert store.check(["a", "b"])
    assert not store.check(["a", "nothing"])
    assert store.compare_set("a", "wrong", "z") == b"one more"
    assert store.compare_set("a", "one more", "z") == b"z"
    assert store.compare_set("nothing", "wrong", "z") == b"wrong"
    assert store.compare_set("fresh", "", "z") == b"z"
    assert store.delete_key("fresh")
    assert not store.delete_key("fresh")
    store.multi_set(["p", "q"], ["1", "2"])
    assert store.has_extended_api()
    assert store.num_keys() == 6
    store.wait(["a", "p"], 1)
    store.set_timeout(0.05)
    with pytest.raises(TimeoutError, match="never"):
        store.get("never")
    with pytest.raises(TimeoutError, match="never"):
        store.wait(["a", "never"], 0.01)


def test_a_reader_waits_for_the_writer(store: dist.Store) -> None:
    timer = threading.Timer(0.05, store.set, ("late", "here"))
    timer.start()
    assert store.get("late") == b"here"
    timer.join()


def add_many(path: str, ports: Any, n: int) -> None:
    store: Any = dist.TCPStore("127.0.0.1", ports.get(), timeout=20) if ports else None
    for _ in range(n):
        (store or dist.FileStore(path)).add("count", 1)
    if store:
        store.close()


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_processes_add_up(kind: str, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    context = mp.get_context("fork")
    ports = context.SimpleQueue() if kind == "tcp" else None
    processes = [context.Process(target=add_many, args=(path, ports, 50)) for _ in range(3)]
    for process in processes:
        process.start()
    if ports is None:
        store: Any = dist.FileStore(path)
    else:  # its threads begin after the fork
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=20)
        for _ in processes:
            ports.put(store.port)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert store.add("count", 0) == 150
    if ports is not None:
        store.close()
        ports.close()


def test_a_store_has_queues_a_barrier_and_copies_for_threads(store: dist.Store) -> None:
    for text in ("one", "", "three"):
        store.queue_push("queue", text)
    assert store.check(["queue"])
    assert store.queue_len("queue") == 3
    assert [store.queue_pop("queue") for _ in range(3)] == [b"one", b"", b"three"]
    assert not store.check(["queue"])
    assert store.queue_len("queue") == 0
    with pytest.raises(dist.QueueEmptyError, match="is empty: 'queue'"):
        store.queue_pop("queue", block=False)
    other = store.clone()
    waits = threading.Thread(target=lambda: other.queue_push("queue", store.get("go")))
    waits.start()
    store.set("go", "last")
    assert store.queue_pop("queue") == b"last"
    waits.join()
    comes = threading.Thread(target=lambda: other.barrier("all", 2))
    comes.start()
    store.barrier("all", 2)
    comes.join()
    store.set_timeout(0.05)
    for call in (lambda: store.queue_pop("queue"), lambda: store.barrier("some", 2)):
        with pytest.raises(StoreTimeout, match="keys have not come") as caught:
            call()
        assert isinstance(caught.value, dist.DistStoreError)


def test_a_value_that_is_no_queue_is_named(store: dist.Store) -> None:
    for value in (b"abc", b"\xff\xff\xff\xffabc"):
        store.set("key", value)
        with pytest.raises(ValueError, match="the value is not a queue"):
            store.queue_pop("key", block=False)
        with pytest.raises(ValueError, match="the value is not a queue"):
            store.queue_len("key")


CALLS: dict[str, Callable[[dist.Store], Any]] = {
    "set": lambda store: store.set("a", "1"),
    "add": lambda store: store.add("n", 1),
    "try_get": lambda store: store.try_get("a"),
    "wait": lambda store: store.wait(["a"], 0.01),
    "delete_key": lambda store: store.delete_key("a"),
    "num_keys": lambda store: store.num_keys(),
}


def test_a_writer_may_be_killed_after_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = dist.FileStore(str(path))
    store.set("a", "1")
    first = len(path.read_bytes())
    store.set("b", "2")
    content = path.read_bytes()
    for n in range(len(content) + 1):
        path.write_bytes(content[:n])
        for other in (store, dist.FileStore(str(path))):
            assert other.check(["a"]) == (n >= first)
            assert other.check(["b"]) == (n == len(content))
        assert path.read_bytes() == content[:n]  # readers change nothing
        other.set("c", "3")
        assert store.get("c") == b"3"
        assert store.num_keys() == 1 + (n >= first) + (n == len(content))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "content",
    [
        b"some text " * 1400,
        b"F",
        bytes(8),
        bytes(14_000),
        FIRST[:-1] + b"?",
        FIRST[:-5] + b"??",
        FIRST[1:] + FIRST,
        b"\n" + FIRST,
    ],
)
def test_a_file_that_is_no_store_is_not_changed(tmp_path: Path, content: bytes, call: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"file' has {len(content)} bytes and no valid first rec"):
        CALLS[call](dist.FileStore(str(path)))
    assert path.read_bytes() == content


def test_a_file_that_replaces_the_store_is_read_anew(tmp_path: Path) -> None:
    path, text = tmp_path / "store", tmp_path / "text"
    store = dist.FileStore(str(path))
    store.set("old", "1")
    next_run = dist.FileStore(str(tmp_path / "next"))
    for i in range(10):  # longer than what was read of the old one
        next_run.set(f"new {i}", "2")
    os.replace(tmp_path / "next", path)
    assert (store.num_keys(), store.try_get("old"), store.get("new 9")) == (10, None, b"2")
    store.set("more", "3")
    assert dist.FileStore(str(path)).num_keys() == 11
    text.write_bytes(b"text" * 1000)
    path.write_bytes(text.read_bytes())  # of the same inode
    with pytest.raises(ValueError, match="has 4000 bytes and no valid first record"):
        store.set("a", "1")
    assert path.read_bytes() == text.read_bytes()
    path.write_bytes(b"")
    store.set("a", "1")
    assert store.list_keys() == ["a"]


def test_a_store_is_in_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (str(tmp_path / "fifo"), "/dev/null"):
        with pytest.raises(ValueError, match=f"no regular file: '{path}'"):
            dist.FileStore(path).set("a", "1")
    with pytest.raises(IsADirectoryError):
        dist.FileStore(str(tmp_path)).set("a", "1")


def test_a_write_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = dist.FileStore(str(path))
    store.set("a", "1")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            store.set("b", bytes(2000))
        assert path.stat().st_size == 1000
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.list_keys() == ["a"]
    store.set("c", "3")
    assert dist.FileStore(str(path)).list_keys() == ["a", "c"]


# A process that locks a file until its input ends, of the user that it is told.
HOLDER = """
import fcntl, os, sys
os.setgroups([]) if sys.argv[2] != "0" else None
os.setuid(int(sys.argv[2]))
file = open(sys.argv[1], "rb")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("uid", [os.geteuid(), pytest.param(NOBODY, marks=AS_ROOT)])
def test_a_lock_that_another_process_holds_ends_in_a_timeout(uid: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        path = os.path.join(folder, "store")
        store = dist.FileStore(path)
        store.set("a", "1")
        os.chmod(path, 0o644)
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, path, str(uid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "locked\n"
            store.set_timeout(0.05)
            for name in ("set", "add", "delete_key"):
                with pytest.raises(StoreTimeout, match=f"holds the lock of the file: '{path}'"):
                    CALLS[name](store)
            with pytest.raises(StoreTimeout, match=r"keys have not come: \['b'\]"):
                store.get("b")
            assert store.get("a") == b"1"  # readers need no lock
            waits = threading.Thread(target=lambda: writer.set("c", "3"))
            writer = dist.FileStore(path)
            waits.start()
            holder.communicate("")
        waits.join()
        assert (store.get("c"), store.add("n", 1)) == (b"3", 1)


def test_threads_of_one_store_add_up(store: dist.Store) -> None:
    def add() -> None:
        for _ in range(50):
            store.add("n", 1)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.add("n", 0) == 200


@AS_ROOT
@pytest.mark.parametrize("call", CALLS)
def test_another_users_file_or_link_is_refused(tmp_path: Path, call: str) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    for content in (b"", FIRST):
        ours, link, theirs = tmp_path / "ours", folder / "link", folder / "theirs"
        ours.write_bytes(content)
        theirs.write_bytes(content)
        theirs.chmod(0o666)
        link.symlink_to(ours)
        assert dist.FileStore(str(link)).num_keys() == 0  # our own link
        os.lchown(link, NOBODY, NOBODY)
        os.chown(theirs, NOBODY, NOBODY)
        with pytest.raises(PermissionError, match=r"FileStore: a symbolic link of another user"):
            CALLS[call](dist.FileStore(str(link)))
        with pytest.raises(PermissionError, match=f"another user's: uid {NOBODY}, not 0: .*their"):
            CALLS[call](dist.FileStore(str(theirs)))
        assert ours.read_bytes() == theirs.read_bytes() == content
        link.unlink()


def test_the_master_binds_to_the_address_only_and_missing_ranks_are_named() -> None:
    with dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=20) as master:
        assert master._server is not None
        assert master._server.listener.getsockname()[0] == "127.0.0.1"
        port = master.port
    with pytest.raises(TimeoutError, match="the master has not come"):
        dist.TCPStore("127.0.0.1", port, timeout=0.1)
    with pytest.raises(TimeoutError, match="1 of 2"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timeout=0.1)
