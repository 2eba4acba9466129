"""SIGKILL at each arrow of the protocol: nobody hangs, no data is lost, memory comes back."""

# ruff: noqa: F821 (closures name arrays that are deleted after their last call)
from __future__ import annotations

import os
import time

import numpy as np

from shmtensor import memory, native

from .fresh import Child, check, fresh, fresh_each, settle

MIB = 1 << 20


def shared(n: int, value: int = 0) -> np.ndarray:
    with memory.shared_numpy():
        return np.full(n, value, np.uint8)


def killed(child: Child) -> None:
    assert child.wait() == -9, "the fault point was not reached"


# ---- a sender dies
def dying_export(fault: str) -> None:
    mine = shared(5000, 3)

    def body() -> int:
        x = shared(100_000, 1)
        memory.export(mine)
        memory.export(x)
        return 0

    killed(Child(body, fault))
    native.sweep(True)
    check()
    assert (mine == 3).all()
    del mine
    settle(0)


def test_kill_in_export() -> None:
    points = ("export.fields", "export.pinned", "export.validated")
    fresh_each(dying_export, *((f"{at}:{nth}",) for at in points for nth in (1, 2)))


# ---- a receiver dies
def dying_receiver(fault: str) -> None:
    arrays = [shared(n, n % 251) for n in (100, 5000, 300_000, 70 * MIB)]
    handles = [memory.export(x) for x in arrays]

    def body() -> int:
        inherited = len(arrays)
        arrays.clear()  # what was inherited is let go, so that the handles are new holds
        blocks = [memory.receive(h) for h in handles]
        del blocks
        return inherited

    killed(Child(body, fault))
    native.sweep(True)
    check()
    for x in arrays:
        assert (x == x.size % 251).all()
    again = []
    for h, x in zip(handles, arrays, strict=True):  # the sender still has them all
        again.append(memory.receive(h))
        assert again[-1].address == memory.block_of(x)[0]
    arrays.clear()
    del x, again
    settle(0)


def test_kill_in_receive_acknowledge_or_drop() -> None:
    points = ("receive.bit", "receive.validated", "acknowledge", "acknowledged", "drop", "drop.bit")
    fresh_each(dying_receiver, *((f"{at}:{nth}",) for at in points for nth in (1, 4)))


# ---- an owner dies while it reclaims; a survivor holds some of its blocks
def dying_owner(fault: str) -> None:
    handles, exit_pipe = os.pipe(), os.pipe()

    def body() -> int:
        arrays = [shared(n, n % 251) for n in (100, 2000, 5000, 300_000, 20 * MIB)]
        for x in arrays:
            os.write(handles[1], memory.export(x))
            os.write(handles[1], memory.export(x))
        os.read(exit_pipe[0], 1)
        del x
        arrays.clear()
        memory.trim()
        shared(1000)
        return 0

    child = Child(body, fault)
    references = []
    for i in range(10):
        block = memory.receive(os.read(handles[0], 72))
        if i % 4 == 0:
            references.append(block)
        del block
    os.write(exit_pipe[1], b"x")
    killed(child)
    for _ in range(3):
        native.sweep(True)
        check()
    sizes = [100, 5000, 20 * MIB]
    for block, n in zip(references, sizes, strict=True):
        x = np.frombuffer(block, np.uint8, n)
        assert (x == n % 251).all()
        again = memory.export(x)  # a dead owner's block still travels
        memory.receive(again)
    del x, block
    assert memory.statistics().slots_orphaned > 0
    references.clear()
    settle(0)


def test_kill_in_reclaim() -> None:
    points = [
        "reclaim.rows:1", "reclaim.announced:1", "reclaim.announced:2", "reclaim.marked:1",
        "reclaim.rows:2", "reclaim.scanned:1", "reclaim.freed:1", "reclaim.freed:2",
    ]  # fmt: skip
    fresh_each(dying_owner, *((at,) for at in points))


# ---- a slot's owner dies while slots come and go
def dying_claimer(fault: str) -> None:
    def body() -> int:
        x = shared(150 * MIB, 1)  # three slots
        y = shared(1000, 1)
        z = shared(300_000, 1)
        del x, y, z
        memory.trim()
        return 0

    killed(Child(body, fault))
    settle(0)
    x = shared(200 * MIB, 7)  # the same slots, whole
    assert (x[:: 1 << 16] == 7).all()
    del x
    settle(0)


def test_kill_in_claim_or_release_of_slots() -> None:
    points = [
        "slot.claimed:1", "slot.claimed:2", "slot.tail:1", "slot.tail:2", "slot.live:1",
        "slot.live:3", "commit.done:1", "commit.done:2", "free.freeing:1", "free.punched:1",
        "free.tail:1", "free.tail:2",
    ]  # fmt: skip
    fresh_each(dying_claimer, *((at,) for at in points))


# ---- a claim that ends at its very first slot
def dying_at_first_claim(fault: str) -> None:
    n_slots = memory.statistics().slots_used
    killed(Child(lambda: int(shared(150 * MIB, 1)[0]) - 1, fault))  # three slots
    native.sweep(True)
    # They are free again, and not only once somebody with the dead one's row has died, too.
    x = shared(150 * MIB, 7)
    s = memory.statistics()
    assert s.slots_used == n_slots + s.slots_tiny + s.slots_medium + s.slots_huge, s
    assert (x[:: 1 << 16] == 7).all()
    del x
    settle(n_slots)


def test_slots_claimed_by_the_dead_are_not_lost() -> None:
    """Also those that nobody had ever claimed before, so that no scan looked at them."""
    for nth in (1, 2, 3):
        fresh(dying_at_first_claim, f"slot.claiming:{nth}")


# ---- a sweeper that is stopped over a slot which others free, and use again, meanwhile
def stalled_sweeper() -> None:
    handles, start_pipe, go = os.pipe(), os.pipe(), os.pipe()

    def sweeper() -> int:
        row, inc = os.read(go[0], 1)[0], os.read(go[0], 1)[0]
        while native.liveness(row, inc) != "dead":
            time.sleep(0.001)
        native.arm_fault("sweep.tail.found:1:stop")
        native.sweep(True)
        return 0

    def owner() -> int:
        os.write(handles[1], memory.export(shared(130 * MIB, 3)))  # a head and two tails
        os.read(start_pipe[0], 1)
        return 0

    third = Child(sweeper)
    first = Child(owner)
    holds = memory.receive(os.read(handles[0], 72))
    last_tail = holds.address + 128 * MIB
    first.kill()
    native.sweep(True)  # an orphan now, whose tails go on to name the dead one's row
    second = Child(lambda: len(os.read(start_pipe[0], 1)))
    assert second.row == first.row
    second.kill()
    os.write(go[1], bytes([second.row, second.inc]))
    assert os.WIFSTOPPED(os.waitpid(third.pid, os.WUNTRACED)[1])

    del holds
    native.sweep(True)  # nobody holds the orphan: it goes
    arrays = [shared(60 * MIB, 7) for _ in range(3)]
    assert last_tail in [memory.block_of(x)[0] for x in arrays]
    os.kill(third.pid, 18)
    assert third.wait() == 0
    assert all((x == 7).all() for x in arrays)
    check()
    del arrays
    settle(0)


def test_a_sweeper_that_was_stopped_leaves_alone_what_others_have_freed_meanwhile() -> None:
    fresh(stalled_sweeper)


# ---- the process that sweeps a dead one, or reclaims its orphans, dies
def at_once(fault: str) -> None:
    """The fork itself sweeps, so the owner has to die after its heir was born."""
    go = os.pipe()

    def owner() -> int:
        x = shared(150 * MIB, 1)
        mine = memory.receive(handle)
        os.read(go[0], 1)
        return int(x[0]) - 1 + mine.nbytes * 0

    references = shared(1000, 5)
    handle = memory.export(references)
    first = Child(owner)

    def heir() -> int:
        while native.liveness(first.row, first.inc) != "dead":
            time.sleep(0.001)
        native.arm_fault(fault)
        native.sweep(True)
        native.sweep(True)
        return 0

    second = Child(heir)
    os.write(go[1], b"x")
    assert first.wait() == 0
    killed(second)
    assert (references == 5).all()
    del references
    settle(0)


def test_kill_in_sweep_or_orphan_reclaim() -> None:
    points = [
        "sweep.locked:1", "sweep.bits:1", "sweep.orphan:1", "sweep.zombie:1", "orphan.marked:1",
        "orphan.scanned:1", "orphan.freeing:1", "free.punched:1", "free.tail:1", "free.tail:2",
    ]  # fmt: skip
    fresh_each(at_once, *((at,) for at in points))


# ---- parent or child dies in a fork
def dying_fork(fault: str, child_dies: bool) -> None:
    references = shared(1000, 5)
    huge = shared(70 * MIB, 6)

    def middle() -> int:
        x = shared(2000, 1)
        y = shared(300_000, 2)
        native.arm_fault(fault)
        pid = os.fork()
        if pid == 0:
            os._exit(int(x[0]) + int(y[0]) + int(references[0]) + int(huge[-1]) - 14)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        native.arm_fault(None)
        check()
        assert (x == 1).all()
        return 4 if code == -9 else 5

    child = Child(middle)
    code = child.wait()
    assert code == (4 if child_dies else -9)
    time.sleep(0.05)
    assert (references == 5).all()
    check()
    del references, huge
    settle(0)


def test_kill_of_a_forking_parent() -> None:
    points = ["row.locked", "row.claimed", "fork.born", "fork.copied", "fork.ready", "fork.parent"]
    fresh_each(dying_fork, *((at, False) for at in points))


def test_kill_of_a_child_in_its_fork_handler() -> None:
    fresh_each(dying_fork, ("fork.child", True), ("fork.live", True))


# ---- a newcomer dies while it joins
def newcomer() -> None:
    native.domain_ensure()


def join_with_fault(fault: str) -> None:
    references = shared(1000, 5)
    fresh(
        newcomer,
        env={"SHMTENSOR_DOMAIN": memory.domain_environment(), "SHMTENSOR_FAULT": fault},
        returncode=-9,
    )
    assert (references == 5).all()
    del references
    settle(0)
    assert len(native.members()) == 1


def test_kill_of_a_newcomer() -> None:
    fresh_each(join_with_fault, ("row.locked",), ("row.claimed",), ("domain.entered",))


# ---- a message expires, or its expirer dies
def dying_expirer() -> None:
    go = os.pipe()

    def sender() -> int:
        memory.export(shared(1000, 1))
        os.read(go[0], 1)
        return 0

    first = Child(sender)
    while not native.unread():
        time.sleep(0.001)
    native.set_unread_grace(0, 0)

    def expirer() -> int:
        native.arm_fault("expire")
        try:
            with memory.shared_numpy():
                np.empty(50 << 30, np.uint8)  # growth beyond the limit presses
        except MemoryError:
            pass
        return 0

    killed(Child(expirer))
    os.write(go[1], b"x")
    assert first.wait() == 0
    settle(0)


def test_kill_in_expiry() -> None:
    fresh(dying_expirer)


# ---- a reclaimer that is stopped, not killed, frees nothing that was rescued meanwhile
def stalled_reclaimer(fault: str) -> None:
    handles, ready, go = os.pipe(), os.pipe(), os.pipe()

    def owner() -> int:
        x = shared(5000, 1)
        os.write(handles[1], memory.export(x))
        del x
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        native.arm_fault(fault)
        memory.trim()  # its message is acknowledged and dropped: free, unless rescued
        y = shared(5000, 2)
        return int(y[0]) - 2

    child = Child(owner)
    os.read(ready[0], 1)
    handle = os.read(handles[0], 72)
    memory.receive(handle)
    os.write(go[1], b"x")
    assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
    # The generation has not moved on yet, so this hold stands: it rescues the block.
    block = memory.receive(handle)
    x = np.frombuffer(block, np.uint8, 5000)
    os.kill(child.pid, 18)
    assert child.wait() == 0
    assert (x == 1).all()
    native.sweep(True)
    assert (x == 1).all()
    del x, block
    settle(0)


def test_block_is_rescued_from_a_stopped_reclaimer() -> None:
    points = ["reclaim.announced:1", "reclaim.marked:1", "reclaim.rows:2", "reclaim.scanned:1"]
    fresh_each(stalled_reclaimer, *((at + ":stop",) for at in points))


def stalled_heir(fault: str) -> None:
    handles, start_pipe = os.pipe(), os.pipe()

    def owner() -> int:
        os.write(handles[1], memory.export(shared(5000, 1)))
        os.read(start_pipe[0], 1)
        return 0

    first = Child(owner)
    handle = os.read(handles[0], 72)

    def heir() -> int:
        while native.liveness(first.row, first.inc) != "dead":
            time.sleep(0.001)
        native.arm_fault(fault)
        native.sweep(True)
        native.sweep(True)
        return 0

    memory.receive(handle)  # acknowledged and dropped again
    second = Child(heir)
    os.write(start_pipe[1], b"x")
    assert first.wait() == 0
    assert os.WIFSTOPPED(os.waitpid(second.pid, os.WUNTRACED)[1])
    block = memory.receive(handle)
    x = np.frombuffer(block, np.uint8, 5000)
    os.kill(second.pid, 18)
    assert second.wait() == 0
    native.sweep(True)
    assert (x == 1).all()
    del x, block
    settle(0)


def test_orphan_slot_is_rescued_from_a_stopped_reclaimer() -> None:
    fresh_each(stalled_heir, ("orphan.marked:1:stop",), ("orphan.scanned:1:stop",))
