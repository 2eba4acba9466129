"""One battery, run for each start method."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import connection, popen_fork
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tasks

import shmtensor as st
from shmtensor import memory, native
from shmtensor import multiprocessing as mp
from shmtensor.errors import PeerLostError
from shmtensor.multiprocessing import child_pipe, forkserver, popen
from tests.environment import environment, run_program
from tests.interrupts import Alarm, interrupt_after
from tests.memory.fresh import state_of, until

LONG = 30.0


@pytest.fixture(params=["fork", "forkserver", "spawn"])
def context(request: pytest.FixtureRequest) -> Any:
    return mp.get_context(request.param)


def run(context: Any, target: Any, *args: Any) -> None:
    process = context.Process(target=target, args=args)
    process.start()
    process.join(LONG)
    assert process.exitcode == 0
    process.close()


def test_arguments_are_the_same_memory(context: Any) -> None:
    tensor, out = st.zeros(4), context.SimpleQueue()
    run(context, tasks.write_ones, tensor, out)
    shared, pid, domain = out.get(LONG)
    assert tensor.tolist() == [1, 1, 1, 1]
    assert shared
    assert pid != os.getpid()
    assert domain == native.domain_id()


def test_views_in_one_message_alias(context: Any) -> None:
    base = st.arange(12).reshape(3, 4)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=tasks.echo, args=(inbox, outbox))
    process.start()
    inbox.put(
        {"row": base[1], "all": base, "strided": base[:, ::2], "t": base.T, "empty": base[:0]}
    )
    result = outbox.get(timeout=LONG)
    inbox.put(None)
    process.join(LONG)
    result["row"][0] = -1
    assert base[1, 0].item() == -1  # and it is our memory, too
    assert result["all"][1, 0].item() == -1
    assert result["strided"].shape == (3, 2)
    assert result["strided"][1, 0].item() == -1
    assert result["t"].stride() == base.T.stride()
    assert result["empty"].shape == (0, 4)
    process.close()


@pytest.mark.parametrize("shape", [(), (0,), (1,), (16,), (1 << 20,)])
def test_any_size_travels_as_a_handle(context: Any, shape: tuple[int, ...]) -> None:
    if shape == (1 << 20,) or context._name == "fork":
        tensor, outbox = st.ones(shape), context.Queue()
        run(context, tasks.send, outbox, tensor)
        result = outbox.get(timeout=LONG)
        result += 1
        assert (tensor == result).all()


def test_what_a_dead_sender_made_can_still_be_read(context: Any) -> None:
    outbox = context.Queue()
    run(context, tasks.make_and_send, outbox, 100)
    for i in range(100):
        assert outbox.get(timeout=LONG)[0].item() == i


def test_lambdas_and_closures(context: Any) -> None:
    tensor, outbox = st.zeros(2), context.SimpleQueue()

    def local() -> None:
        tensor.add_(3)
        outbox.put("done")

    run(context, local)
    run(context, lambda: outbox.put(tensor.sum().item()))
    assert outbox.get(LONG) == "done"
    assert outbox.get(LONG) == 6


def test_all_primitives_as_arguments(context: Any) -> None:
    objects = {
        "lock": context.Lock(),
        "rlock": context.RLock(),
        "semaphore": context.Semaphore(1),
        "event": context.Event(),
        "condition": context.Condition(),
        "barrier": context.Barrier(2),
        "value": context.Value("i", 1),
        "array": context.Array("d", 3),
        "raw": context.RawValue("q", 0),
        "joinable": context.JoinableQueue(),
    }
    out = context.SimpleQueue()
    objects["joinable"].put("task")
    process = context.Process(target=tasks.touch_all, args=(objects, out))
    process.start()
    assert objects["event"].wait(LONG)
    assert sorted([objects["barrier"].wait(LONG), out.get(LONG)]) == [0, 1]
    objects["joinable"].join()
    assert objects["value"].value == 6
    assert list(objects["array"]) == [0, 7, 0]
    assert objects["raw"].value == 9
    process.join(LONG)
    process.close()


def test_numpy_arrays_go_by_handle_only_if_shared(context: Any) -> None:
    with memory.shared_numpy():
        shared = np.zeros(5)
    private, out = np.zeros(5), context.SimpleQueue()
    run(context, tasks.numpy_of, out, shared, private)
    assert shared.tolist() == [1] * 5
    assert private.tolist() == [0] * 5
    assert out.get(LONG)[0]


def test_modules_and_parameters(context: Any) -> None:
    module, out = st.nn.Linear(3, 2), context.SimpleQueue()
    before = module.weight.detach().clone()
    run(context, tasks.step, module, out)
    assert out.get(LONG) == ["Parameter", "Parameter"]
    assert (module.weight.detach() == before + 1).all()


def test_gradients_travel_with_their_leaf(context: Any) -> None:
    leaf, outbox = st.ones(3, requires_grad=True), context.SimpleQueue()
    (leaf * 2).sum().backward()
    run(context, tasks.send, outbox, leaf)
    result = outbox.get(LONG)
    assert result.requires_grad
    assert result.is_leaf
    assert result.grad.tolist() == [2, 2, 2]
    result.grad.add_(1)
    assert leaf.grad.tolist() == [3, 3, 3]


def test_pipe_carries_handles_and_has_a_descriptor(context: Any) -> None:
    ours, theirs = context.Pipe()
    process = context.Process(target=tasks.pipe_echo, args=(theirs,))
    process.start()
    theirs.close()
    tensor = st.zeros(3)
    ours.send([tensor, "text"])
    assert mp.connection.wait([ours], LONG) == [ours]
    assert os.fstat(ours.fileno())
    result, text = ours.recv()
    result += 4
    assert text == "text"
    assert tensor.tolist() == [4, 4, 4]
    ours.send(None)
    process.join(LONG)
    assert process.exitcode == 0
    ours.close()
    process.close()


def test_names_and_parents(context: Any) -> None:
    out = context.SimpleQueue()
    process = context.Process(target=tasks.names, args=(out,), name="the worker")
    process.start()
    assert out.get(LONG) == ("the worker", os.getpid())
    process.join(LONG)
    process.close()


def test_grandchildren_share(context: Any) -> None:
    out = context.SimpleQueue()
    run(context, tasks.start_nested, context._name, out)
    assert out.get(LONG).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("how", "code"), [("kill", -9), ("exit", 3), ("raise", 1), ("abort", 7)])
def test_exit_codes(context: Any, how: str, code: int, capfd: pytest.CaptureFixture[str]) -> None:
    process = context.Process(target=tasks.die, args=(how,))
    process.start()
    process.join(LONG)
    assert process.exitcode == code
    process.close()
    capfd.readouterr()


def test_a_watched_death_ends_a_wait_and_is_named(context: Any) -> None:
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=tasks.echo, args=(inbox, outbox), name="echo 7", daemon=True)
    process.start()
    inbox.put("x")
    assert outbox.get(timeout=LONG) == "x"
    threading.Timer(0.2, os.kill, (process.pid, signal.SIGKILL)).start()
    start = time.monotonic()
    with pytest.raises(
        PeerLostError, match=r"echo 7 \(pid \d+\) was killed by SIGKILL \(-9\)"
    ) as caught:
        outbox.get(watch=[process])
    assert time.monotonic() - start < 10  # the benchmarks' processes/death has the time
    assert caught.value.pid == process.pid
    assert caught.value.exitcode == -9
    process.join()
    process.close()


def test_what_was_sent_before_a_watched_death_still_comes(context: Any) -> None:
    outbox = context.Queue()
    process = context.Process(target=tasks.make_and_send, args=(outbox, 3))
    process.start()
    process.join(LONG)
    for _ in range(3):
        outbox.get(timeout=LONG, watch=[process])
    with pytest.raises(queue.Empty):
        outbox.get(timeout=0.2, watch=[process])
    process.close()


def test_a_killed_child_gives_back_what_it_held(context: Any) -> None:
    inbox, ready = context.Queue(), context.Event()
    process = context.Process(target=tasks.hold, args=(inbox, ready))
    process.start()
    references = st.ones(1 << 18)
    inbox.put(references)
    assert ready.wait(LONG)
    assert memory.held_elsewhere(references.numpy())
    process.kill()
    process.join(LONG)
    assert process.exitcode == -9
    process.close()
    end = time.monotonic() + LONG
    while memory.held_elsewhere(references.numpy()):
        native.sweep(True)
        assert time.monotonic() < end, "the dead one holds it still"


def test_unread_arguments_of_a_dead_child_are_released(context: Any) -> None:
    before = memory.statistics().unread_messages
    processes = [
        context.Process(target=tasks.send, args=(st.ones(3), st.ones(1000))) for _ in range(2)
    ]
    for process in processes:
        process.start()
        os.kill(process.pid, signal.SIGKILL)
    for process in processes:
        process.join(LONG)
        process.close()
    assert memory.statistics().unread_messages <= before


def test_pool(context: Any) -> None:
    with context.Pool(2) as pool:
        assert pool.map(tasks.grow, range(20)) == list(range(1, 21))
        tensors = [st.full((4,), float(i)) for i in range(6)]
        assert [t.tolist() for t in pool.map(tasks.grow, tensors)] == [
            [i + 1.0] * 4 for i in range(6)
        ]
        pool.close()
        pool.join()


def test_pool_fails_the_task_of_a_killed_worker_and_goes_on(context: Any) -> None:
    with context.Pool(2) as pool:
        results = [pool.apply_async(tasks.killed_task, (i,)) for i in range(8)]
        start = time.monotonic()
        with pytest.raises(PeerLostError, match=r"SIGKILL \(-9\)") as caught:
            results[3].get(LONG)
        assert caught.value.exitcode == -9
        assert [results[i].get(LONG) for i in range(8) if i != 3] == [0, 1, 2, 4, 5, 6, 7]
        assert time.monotonic() - start < LONG
        assert pool.map(tasks.grow, range(5)) == [1, 2, 3, 4, 5]


def test_children_of_a_killed_process_do_not_wait_for_ever(context: Any) -> None:
    queue, said = context.Queue(), context.SimpleQueue()
    process = context.Process(
        target=tasks.start_waiter, args=(context._name, queue, said), name="the parent"
    )
    process.start()
    orphan = said.get(LONG)
    process.join(LONG)
    assert process.exitcode == -9
    process.close()
    assert "the parent" in said.get(LONG)
    until(lambda: state_of(orphan) in "ZX", "the orphan waits on")


STARTING = """
import signal
import sys
import time

from shmtensor import multiprocessing as mp

class Argument:
    def __reduce__(self):
        return wait, ()

def wait():
    print("starting", flush=True)
    time.sleep(100)

if __name__ == "__main__":
    # Whoever runs the tests in the background of a shell has it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = mp.get_context(sys.argv[1]).Process(target=print, args=(Argument(),))
    process.start()
    process.join()
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_ctrl_c_while_a_process_starts_is_told_once(method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(STARTING)
    root = Path(st.__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, str(program), method],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(root),
        start_new_session=True,
    ) as family:
        assert family.stdout is not None
        assert family.stdout.readline() == "starting\n"
        os.killpg(family.pid, signal.SIGINT)  # as a terminal does
        _, errors = family.communicate(timeout=60)
    assert family.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1, errors
    assert errors.rstrip().endswith("KeyboardInterrupt")


ABANDONED = """
import signal, time
from shmtensor import multiprocessing as mp
from shmtensor.multiprocessing import popen
from shmtensor.multiprocessing.child_main import end_with_parent

def serve():
    end_with_parent(signal.SIGKILL)
    time.sleep(600)

def interrupted(*_):
    raise KeyboardInterrupt

if __name__ == "__main__":
    popen.read_number = interrupted
    mp.get_context("forkserver").Process(target=serve, daemon=True).start()
"""


@pytest.mark.parametrize("step", ["read_number", "write"])
def test_a_start_that_was_interrupted_holds_nobody_up(step: str, tmp_path: Path) -> None:
    """The server waits for its children, and the program for the server. The child says nothing."""
    program = tmp_path / "program.py"
    program.write_text(ABANDONED.replace("read_number", step))
    process = run_program(program)
    assert process.returncode == -signal.SIGINT, process.stderr
    assert process.stderr.count("Traceback") == 1, process.stderr
    assert "KeyboardInterrupt" in process.stderr


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_an_interrupted_join_loses_no_exit_code(method: str) -> None:
    context = mp.get_context(method)
    at, is_interrupted = 1, True
    while is_interrupted:
        process = context.Process(target=os._exit, args=(3,))
        process.start()
        connection.wait([process.sentinel])
        is_interrupted = interrupt_after(
            at, process.join, popen.__file__, popen_fork.__file__, child_pipe.__file__
        )
        process.join()
        assert process.exitcode == 3, at
        process.close()
        at += 1
    assert at > 30


def test_an_interrupted_start_of_the_fork_server_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise Alarm

    server = forkserver.ForkServer()
    with monkeypatch.context() as patch:
        patch.setattr(forkserver, "write", interrupted)
        with pytest.raises(Alarm):
            server._connect()
    assert server._pid is None  # and no child is left
