"""A sentence for each process of a run: where its time went."""

from __future__ import annotations

from collections import Counter

from .. import native
from .read_events import ThreadEvents, Trace

# Kinds of events in the order of the sentence, and how it names their own time.
WORDS = {
    "op": "ops",
    "backward": "backward",
    "optimizer": "optimizers",
    "loader wait": "waiting for the loader",
    "collective": "collectives and barriers",
    "load": "loading batches",
    "queue wait": "waiting for queues",
}
DETAILED = ("op", "backward")  # kinds of which the sentence names the longest
NAMED = 3


def busiest(threads: list[ThreadEvents], tid: int) -> ThreadEvents:
    """The thread `tid`, if it has events; else the one with the longest ones."""
    for thread in threads:
        if thread.tid == tid:
            return thread
    return max(threads, key=lambda thread: int(thread.self_ns.sum()))


def shares(trace: Trace, thread: ThreadEvents, total: int) -> str:
    """The parts of a thread's time, as text: "62 % ops (matmul 31 %), 20 % waiting for ..."."""
    kinds = native.PROFILE_KINDS
    by_kind: Counter[str] = Counter()
    by_name: dict[str, Counter[str]] = {kind: Counter() for kind in DETAILED}
    kind_numbers, names = thread.events["kind"].tolist(), thread.events["name"].tolist()
    for owner, own in zip(thread.owners, thread.self_ns.tolist(), strict=True):
        kind, name = kinds[kind_numbers[owner]], names[owner]
        by_kind[kind] += own
        if kind in by_name:
            by_name[kind][trace.names[name]] += own
    parts = []
    named = [(by_kind[kind], kind) for kind in WORDS if by_kind[kind] >= total / 200]
    for own, kind in sorted(named, reverse=True):
        longest = ", ".join(
            f"{name} {percent(ns, total)}"
            for name, ns in by_name.get(kind, Counter()).most_common(NAMED)
            if ns >= total / 100
        )
        parts.append(f"{percent(own, total)} {WORDS[kind]}" + (f" ({longest})" if longest else ""))
    rest = total - sum(own for own, _ in named)
    parts.append(f"{percent(max(rest, 0), total)} other Python code")
    return ", ".join(parts)


def percent(ns: int, total: int) -> str:
    return f"{100 * ns / total:.0f} %"


def gpu_lines(trace: Trace, total: int) -> list[str]:
    """A line for each GPU: how long it had an op of this process, and the longest ones; of the time
    until its last one has ended.
    """
    spans: dict[int, list[tuple[int, int]]] = {}
    names: dict[int, Counter[str]] = {}
    for thread in trace.threads:
        ids = thread.events["name"].tolist()
        for note, name, figures in zip(thread.notes, ids, thread.device_figures(), strict=True):
            if note is not None and note.interval is not None and note.interval.last:
                device = note.interval.device
                spans.setdefault(device, []).append((note.interval.start, note.interval.end))
                names.setdefault(device, Counter())[trace.names[name]] += figures[1]
    lines = []
    for device in sorted(spans):
        busy, reached = 0, trace.start
        for start, end in sorted(spans[device]):
            busy += max(end - max(start, reached), 0)
            reached = max(reached, end)
        span = max(total, reached - trace.start)
        longest = names[device].most_common(NAMED)
        text = ", ".join(f"{name} {percent(ns, span)}" for name, ns in longest)
        lines.append(f"cuda:{device}: {percent(busy, span)} ops ({text}).")
    return lines


def summary(trace: Trace) -> str:
    """A line for the process that profiled, then one for each other process."""
    total = max(trace.end - trace.start, 1)
    steps = [
        int(duration)
        for thread in trace.threads
        for kind, duration in zip(thread.events["kind"], thread.events["duration"], strict=True)
        if native.PROFILE_KINDS[kind] == "step"
    ]
    lines: list[str] = []
    for process in trace.processes:
        threads = [thread for thread in trace.threads if thread.process is process]
        thread = busiest(threads, trace.tid if process.pid == trace.pid else process.pid)
        if process.pid == trace.pid:
            what = (
                f"{len(steps)} steps of {sum(steps) / len(steps) / 1e6:.3g} ms"
                if steps
                else (f"{total / 1e6:.3g} ms")
            )
            lines.insert(0, f"Where the time went ({what}): {shares(trace, thread, total)}.")
        else:
            first, last = int(thread.events["start"][0]), thread.events["start"].astype("i8")
            end = int((last + thread.events["duration"].astype("i8")).max())
            span = max(end - first, 1)
            lines.append(f"{process.role}: {shares(trace, thread, span)}.")
    lines += gpu_lines(trace, total)
    lines += trace.remarks
    if trace.dropped:
        lines.append(f"{trace.dropped} events had no room and are not counted.")
    return "\n".join(lines) or "Where the time went: nothing was recorded."
