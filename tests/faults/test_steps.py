"""Every instruction that changes a shared word has a fault point after it, or stands here with the
reason why not.

tests/faults/test_points.py kills a process at each point. This file holds that none is missing: a
new CAS without a point fails here.
"""

from __future__ import annotations

from pathlib import Path

from .steps import WRAPPERS, Step, steps, steps_of

SOURCES = Path(__file__).resolve().parents[2] / "shmtensor" / "native"  # not where it is installed

# What is no step at all: reason -> file -> parts of the lines.
NO_STEPS = {
    "of this process alone": {
        "dispatch/modes.cc": [""],
        "dispatch/creation.cc": ["python_chooses_device"],
        "threading/thread_pool.cc": [""],  # its worker threads
        "memory/gradient_buffer.cc": [""],
        "memory/domain/guest.cc": ["range_base[i]", "range_size[i]", "guest_count"],
        "memory/heap/numpy_handler.cc": ["lost_reported", "data_bytes."],
        "profiler/events.cc": ["data_bytes."],
        "memory/domain/domain.cc": ["d.ready.store"],
        "memory/heap/heap.cc": ["busy.store", "stop.store", "committed_bytes."],
        "memory/heap/claim_slots.cc": ["committed_bytes."],
        "memory/heap/own_slots.cc": ["committed_bytes.", "a->committed[i", "a->committed[j"],
        "memory/ledger/ledger.cc": ["d.counts.acknowledged"],
        "ipc/process_group/group.cc": ["busy_"],
        "ipc/process_group/flight_recorder.cc": ["messages_."],
        "module.cc": ["interpreter_end.is_near.store"],
    },
    "the fault points themselves, and a figure for people": {
        "memory/inspect/fault_points.cc": ["shared_counts->", "remaining->"],
        "memory/heap/claim_slots.cc": ["short_volume"],
    },
    "part of what a later step publishes: until then nobody reads it": {
        # The fields of an entry that is FREE; the point export.fields comes before its word.
        "memory/ledger/ledger.cc": [
            "entry.slot.store", "entry.inc.store", "entry.index.store", "entry.gen.store",
            "entry.via_", "entry.time_ms.store", "entry.nbytes.store",
        ],
        # Of a process that has no pid yet; of a row that is FREE, and locked.
        "memory/domain/process_table.cc": [
            "r.start.store", "r.pidns.store", "r.timens.store",
            "row.pid.store(0", "row.start.store(0", "row.in_flight_high.store(0",
            "r.profile.store",
        ],
        # Which clock death_ms is of, before it; both once more: the grace period begins again.
        "memory/ledger/release_holds_of_dead.cc": [
            "row.timens.store",
            "row.death_ms.store(now, relaxed",
        ],
        # The second line of a slot that is CLAIMED.
        "memory/heap/claim_slots.cc": [
            "slot.kind.store", "slot.shift.store", "slot.length.store", "slot.back.store",
            "slot.committed.store", "slot.reclaiming.store",
        ],
        # Of a channel that is being made; of a segment that is not linked.
        "ipc/channel/segment.cc": [
            "root->head.store", "root->tail.store", "previous_released.store(previous",
        ],
        # Of a slab whose slot is CLAIMED; of lost numbers that no lost_to names yet.
        "memory/device/device_slots.cc": [
            "slot[s].shift.store", "slab.handle[i].store", "slab.uuid[i].store", "slab.size.store",
        ],
        "memory/device/timelines.cc": ["lost_from.store"],
        # Of a file that no row names yet; of an entry that `freed` does not cover yet.
        "profiler/events.cc": ["file->next_chunk.store", "file->free_chunks["],
        "ipc/lock/bind.cc": ["semaphore.at->loose.store"],  # of one that is being made
        "ipc/lock/lock.cc": ["places->tickets"],  # of a place whose state says that nobody waits
    },
    "a hint, right whatever its value": {
        "ipc/channel/channel.cc": ["segment->first.store", "segment->last.store"],
        # The number of a process, or whether its events still count.
        "profiler/events.cc": ["file->processes.fetch_add", "file->state.store"],
    },
    "read and written by the holder of the lock alone": {
        "ipc/lock/bind.cc": ["depth.", "lock->thread.store"],
    },
    "the one instruction of a wrapper, each call of which is a step": {
        "memory/domain/layout.h": ["word.compare_exchange_strong"],
        "memory/heap/claim_slots.cc": [
            "return swap_word",
            "if (word_of(d, s).compare_exchange_weak",
        ],
        "memory/domain/liveness.cc": ["d.rows[row].holder.store(0"],
        "memory/domain/process_table.cc": ["r.pid.store"],
        "ipc/channel/cell.h": ["word->fetch_add"],
        "ipc/process_group/group.cc": ["word->store(value"],
        "ipc/lock/semaphore.cc": ["return slot->compare_exchange_strong"],
    },
}  # fmt: skip

# Steps after which there is no point: reason -> file -> parts of the lines.
NO_POINT = {
    "the last step of its operation: who dies after it dies after the operation": {
        "memory/device/timelines.cc": [
            "t.done.compare_exchange_weak", "t->issued.store(number - 1",
        ],
        "ipc/channel/statistics_and_close.cc": [
            "announce(&root_->room, &root_->writers, INT_MAX);"
        ],
        "ipc/channel/channel.cc": [
            "announce(&root_->room, &root_->writers, 1);",
            "announce(&root_->items, &root_->readers, 1);",
            "announce(&root_->items, &root_->readers, INT_MAX);",
        ],
        "profiler/events.cc": [".profile.store(word", "->used.store", "file->freed.store"],
    },
    "a waiter takes its own count back; that of a dead one stays, and has a point": {
        "ipc/channel/bind.cc": ["waiters->fetch_sub(1"],
        "ipc/process_group/group.cc": ["sleepers->fetch_sub(1"],
        "ipc/lock/lock.cc": ["lock->waiters.fetch_sub(1"],
        "ipc/lock/semaphore.cc": ["semaphore->waiters.fetch_sub(1"],
    },
    "the other branch has the point, which is of both": {
        "memory/device/device_slots.cc": ["swap_word(word, old, block_word_of(gen, kLive))"],
    },
    "the next step does the same once more, or instead": {
        "ipc/lock/lock.cc": [
            "if (!place->who.compare_exchange_strong(who, pack(me)",
            "bool is_notified =",
            "if (place->state.compare_exchange_strong(state, 0)) vacate",
        ],
    },
}  # fmt: skip


def flat(reasons: dict[str, dict[str, list[str]]]) -> set[tuple[str, str]]:
    """File and part of a line of each entry."""
    files = [item for files in reasons.values() for item in files.items()]
    return {(file, part) for file, parts in files for part in parts}


def fits(step: Step, entry: tuple[str, str]) -> bool:
    return step.file == entry[0] and entry[1] in step.text


def test_every_step_has_a_fault_point() -> None:
    bare = [
        f"{step.file}:{step.line}: {step.text}"
        for step in steps(SOURCES, flat(NO_STEPS))
        if not step.is_followed and not any(fits(step, entry) for entry in flat(NO_POINT))
    ]
    assert not bare, "no fault point follows, and no reason is given:\n" + "\n".join(bare)


def test_every_reason_is_needed() -> None:
    everything = steps(SOURCES, set())
    remaining = [step for step in steps(SOURCES, flat(NO_STEPS)) if not step.is_followed]
    unused = [e for e in flat(NO_STEPS) if not any(fits(step, e) for step in everything)]
    unused += [e for e in flat(NO_POINT) if not any(fits(step, e) for step in remaining)]
    assert not unused


def test_what_counts_as_followed() -> None:
    source = """void f() {
  a->store(1);  // fault("in.a.comment")
  b.fetch_add(1);
  fault("f.added");
}
void g() {
  if (swap_word(w, 0, 1)) say("fault(");
  x->compare_exchange_strong(o, 1);
  fault("g.swapped");
}
void swap_word(int) {
  __atomic_fetch_or(&bits, 1, 0);
  load(__atomic_load_n(&bits, 0));
}
void h() {
  fault("h.begun");
}
"""
    result = [(step.line, step.is_followed) for step in steps_of("f.cc", source, set())]
    assert result == [(2, False), (3, True), (7, False), (8, True), (12, False)]


def test_the_wrappers_are_there() -> None:
    files = [path for kind in ("*.cc", "*.h") for path in SOURCES.rglob(kind)]
    text = "".join(path.read_text() for path in files)
    assert [name for name in WRAPPERS if f" {name}(" not in text] == []
