"""The first use of CUDA by many threads at once: each gets memory of our allocator."""

from __future__ import annotations

from typing import Any

from tests.cuda.standin.program import run

FIRST_USE = """
import threading
import shmtensor as st
from shmtensor import cupy_runtime

n = 16
barrier = threading.Barrier(n)
owners, errors = [], []

def slow(cupy):  # a hook that runs before the allocator is there
    import time
    cupy_runtime.initialize().zeros(1)  # a hook may use CUDA
    time.sleep(0.2)

cupy_runtime.hooks.insert(0, slow)

def use(i):
    barrier.wait()
    try:
        if i % 2:
            x = st.ones(100, device="cuda")
        else:
            x = st.ones(100).cuda()
        owners.append(type(x.array.data.mem._owner).__name__)
        assert (x + 1).sum().item() == 200
    except BaseException as error:
        errors.append(repr(error))

threads = [threading.Thread(target=use, args=(i,)) for i in range(n)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(set(owners)), len(owners), errors)
"""


def test_all_threads_wait_for_the_allocator(cp: Any) -> None:
    code, out, err = run(FIRST_USE)
    assert out == "['Own'] 16 []\n", err
    assert not code


FAILS = """
import threading
import shmtensor as st
from shmtensor import cupy_runtime

calls = []

def fail_once(cupy):
    calls.append(1)
    if len(calls) == 1:
        raise RuntimeError("not yet")

cupy_runtime.hooks.append(fail_once)
try:
    st.ones(1, device="cuda")
except RuntimeError as error:
    print(error, st.cuda.is_initialized())
print(st.ones(1, device="cuda").item(), st.cuda.is_initialized(), len(calls))
"""


def test_a_first_use_that_failed_is_tried_again(cp: Any) -> None:
    code, out, err = run(FAILS)
    assert out == "not yet False\n1.0 True 2\n", err
    assert not code
