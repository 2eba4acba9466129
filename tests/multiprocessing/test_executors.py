"""Executors of the standard library, of loky and of joblib: tensors arrive as the same memory."""

from __future__ import annotations

import importlib.util
import multiprocessing as standard
import os
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
import tasks

import shmtensor as st
from shmtensor import memory, native
from shmtensor import multiprocessing as mp
from tests.environment import run_program

LONG = 60.0
PATH = [str(Path(st.__file__).parents[1])]
CONTEXTS = {
    **{f"standard {name}": standard.get_context(name) for name in ("fork", "forkserver", "spawn")},
    **{f"our {name}": mp.get_context(name) for name in ("fork", "forkserver", "spawn")},
}
LOKYS = [
    name
    for name in ("joblib.externals.loky", "loky")
    if importlib.util.find_spec(name.split(".")[0])
]


@pytest.mark.parametrize("name", CONTEXTS)
def test_process_pool_executor(name: str) -> None:
    x, y = st.zeros(4), st.zeros(2)
    with ProcessPoolExecutor(1, mp_context=CONTEXTS[name]) as executor:
        result = executor.submit(tasks.add_one, x).result(LONG)
        assert result.data_ptr() == x.data_ptr()
        assert x.tolist() == [1] * 4
        assert [t.data_ptr() for t in executor.map(tasks.add_one, [y, y[:1]])] == [y.data_ptr()] * 2
        assert y.tolist() == [2, 1]
        with pytest.raises(ValueError, match="on purpose"):
            executor.submit(tasks.die, "raise").result(LONG)


def test_a_killed_worker_breaks_the_executor_and_the_caller_is_told() -> None:
    with ProcessPoolExecutor(1, mp_context=CONTEXTS["our fork"]) as executor:
        broken = executor.submit(tasks.die, "kill")
        with pytest.raises(BrokenProcessPool):
            broken.result(LONG)


def test_a_queue_that_has_a_descriptor_still_is_a_queue() -> None:
    queue = mp.SimpleQueue()
    reader = queue._reader
    assert mp.connection.wait([reader], 0.05) == []
    for i in range(5):
        queue.put(i)
    assert mp.connection.wait([reader], LONG) == [reader]
    assert not queue.empty()
    assert [reader.recv(), queue.get(), queue.get(1.0), reader.recv(), queue.get()] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert not reader.poll(0.05)
    assert queue.empty()
    queue.close()


def script(code: str) -> None:
    """Runs it by itself: loky keeps its workers and its tracker until the interpreter ends."""
    folders = [str(Path(tasks.__file__).parent), *PATH]
    process = run_program(code, PYTHONPATH=os.pathsep.join(folders))
    assert process.stdout == "good\n", process.stderr


@pytest.mark.parametrize("name", LOKYS)
def test_loky(name: str) -> None:
    script(f"""
        import tasks
        import shmtensor as st
        from {name} import get_reusable_executor

        x, leaf = st.zeros(4), st.nn.Parameter(st.ones(2))
        executor = get_reusable_executor(max_workers=1)
        got = executor.submit(tasks.add_one, x).result(60)
        assert got.data_ptr() == x.data_ptr()
        assert executor.submit(lambda: x.add_(1).is_shared()).result(60)
        assert x.tolist() == [2] * 4
        assert type(executor.submit(tasks.identity, leaf).result(60)) is st.nn.Parameter
        executor.shutdown(wait=True)
        print("good")
    """)


def test_joblib() -> None:
    script("""
        import tasks
        import numpy as np
        import shmtensor as st
        from joblib import Parallel, delayed

        x, a = st.zeros(4), np.ones(3)
        parallel = Parallel(n_jobs=2)
        got = parallel(delayed(tasks.add_one)(x[i : i + 1]) for i in range(4))
        assert x.tolist() == [1] * 4
        assert [t.data_ptr() for t in got] == [x[i].data_ptr() for i in range(4)]
        assert parallel(delayed(lambda i: float(x.sum()) + i)(i) for i in range(2)) == [4, 5]
        assert parallel(delayed(tasks.add_one)(a) for _ in range(1))[0].tolist() == [2] * 3
        print("good")
    """)


def test_joblib_carries_packed_data_as_handles() -> None:
    """As an argument and in a closure: a write by a worker is seen here."""
    script("""
        import tasks
        import numpy as np
        import shmtensor as st
        from joblib import Parallel, delayed

        table = st.SharedDict({"x": np.zeros(2)}, readonly=False)
        both = st.SharedList([np.zeros(2)], readonly=False)

        def raise_argument(data, key):
            data[key][0] += 1

        def raise_closure():
            table["x"][1] += 1

        parallel = Parallel(n_jobs=2)
        parallel(delayed(raise_argument)(data, key) for data, key in ((table, "x"), (both, 0)))
        parallel(delayed(lambda: raise_closure())() for _ in range(1))
        assert table["x"].tolist() == [1, 1]
        assert both[0].tolist() == [1, 0]
        print("good")
    """)


def test_executors_leave_no_pin() -> None:
    before = memory.statistics().unread_messages
    with ProcessPoolExecutor(1, mp_context=mp.get_context("fork")) as executor:
        tensors = [executor.submit(tasks.add_one, st.zeros(3)).result(LONG) for _ in range(20)]
    assert len(tensors) == 20
    end = time.monotonic() + LONG
    while memory.statistics().unread_messages > before and time.monotonic() < end:
        native.sweep(True)  # the worker's row
        memory.trim()  # the queue's block; what it carried is void with it
        time.sleep(0.01)
    assert memory.statistics().unread_messages <= before
