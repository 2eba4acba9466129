"""`utils.benchmark` measures what it says, and leaves threads and clocks as they were."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor.utils.benchmark import Compare, Measurement, TaskSpec, Timer


class Clock:
    """Advances by `step` seconds each time that `work` is called."""

    def __init__(self, step: float) -> None:
        self.now, self.step, self.calls = 0.0, step, 0

    def __call__(self) -> float:
        return self.now

    def work(self) -> None:
        self.calls += 1
        self.now += self.step


def timer_of(clock: Clock, **options: Any) -> Timer:
    return Timer("work()", globals={"work": clock.work}, timer=clock, **options)


def test_timeit_runs_so_often_after_a_warm_up() -> None:
    clock = Clock(0.25)
    found = timer_of(clock).timeit(200)
    assert (clock.calls, found.number_per_run, found.raw_times) == (202, 200, [50.0])
    assert found.mean == found.median == 0.25


@pytest.mark.parametrize("step", [1e-7, 1e-3, 1.0])
def test_blocked_autorange_measures_long_enough(step: float) -> None:
    seen: list[tuple[int, float]] = []
    found = timer_of(Clock(step)).blocked_autorange(lambda *each: seen.append(each), 0.2)
    assert sum(found.raw_times) >= 0.2
    assert len(found.raw_times) <= 101
    assert seen == [(found.number_per_run, t) for t in found.raw_times]
    assert found.median == pytest.approx(step)


def test_adaptive_autorange_ends_when_it_is_sure_or_late() -> None:
    found = timer_of(Clock(1e-3)).adaptive_autorange()
    assert len(found.raw_times) < 200
    clock = Clock(1e-3)
    steps = iter(range(1, 10**6))

    def unsteady() -> None:
        clock.now += 1e-3 * (1 + next(steps) % 2 * 50)

    timer = Timer("work()", globals={"work": unsteady}, timer=clock)
    late = timer.adaptive_autorange(threshold=1e-9, max_run_time=0.5)
    assert sum(late.raw_times) >= 0.5


def test_threads_are_those_asked_for_and_set_back() -> None:
    before, seen = st.get_num_threads(), []
    timer = Timer("look()", globals={"look": lambda: seen.append(st.get_num_threads())})
    timer.timeit(1)
    assert seen == [1, 1]
    failing = Timer("1 / 0", num_threads=2)
    with pytest.raises(ZeroDivisionError):
        failing.timeit(1)
    assert st.get_num_threads() == before


def test_quartiles_and_texts() -> None:
    spec = TaskSpec("f()", "pass", label="table", sub_label="row", num_threads=2)
    found = Measurement(2, [2e-6, 4e-6, 6e-6, 8e-6, 10e-6], spec)
    assert found.times == pytest.approx([1e-6, 2e-6, 3e-6, 4e-6, 5e-6])
    assert found.quartiles == pytest.approx((2e-6, 4e-6))
    assert found.iqr == pytest.approx(2e-6)
    assert str(found).splitlines() == [
        "table: row",
        "  Median: 3 us",
        "  IQR:    2 us (2 to 4)",
        "  5 measurements, 2 runs per measurement, 2 threads",
    ]


def test_compare_joins_tasks_and_parts_tables() -> None:
    def found(label: str, row: str, column: str, seconds: float) -> Measurement:
        names = {"label": label, "sub_label": row, "description": column}
        return Measurement(1, [seconds], TaskSpec("f()", "pass", **names))  # type: ignore[arg-type]

    compare = Compare([found("a", "x", "old", 1e-3), found("a", "x", "old", 3e-3)])
    compare.extend_results([found("a", "y", "new", 4e-3), found("b", "x", "old", 1.0)])
    assert str(compare) == (
        "a: medians in ms, 1 thread\n   old  new\nx    2     \ny         4\n\n"
        "b: medians in s, 1 thread\n   old\nx    1"
    )


@pytest.mark.parametrize("options", [{"language": "cpp"}, {"global_setup": "int x;"}])
def test_only_python_is_timed(options: dict[str, str]) -> None:
    with pytest.raises(NotImplementedError, match="only Python"):
        Timer("1", **options)  # type: ignore[arg-type]
