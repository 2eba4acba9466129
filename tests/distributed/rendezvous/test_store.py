"""Stores: one battery for all of them, and tests of each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import multiprocessing as mp
from shmtensor.errors import StoreTimeout


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


def test_half_a_record_of_a_killed_process_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first = dist.FileStore(str(path))
    first.set("a", "1")
    content = path.read_bytes()
    path.write_bytes(content + content[:-3])
    assert first.get("a") == b"1"
    second = dist.FileStore(str(path))
    second.set("b", "2")
    assert (first.get("b"), first.get("a"), first.num_keys()) == (b"2", b"1", 2)


def test_the_master_binds_to_the_address_only_and_missing_ranks_are_named() -> None:
    with dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=20) as master:
        assert master._server is not None
        assert master._server.listener.getsockname()[0] == "127.0.0.1"
        port = master.port
    with pytest.raises(TimeoutError, match="the master has not come"):
        dist.TCPStore("127.0.0.1", port, timeout=0.1)
    with pytest.raises(TimeoutError, match="1 of 2"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timeout=0.1)


def by_store(rank: int, path: str, queue: Any) -> None:
    for _ in range(2):
        dist.init_process_group(store=dist.FileStore(path), rank=rank, world_size=2, timeout=20)
        x = st.ones(3) * (rank + 1)
        dist.all_reduce(x)
        dist.destroy_process_group()
    queue.put(float(x[0]))


def test_ranks_find_each_other_by_a_store(tmp_path: Path) -> None:
    context = mp.get_context("fork")
    queue = context.Queue()
    args = [(rank, str(tmp_path / "store"), queue) for rank in range(2)]
    processes = [context.Process(target=by_store, args=each) for each in args]
    for process in processes:
        process.start()
    assert [queue.get(timeout=30) for _ in processes] == [3.0, 3.0]
    for process in processes:
        process.join()
    queue.close()
    with pytest.raises(ValueError, match="not both"):
        dist.init_process_group(store=dist.HashStore(), init_method="x", rank=0, world_size=1)
