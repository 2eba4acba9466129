"""What a message holds: handles for shared memory, values for the rest, clear refusals."""

from __future__ import annotations

import gc
import multiprocessing as stdlib
import pickle
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory, native
from shmtensor import multiprocessing as mp
from shmtensor.multiprocessing.reduction import dumps, loads


def through(obj: object) -> object:
    """A message's way, within this process."""
    data, blocks = dumps(obj)
    return loads(data, [native.receive(native.export(block)) for block in blocks])


def test_one_entry_for_each_block() -> None:
    base = st.zeros(10)
    data, blocks = dumps([base, base[2:], base.reshape(2, 5), st.ones(3)])
    assert len(blocks) == 2
    assert len(data) < 600


def test_identity_and_aliasing_within_a_message() -> None:
    x = st.zeros(4)
    a, b, c = through([x, x, x[1:]])
    assert a is b
    a[1] = 5
    assert c[0].item() == 5
    assert x[1].item() == 5


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64"]
)
def test_every_dtype(dtype: str) -> None:
    x = st.zeros(3, dtype=getattr(st, dtype))
    got = through(x)
    assert got.dtype == x.dtype
    assert got.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("dtype", [">f4", "datetime64[s]", [("a", "i4"), ("b", "f8")], "U3"])
def test_arrays_of_other_dtypes(dtype: object) -> None:
    with memory.shared_numpy():
        array = np.zeros(4, dtype)
    got = through(array)
    assert got.dtype == array.dtype
    assert got.ctypes.data == array.ctypes.data


def test_read_only_stays_read_only() -> None:
    with memory.shared_numpy():
        array = np.zeros(4)
    array.flags.writeable = False
    assert not through(array).flags.writeable


def test_private_arrays_and_objects_go_by_value() -> None:
    private = np.ones(3)
    with memory.shared_numpy():
        objects = np.array([{}, None], object)
    got, other = through([private, objects])
    assert not native.is_shared(got)
    assert other.tolist() == [{}, None]


def test_memory_from_outside_is_copied_once_and_does_not_alias() -> None:
    private = np.ones(4, np.float32)
    tensor = st.from_numpy(private)
    got = through(tensor)
    assert got.is_shared()
    got += 1
    assert private.tolist() == [1] * 4


def test_a_non_leaf_is_refused_with_advice() -> None:
    x = st.ones(3, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match=r"non-leaf .*\(3,\).*detach"):
        dumps(x)
    queue = mp.SimpleQueue()
    with pytest.raises(RuntimeError, match="detach"):
        queue.put([x])
    queue.put(x.detach())
    assert queue.get(5.0).tolist() == [2, 2, 2]


def test_what_cannot_be_pickled_raises_where_it_is_put() -> None:
    queue = mp.Queue()
    with pytest.raises(TypeError, match="pickle"):
        queue.put(sys._getframe())
    assert queue.empty()


def test_a_queue_travels_through_a_queue() -> None:
    outer, inner = mp.Queue(), mp.Queue()
    outer.put({"queue": inner, "lock": mp.Lock()})
    got = outer.get(timeout=5.0)
    got["queue"].put(1)
    assert inner.get(timeout=5.0) == 1


def test_plain_pickle_copies() -> None:
    x = st.ones(3)
    got = pickle.loads(pickle.dumps(x))
    got += 1
    assert x.tolist() == [1, 1, 1]


def test_the_standard_librarys_pipe_carries_tensors_as_handles() -> None:
    ours, theirs = stdlib.Pipe()
    x = st.zeros(3)
    ours.send([x, x[1:]])
    a, b = theirs.recv()
    a += 1
    assert x.tolist() == [1, 1, 1]
    assert b.tolist() == [1, 1]
    ours.close()
    theirs.close()


def test_the_standard_library_carries_handles_without_an_import_of_ours() -> None:
    code = """
        import sys
        import shmtensor as st
        assert "multiprocessing" not in sys.modules
        import multiprocessing
        a, b = multiprocessing.Pipe()
        x, p = st.zeros(2), st.nn.Parameter(st.zeros(2))
        a.send((x, p))
        y, q = b.recv()
        y += 1
        q.data.add_(2)
        assert x.tolist() == [1, 1] and p.tolist() == [2, 2] and type(q) is st.nn.Parameter
        print("good")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "good\n", done.stderr


def test_unread_messages_of_a_dropped_queue_hold_nothing() -> None:
    before = memory.statistics()
    queue = mp.SimpleQueue()
    for _ in range(300):
        queue.put([st.ones(5), st.ones(5000)])
    assert memory.statistics().shared_blocks >= before.shared_blocks
    del queue
    gc.collect()
    end = time.monotonic() + 5
    while memory.statistics().limbo_bytes > 600 * 20000 and time.monotonic() < end:
        memory.trim()
    assert memory.statistics().shared_blocks <= before.shared_blocks


NOTEBOOK = """
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    class Point:
        def __init__(self, x): self.x = x
    def work(q, t, p):
        t += p.x
        q.put(Point(t.sum().item()))
    for method in ("fork", "forkserver", "spawn"):
        context = mp.get_context(method)
        q, t = context.Queue(), st.zeros(2)
        process = context.Process(target=work, args=(q, t, Point(3)))
        process.start()
        got = q.get(timeout=30)
        process.join()
        assert isinstance(got, Point) and got.x == 6 and t.tolist() == [3, 3]
    print("good")
"""


def test_functions_and_classes_typed_in_a_session_reach_every_process() -> None:
    code = textwrap.dedent(NOTEBOOK)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout == "good\n", done.stderr


SCRIPT = """
    import os
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    from shmtensor import native

    weights = st.ones(3)      # allocates while a spawned child imports this file

    class Point:
        pass

    def work(q, t):
        t += 1
        q.put((Point(), native.domain_id(), __name__))

    if __name__ == "__main__":
        for method in ("fork", "forkserver", "spawn"):
            context = mp.get_context(method)
            q, t = context.Queue(), st.zeros(2)
            process = context.Process(target=work, args=(q, t))
            process.start()
            got, domain, name = q.get(timeout=30)
            process.join()
            assert isinstance(got, Point), got
            assert domain == native.domain_id()
            assert t.tolist() == [1, 1]
        print("good")
"""


def test_a_script_that_allocates_at_import_stays_in_one_domain(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout == "good\n", done.stderr
    assert done.stderr == ""
