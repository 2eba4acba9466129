"""An explorer of small programs on a weak memory: every interleaving, every value that a load may
see.

The memory is that of C++ atomics without load buffering, in its operational form: a location is
the list of its stores; each thread has a view, the oldest store of each location that it may still
read; a release store carries its thread's view along, an acquire load takes it over; fences do so
for the relaxed accesses around them; a seq_cst fence joins its thread's view with one global view,
both ways. A read-modify-write reads the newest store. Stores of one location come in the order in
which they happen (a thread may read old ones, but none is slipped in between).

Plain data (`write`, `read`) may only be touched by who has seen the last write, and be written only
by who has seen every read: else the program has a data race, which is an error, as a failed `claim`
is. Such an order must come from the atomics: that is what makes a missing release visible here.

    program = [thread, thread, ...]; a thread is a list of steps; registers are the thread's own
    explore(program) -> the number of states, and None or the text of the first error
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Registers = dict[str, Any]
Value = Any  # a constant, or a function of the registers


@dataclass(frozen=True)
class Step:
    kind: str
    location: str = ""
    order: str = "relaxed"
    value: Value = 0
    expected: Value = 0
    register: str = ""
    when: Callable[[Registers], bool] | None = None


def load(register: str, location: str, order: str = "relaxed") -> Step:
    return Step("load", location, order, register=register)


def store(location: str, value: Value, order: str = "relaxed") -> Step:
    return Step("store", location, order, value)


def swap(register: str, location: str, expected: Value, value: Value) -> Step:
    """Compare and exchange, acq_rel; the register tells whether it succeeded."""
    return Step("swap", location, "acq_rel", value, expected, register)


def add(register: str, location: str, value: int, order: str = "relaxed") -> Step:
    """Fetch and add; `register` is the old value."""
    return Step("add", location, order, value, register=register)


def fence(order: str = "seq_cst") -> Step:
    return Step("fence", order=order)


def write(location: str, value: Value) -> Step:
    return Step("write", location, value=value)


def read(register: str, location: str) -> Step:
    return Step("read", location, register=register)


def claim(true: Callable[[Registers], bool], condition: str) -> Step:
    return Step("claim", condition, value=true)


def only(when: Callable[[Registers], bool], *steps: Step) -> list[Step]:
    """Steps that are taken only if `when` holds."""
    return [
        Step(s.kind, s.location, s.order, s.value, s.expected, s.register, both(when, s.when))
        for s in steps
    ]


def both(
    one: Callable[[Registers], bool], other: Callable[[Registers], bool] | None
) -> Callable[[Registers], bool]:
    return one if other is None else lambda r: one(r) and other(r)


View = dict[str, int]


def join(x: View, y: View) -> View:
    out = dict(x)
    for location, i in y.items():
        if out.get(location, 0) < i:
            out[location] = i
    return out


@dataclass
class Thread:
    at: int
    registers: Registers
    view: View  # it reads no older store than these
    acquired: View  # an acquire fence would add these
    released: View  # its relaxed stores publish this: its view at the last release fence

    def copy(self) -> Thread:
        return Thread(
            self.at, dict(self.registers), dict(self.view), dict(self.acquired), self.released
        )


class Machine:
    """A state: the stores of each location, and every thread."""

    def __init__(self, program: list[list[Step]], initial: dict[str, Any]) -> None:
        self.program = program
        self.memory: dict[str, list[tuple[Any, View]]] = {k: [(v, {})] for k, v in initial.items()}
        self.threads = [Thread(0, {}, {}, {}, {}) for _ in program]
        self.global_view: View = {}

    def copy(self, thread: int) -> Machine:
        other = Machine.__new__(Machine)
        other.program = self.program
        other.memory = {k: list(v) for k, v in self.memory.items()}
        other.threads = list(self.threads)
        other.threads[thread] = self.threads[thread].copy()
        other.global_view = self.global_view
        return other

    def key(self) -> Any:
        def frozen(view: View) -> Any:
            return tuple(sorted((k, i) for k, i in view.items() if i))

        return (
            tuple(
                (k, tuple((v, frozen(w)) for v, w in stores))
                for k, stores in sorted(self.memory.items())
            ),
            tuple(
                (
                    t.at,
                    tuple(sorted(t.registers.items())),
                    *map(frozen, (t.view, t.acquired, t.released)),
                )
                for t in self.threads
            ),
            frozen(self.global_view),
        )

    def stores(self, location: str) -> list[tuple[Any, View]]:
        return self.memory.setdefault(location, [(0, {})])

    # ---- one step; a list of states, or a text
    def step(self, number: int) -> list[Machine] | str:
        t = self.threads[number]
        s = self.program[number][t.at]
        if s.when is not None and not s.when(t.registers):
            return [self.after(number)]
        return getattr(self, s.kind)(number, s)

    def after(self, number: int) -> Machine:
        m = self.copy(number)
        m.threads[number].at += 1
        return m

    def value(self, number: int, value: Value) -> Any:
        return value(self.threads[number].registers) if callable(value) else value

    def see(self, t: Thread, location: str, i: int, order: str) -> Any:
        value, message_view = self.stores(location)[i]
        t.view[location] = max(t.view.get(location, 0), i)
        t.acquired = join(t.acquired, message_view)
        if order in ("acquire", "acq_rel", "seq_cst"):
            t.view = join(t.view, message_view)
        return value

    def put(self, t: Thread, location: str, value: Any, order: str, message_view: View) -> None:
        stores = self.stores(location)
        t.view[location] = len(stores)
        view = t.view if order in ("release", "acq_rel", "seq_cst") else t.released
        stores.append((value, join(join(view, message_view), {location: len(stores)})))

    def load(self, number: int, s: Step) -> list[Machine]:
        out = []
        oldest = self.threads[number].view.get(s.location, 0)
        for i in range(oldest, len(self.stores(s.location))):
            m = self.after(number)
            t = m.threads[number]
            t.registers[s.register] = m.see(t, s.location, i, s.order)
            out.append(m)
        return out

    def store(self, number: int, s: Step) -> list[Machine]:
        m = self.after(number)
        m.put(m.threads[number], s.location, self.value(number, s.value), s.order, {})
        return [m]

    def swap(self, number: int, s: Step) -> list[Machine]:
        m = self.after(number)
        t = m.threads[number]
        last = len(m.stores(s.location)) - 1
        message_view = m.stores(s.location)[last][1]
        old = m.see(t, s.location, last, "acquire")
        t.registers[s.register] = old == self.value(number, s.expected)
        if t.registers[s.register]:
            m.put(t, s.location, self.value(number, s.value), "acq_rel", message_view)
        return [m]

    def add(self, number: int, s: Step) -> list[Machine]:
        m = self.after(number)
        t = m.threads[number]
        last = len(m.stores(s.location)) - 1
        message_view = m.stores(s.location)[last][1]
        old = m.see(t, s.location, last, s.order)
        t.registers[s.register] = old
        m.put(t, s.location, old + s.value, s.order, message_view)
        return [m]

    def fence(self, number: int, s: Step) -> list[Machine]:
        m = self.after(number)
        t = m.threads[number]
        if s.order in ("acquire", "seq_cst"):
            t.view = join(t.view, t.acquired)
        if s.order == "seq_cst":
            t.view = m.global_view = join(t.view, m.global_view)
        if s.order in ("release", "seq_cst"):
            t.released = dict(t.view)
        return [m]

    def write(self, number: int, s: Step) -> list[Machine] | str:
        view = self.threads[number].view
        unseen = view.get(s.location, 0) != len(self.stores(s.location)) - 1 or any(
            view.get(k, 0) != len(v) - 1
            for k, v in self.memory.items()
            if k.startswith(s.location + " read by ")
        )
        if unseen:
            return f"data race: thread {number} writes {s.location}"
        return self.store(number, s)

    def read(self, number: int, s: Step) -> list[Machine] | str:
        stores = self.stores(s.location)
        if self.threads[number].view.get(s.location, 0) != len(stores) - 1:
            return f"data race: thread {number} reads {s.location}"
        m = self.after(number)
        t = m.threads[number]
        t.registers[s.register] = stores[-1][0]
        mark = f"{s.location} read by {number}"
        m.put(t, mark, 1, "relaxed", {})
        return [m]

    def claim(self, number: int, s: Step) -> list[Machine] | str:
        true = s.value(self.threads[number].registers)
        return [self.after(number)] if true else f"thread {number}: {s.location}"


def explore(
    program: list[list[Step]],
    initial: dict[str, Any] | None = None,
    final: Callable[[list[Registers]], bool] = lambda _: True,
) -> tuple[int, str | None]:
    """Explores every run of a program: returns the number of states, and the first error or None.

    Args:
        final: what must hold of all threads' registers when they have ended.
    """
    start = Machine(program, initial or {})
    states = {start.key()}
    todo = [start]
    while todo:
        m = todo.pop()
        running = [i for i, t in enumerate(m.threads) if t.at < len(program[i])]
        if not running and not final([t.registers for t in m.threads]):
            return len(states), f"at the end: {[t.registers for t in m.threads]}"
        for i in running:
            following = m.step(i)
            if isinstance(following, str):
                return len(states), following
            for other in following:
                key = other.key()
                if key not in states:
                    states.add(key)
                    todo.append(other)
    return len(states), None
