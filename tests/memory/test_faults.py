"""Deaths and stops at particular arrows of the protocol: nobody hangs, no data is lost, memory
comes back. tests/faults kills and stops a process at every arrow."""

from __future__ import annotations

import os
import time

import numpy as np

from shmtensor import memory, native

from .fresh import Child, check, each, fresh, isolated, settle, shared

MIB = 1 << 20


def killed(child: Child) -> None:
    assert child.wait() == -9, "the fault point was not reached"


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
    fresh(each, __name__, "dying_owner", *zip(points))


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
@isolated
def test_a_sweeper_that_was_stopped_leaves_alone_what_others_have_freed_meanwhile() -> None:
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
    fresh(each, __name__, "stalled_reclaimer", *((at + ":stop",) for at in points))


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
    points = [("orphan.marked:1:stop",), ("orphan.scanned:1:stop",)]
    fresh(each, __name__, "stalled_heir", *points)
