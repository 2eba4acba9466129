"""Scenarios that together pass every fault point of the memory protocols."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import time
import warnings
from collections.abc import Callable

import numpy as np
from memory.actor import Actor
from memory.fresh import state_of, until

from shmtensor import memory, native
from shmtensor.errors import StaleHandle
from shmtensor.profiler import profile, record_function

from .harness import MIB, Harness, Mail, fork, has_tag, reap, stopped, tensor

SIZES = (100, 5000, 300_000, 17 * MIB)


def received_blocks(mail: Mail) -> None:
    """Everything that was sent is whole, travels on, and is let go."""
    for handle, n in mail.all():
        x = np.frombuffer(memory.receive(handle), np.uint8, n)
        native.sweep(True)
        assert has_tag(x, n % 251), n
        y = np.frombuffer(memory.receive(memory.export(x)), np.uint8, n)
        assert has_tag(y, n % 251), n
    mail.close()


# ---- allocate, share, free, reclaim, trim, grow
def heap(harness: Harness) -> None:
    """Every kind of block is allocated, sent, taken back, freed, reclaimed and trimmed."""
    mail = Mail()

    def act() -> None:
        references = [tensor(n, n % 251) for n in SIZES]
        for x in references:
            mail.send(x)  # its message keeps it
        freed = [tensor(n, 1) for n in (200, 3000, 400_000)]
        handles = [memory.export(x) for x in freed]
        del x
        blocks = [memory.receive(h) for h in handles[:2]]  # a handle comes home
        native.acknowledge(handles[2])
        references.clear()
        freed.clear()
        del blocks
        memory.trim()
        again = [tensor(n, 2) for n in (200, 3000, 400_000, 18 * MIB)]
        assert all(has_tag(x, 2) for x in again)
        again.clear()
        memory.trim()
        memory.check()

    harness.victim(act)
    received_blocks(mail)


def trimmed(harness: Harness) -> None:
    """A slot keeps one block, so that trim gives back pages and not the slot."""

    def act() -> None:
        small = tensor(3000, 1)
        runs = [tensor(300_000, 2) for _ in range(3)]
        runs.clear()
        memory.trim()
        assert has_tag(small, 1)

    harness.victim(act)


def slots(harness: Harness) -> None:
    """A block of several slots; a neighbour is in the way; the first volume has no room."""

    def act() -> None:
        first, second = tensor(17 * MIB, 1), tensor(17 * MIB, 2)
        del first
        memory.trim()
        wide = tensor(65 * MIB, 3)
        assert has_tag(second, 2)
        assert has_tag(wide, 3)
        del wide
        memory.trim()
        memory.check()

    harness.victim(act)
    # The same slots, whole. In a child: who was refused keeps away from that volume for a second.
    assert reap(fork(lambda: int(not has_tag(tensor(65 * MIB, 7), 7)))) == 0


# ---- receive, acknowledge, drop
def receiver(harness: Harness) -> None:
    """Another process's blocks are held by handle, once and twice, and let go."""
    arrays = [tensor(n, n % 251) for n in SIZES]
    handles = [memory.export(x) for x in arrays]

    def act() -> None:
        arrays.clear()  # what was inherited
        blocks = [memory.receive(h) for h in handles]
        blocks += [memory.receive(h) for h in handles]
        del blocks
        blocks = [memory.receive(h) for h in handles]
        passed = [memory.export(block) for block in blocks]  # re-export
        for h in passed:
            memory.receive(h)

    harness.victim(act)
    for h, x in zip(handles, arrays, strict=True):
        assert has_tag(x, x.size % 251)
        # None was reused: the handle still leads to the array.
        assert memory.receive(h).address == memory.block_of(x)[0]


# ---- fork, exit
def forking(harness: Harness) -> None:
    """A process with blocks of its own and of others forks; its child forks once more."""
    references = tensor(1000, 5)
    huge = tensor(17 * MIB, 6)
    handle = memory.export(references)

    def act() -> None:
        child_tensor, run = tensor(2000, 1), tensor(300_000, 2)
        received = np.frombuffer(memory.receive(handle), np.uint8, 1000)

        def child() -> None:
            assert has_tag(child_tensor, 1)
            assert has_tag(run, 2)
            assert has_tag(received, 5)
            assert has_tag(huge, 6)
            mine = tensor(5000, 3)
            assert reap(fork(lambda: int(mine[0]) - 3)) in (0, -9)
            memory.check()

        assert reap(fork(child)) in (0, -9)
        assert has_tag(child_tensor, 1)
        memory.check()

    harness.victim(act)
    time.sleep(0.01)
    assert has_tag(references, 5)
    assert has_tag(huge, 6)


def crowded(harness: Harness) -> None:
    """A fork passes over the row of a dead process that has left a message."""

    def send() -> None:
        memory.export(tensor(1000, 1))

    assert reap(fork(send)) == 0
    until(lambda: bool(native.sweep(True)) or memory.statistics().zombies == 1, "no zombie")
    harness.victim(lambda: reap(fork(lambda: memory.check())))
    assert memory.statistics().zombies >= 1


def take_all_rows() -> int:
    """No row is free until the descriptor that it returns is closed."""
    return (lock_all_rows if memory.statistics().liveness == "locks" else fill_all_rows)()


def fill_all_rows() -> int:
    """Forks until a child gets no row; they live as long as the end of a pipe is open."""
    holds, end = os.pipe()

    def wait() -> None:
        os.close(end)
        os.read(holds, 1)

    while fork(wait)[1] >= 0:
        continue
    os.close(holds)
    return end


def lock_all_rows() -> int:
    """Locks every free row, as so many living processes would."""
    fd = os.open(f"/proc/self/fd/{native.domain_fds()[0]}", os.O_RDWR | os.O_CLOEXEC)
    for row in range(256):
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, row, 1, 0)
        with contextlib.suppress(BlockingIOError):  # a living process has it
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)
    return fd


def rowless(harness: Harness) -> None:
    """A fork when no row is left freezes what lives."""
    references = tensor(1000, 5)
    handle = memory.export(references)

    def act() -> None:
        child_tensor = tensor(2000, 1)
        received = np.frombuffer(memory.receive(handle), np.uint8, 1000)
        fd = take_all_rows()
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(BaseException):
                warnings.simplefilter("ignore")
                private = np.ones(10)
                assert has_tag(child_tensor, 1)
                assert has_tag(received, 5)
                assert not native.is_shared(private)
                code = 0
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (0, -9)
        os.close(fd)
        assert has_tag(child_tensor, 1)

    harness.victim(act)
    assert has_tag(references, 5)


# ---- take-over
def stopped_at(point: str, deed: Callable[[], object]) -> tuple[int, int, int]:
    """A child that does `deed` and is stopped at `point`, or after it."""

    def run() -> None:
        native.arm_fault(point and point + ":1:stop")
        deed()
        os.kill(os.getpid(), signal.SIGSTOP)

    child = fork(run)
    until(lambda: stopped(child[0]), point)
    return child


def taking_over(harness: Harness) -> None:
    """Processes that died in every state of their slots and rows are swept, orphans reclaimed."""
    references = tensor(1000, 5)
    handle = memory.export(references)
    mail = Mail()
    objects: list[object] = []  # what lives when its process dies

    def hold_and_send() -> None:
        objects.append(memory.receive(handle))
        for n in (5000, 700_000):
            objects.append(x := tensor(n, n % 251))
            mail.send(x)
        memory.export(x)  # nobody ever reads this
        objects.append(tensor(65 * MIB, 1))

    def wide() -> None:
        tensor(65 * MIB, 1)
        memory.trim()

    dead = [
        stopped_at("", hold_and_send),
        stopped_at("slot.claimed", wide),
        stopped_at("slot.tail", wide),
        stopped_at("free.punched", wide),
        stopped_at("slot.claimed", lambda: tensor(100, 1)),
    ]
    handle, n = next(mail.all())
    holds = np.frombuffer(memory.receive(handle), np.uint8, n)

    def end(_: int) -> None:
        for child in dead:
            os.kill(child[0], signal.SIGKILL)

    def act() -> None:
        until(lambda: all(native.liveness(row, inc) == "dead" for _, row, inc in dead), "not dead")
        native.set_unread_grace(0.0, 0.0)
        native.sweep(True)
        native.sweep(True)
        memory.check()

    harness.victim(act, end)
    for child in dead:
        assert reap(child) == -9
    mail.close()
    native.sweep(True)
    assert has_tag(references, 5)
    assert has_tag(holds, n % 251)


def rescuing(harness: Harness) -> None:
    """A hold arrives between a reclaimer's mark and its end: of a block, of an orphaned slot."""
    mail = Mail()
    go = os.pipe()

    def reclaimer() -> None:
        x = tensor(5000, 5000 % 251)
        mail.send(x)
        del x
        os.read(go[0], 1)
        native.arm_fault("reclaim.marked:1:stop")
        memory.trim()

    def owner() -> None:
        objects.append(x := tensor(3000, 3000 % 251))
        mail.send(x)

    def heir() -> None:
        until(lambda: native.liveness(second[1], second[2]) == "dead", "the owner lives")
        native.sweep(True)

    objects: list[object] = []
    first = fork(reclaimer)
    second = stopped_at("", owner)
    letters: list[tuple[bytes, int]] = []
    until(lambda: bool(letters.extend(mail.all())) or len(letters) == 2, "no letters")
    for letter, _ in letters:
        # Acknowledged and dropped: nothing but the marks stands between these blocks and their end.
        memory.receive(letter)
    third = fork(lambda: native.arm_fault("orphan.marked:1:stop") or heir())

    def before(_: int) -> None:
        os.write(go[1], b"x")
        until(lambda: stopped(first[0]), "no reclaimer")
        os.kill(second[0], signal.SIGKILL)
        until(lambda: stopped(third[0]), "no heir")
        os.write(go[1], b"x")

    def act() -> None:
        until(lambda: native.liveness(second[1], second[2]) == "dead", "the owner lives")
        until(lambda: state_of(third[0]) in "TZX", "no heir")
        until(lambda: state_of(first[0]) in "TZX", "no reclaimer")
        os.read(go[0], 1)
        for letter, n in letters:
            x = np.frombuffer(memory.receive(letter), np.uint8, n)
            assert has_tag(x, n % 251)

    harness.victim(act, before)
    for child in (first, third):
        os.kill(child[0], signal.SIGCONT)
        assert reap(child) == 0
    assert reap(second) == -9
    for fd in go:
        os.close(fd)
    mail.close()


def spoil(harness: Harness, point: str, mail: Mail, act: Callable[[], object]) -> None:
    """The victim stops at `point`, after its first look. Then another process publishes a hold, and
    stops before it validates: the victim's second look sees that hold."""

    go = os.pipe()

    def guest() -> None:
        os.read(go[0], 1)
        native.arm_fault("receive.bit:1:stop")
        with contextlib.suppress(StaleHandle):
            memory.receive(next(mail.all())[0])

    other = fork(guest)

    def before(victim: int) -> None:
        until(lambda: state_of(victim) in "TZ", "no victim")
        os.write(go[1], b"x")
        until(lambda: state_of(other[0]) in "TZ", "the guest hangs")
        os.kill(victim, signal.SIGCONT)

    harness.victim(act, before, f"{point}:1:stop;")
    os.kill(other[0], signal.SIGCONT)
    assert reap(other) == 0
    for fd in go:
        os.close(fd)
    mail.close()


def spoiled_reclaim(harness: Harness) -> None:
    """A block is held by the second scan, not by the first: it stays."""
    mail = Mail()

    def act() -> None:
        x = tensor(5000, 1)
        handle = mail.send(x)
        native.acknowledge(handle)
        del x
        memory.trim()
        memory.check()

    spoil(harness, "reclaim.announced", mail, act)


def spoiled_orphan(harness: Harness) -> None:
    """A slot is held by the second scan, not by the first: it stays an orphan."""
    mail = Mail()
    objects: list[np.ndarray] = []

    def claim() -> None:
        objects.append(x := tensor(5000, 1))
        native.acknowledge(mail.send(x))

    owner = stopped_at("", claim)

    def act() -> None:
        os.kill(owner[0], signal.SIGKILL)
        until(lambda: native.liveness(owner[1], owner[2]) == "dead", "the owner lives")
        native.sweep(True)
        memory.check()

    spoil(harness, "orphan.marked", mail, act)
    assert reap(owner) == -9


# ---- expiry
def expiring(harness: Harness) -> None:
    """Messages that nobody reads make room for an allocation that needs it."""
    go = os.pipe()

    def sender() -> None:
        memory.export(tensor(1000, 1))
        memory.export(tensor(5000, 1))
        os.read(go[0], 1)

    first = fork(sender)
    until(lambda: len(native.unread()) == 2, "no messages")

    def act() -> None:
        native.set_unread_grace(0.0, 0.0)
        with contextlib.suppress(MemoryError), memory.shared_numpy():
            np.empty(50 << 30, np.uint8)

    harness.victim(act)
    os.write(go[1], b"x")
    assert reap(first) == 0
    for fd in go:
        os.close(fd)


# ---- a guest in the domain of a program that is no relative
def guest(harness: Harness, liveness: str = "locks") -> None:
    """A tensor of an unrelated program is opened, let go, opened again, and inherited by a fork."""
    name = f"guest/{os.getpid()}"
    stranger = Actor({"SHMTENSOR_LIVENESS": liveness})
    try:
        stranger.do(f"t = st.full((1000,), 7); memory.publish({name!r}, t)")

        def act() -> None:
            for readonly in (False, True):
                t = memory.open(name, readonly=readonly)
                assert (t == 7).all()

                child = fork(lambda kept=t: int(kept.sum().item() != 7000))  # type: ignore[misc]
                assert reap(child) in (0, -9)  # the fault may be the child's
                memory.check()
                del t
                assert len(memory.domains()) == 1

        harness.victim(act)
        swept = stranger.do(
            "import time\nend = time.monotonic() + 20\n"
            "while memory.domains()[0].processes + memory.domains()[0].zombies > 1:\n"
            "    native.sweep(True)\n    assert time.monotonic() < end, native.members()\n"
            "memory.check(); out = t.sum().item()"
        )
        assert swept == "7000", swept
    finally:
        stranger.kill()


def guest_by_name(harness: Harness) -> None:
    """The same where the rows name their processes, and the kernel locks none."""
    guest(harness, "process")


# ---- slabs of GPU memory; the ledger's part needs no GPU
UUID, IPC_HANDLE = b"gpu".ljust(16), b"ipc handle".ljust(64)


def slabs(harness: Harness) -> None:
    """Blocks of slabs are sent, held, opened, sent on, let go and reclaimed, and slabs retired."""
    slot, inc = native.slab_claim(UUID, 32 * MIB, 9, IPC_HANDLE)
    handle = native.slab_export(slot, inc, 3, 1000)

    def act() -> None:
        assert native.slab_hold(handle, False) == "held"
        native.slab_opened(slot)
        assert native.slab_line(slot)[:3] == (UUID, 32 * MIB, IPC_HANDLE)
        native.timeline_issue(5)
        passed = native.slab_export(slot, inc, 3, 1000)
        native.acknowledge(passed)
        native.slab_drop(slot, 3)
        native.slab_closed(slot)
        own, own_inc = native.slab_claim(UUID, 64 * MIB, 10, IPC_HANDLE)
        handles = [native.slab_export(own, own_inc, i, 1000) for i in range(3)]
        assert [native.slab_hold(h, False) for h in handles] == ["home"] * 3
        for h in handles[:2]:
            native.acknowledge(h)
        assert native.slab_reclaim([(own, 0), (own, 2)]) == [True, False]
        assert not native.slab_retire(own, own_inc)
        native.acknowledge(handles[2])
        assert native.slab_reclaim([(own, 1), (own, 2)]) == [True, True]
        assert native.slab_retire(own, own_inc)
        native.slab_end(own)
        native.sweep(True)
        memory.check()

    harness.victim(act)
    native.sweep(True)
    assert not native.slab_reclaim([(slot, 3)])[0]  # the message is there
    native.acknowledge(handle)
    native.set_unread_grace(0.0, 0.0)  # what the victim sent on
    native.sweep(True)
    native.set_unread_grace(60.0)
    until(lambda: native.slab_reclaim([(slot, 3)])[0], "the block is free")
    until(lambda: native.slab_retire(slot, inc), "nobody has the slab")
    native.slab_end(slot)


def lost_slab(harness: Harness) -> None:
    """The owner of a slab dies: its slot is lost, and free once its last holder has gone; and so is
    the work that it had numbered."""
    reader, writer = os.pipe()

    def own() -> None:
        slot, inc = native.slab_claim(UUID, 32 * MIB, 9, IPC_HANDLE)
        number, _ = native.timeline_issue(7)
        place = struct.pack("<2I", native.row()[0], number)
        os.write(writer, native.slab_export(slot, inc, 0, 512) + place)
        signal.pause()

    def act() -> None:
        os.read(reader, 1)
        native.sweep(True)

    def kill_owner(_: int) -> None:
        os.kill(owner[0], signal.SIGKILL)
        os.waitid(os.P_PID, owner[0], os.WEXITED | os.WNOWAIT)
        os.write(writer, b"x")

    owner = fork(own)  # type: ignore[arg-type]
    handle = os.read(reader, 80)
    row, number = struct.unpack_from("<2I", handle, 72)
    handle = handle[:72]
    assert native.timeline_state(row, 7, number) == "pending"
    slot, inc = struct.unpack_from("<16x2I", handle)
    harness.victim(act, kill_owner)
    os.close(reader)
    os.close(writer)
    reap(owner)
    native.sweep(True)
    assert not native.slab_live(slot, inc)
    assert native.timeline_state(row, 7, number) == "lost"
    with contextlib.suppress(StaleHandle):
        assert native.slab_hold(handle, False) == "lost"
    native.acknowledge(handle)


def profiled(harness: Harness) -> None:
    """A child of a process that profiles records: what it wrote before its death is there, and the
    profile goes on."""
    prof = profile()
    prof.start()

    def act() -> None:
        for i in range(40):
            with record_function(f"range {i}"):
                memory.check()

    harness.victim(act)
    with record_function("after"):
        pass
    prof.stop()
    names = [event.name for event in prof.events()]
    assert names.pop() == "after"
    assert names == [f"range {i}" for i in range(len(names))]
    assert harness.code != 0 or len(names) == 40


SCENARIOS: dict[str, Callable[[Harness], None]] = {
    scenario.__name__: scenario
    for scenario in (
        heap, trimmed, slots, receiver, forking, crowded, rowless, taking_over, rescuing,
        spoiled_reclaim, spoiled_orphan, expiring, guest, guest_by_name,
        slabs, lost_slab, profiled,
    )
}  # fmt: skip
