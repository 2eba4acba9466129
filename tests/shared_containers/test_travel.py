"""To other processes as handles: the same memory by every start method and road."""

from __future__ import annotations

import multiprocessing as standard
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory, native
from shmtensor import multiprocessing as mp
from shmtensor.multiprocessing.reduction import dumps, loads

from . import tasks


def contents() -> tuple[Any, Any]:
    words = st.SharedList(f"word {i}" for i in range(1000))
    table = st.SharedDict({"b": [1, 2], ("t", 1): "tuple", "x": np.zeros(3)}, readonly=False)
    return words, table


# The standard library's fork server starts before there is a domain that it could join.
@pytest.mark.parametrize(
    ("library", "method"),
    [(mp, "fork"), (mp, "forkserver"), (mp, "spawn"), (standard, "fork"), (standard, "spawn")],
)
def test_it_arrives_as_the_same_memory(library: Any, method: str) -> None:
    context = library.get_context(method)
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    with tasks.running(context, (tasks.answer, inbox, outbox)):
        words, table = contents()
        inbox.put((words[1::2], table))
        said = (["word 1", "word 3"], "word 999", 500, [1, 2], "tuple", 0.0)
        assert outbox.get() == said
        assert outbox.get() == "written"
        assert table["x"].tolist() == [7.0, 0.0, 0.0]  # the same memory: the array is a view
    inbox.close()
    outbox.close()


def test_a_message_names_its_blocks() -> None:
    """As a tensor's: the message keeps them, however late it is read, and however often."""
    words, table = contents()
    for n, message in ((1, (words, words[1:])), (2, [table, lambda: words[3]])):
        data, blocks = dumps(message)
        assert (len(data) < 4000, len(blocks)) == (True, n)
        received = [native.receive(native.export(block)) for block in blocks]
        for _ in range(2):
            assert len(loads(data, received)) == len(message)
        del received, blocks


def test_plain_pickle_carries_the_bytes() -> None:
    words, table = pickle.loads(pickle.dumps(contents()))
    assert words == contents()[0]
    assert table["b"] == [1, 2]
    assert memory.is_shared(words._blocks[0])
    table["x"][0] = 1.0
    assert table["x"][0] == 1.0


def test_workers_that_read_all_take_no_memory() -> None:
    """The cure for memory that grows with each worker: what four of them read is there once."""
    n, workers = 200_000, 4
    words = st.SharedList(f"image-{i:08d}.png" for i in range(n))
    context = mp.get_context("fork")
    out, go = context.SimpleQueue(), context.Barrier(workers + 1)

    def shares(data: Any) -> int:
        with tasks.running(context, *[(tasks.read_all, data, out, go)] * workers):
            go.wait()  # all have read
            said = [out.get() for _ in range(workers)]
            go.wait()
        assert {total for total, _ in said} == {n * 18}
        return sum(share for _, share in said)

    plain = list(words)
    growth = shares(plain) - shares(words)
    assert growth > workers * n * 30, f"a plain list cost only {growth} bytes more"
