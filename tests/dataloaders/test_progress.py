"""Resuming in mid-epoch: exactly the remaining batches, the same random numbers, any workers."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    Sampler,
    StatefulDataLoader,
    WeightedRandomSampler,
    get_worker_info,
)


class Drawn(Dataset[Any]):
    """Samples that draw from all three generators, as random augmentation does."""

    def __init__(self, n: int = 40) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        gauss = np.random.normal() if index % 3 else 0.0  # every third sample draws nothing there
        return index, random.random(), gauss, st.rand(1).item()


class Stream(IterableDataset[Any]):
    def __init__(self, n: int = 23) -> None:
        self.n = n

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, self.n, step):
            yield index, random.random(), np.random.rand()


class Counting(IterableDataset[Any]):
    """A stream with a position; it never draws an earlier element again."""

    def __init__(self) -> None:
        self.at = 0
        self.draws = 0

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        worker = info.id if info else 0
        while self.at < 12:
            self.at += 1
            self.draws += 1
            yield 1000 * worker + 100 * self.draws + self.at
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Live(IterableDataset[int]):
    """A stream whose state_dict returns the live state, not a copy."""

    def __init__(self) -> None:
        self.live = {"at": 0}

    def __iter__(self) -> Iterator[int]:
        while self.live["at"] < 12:
            self.live["at"] += 1
            yield self.live["at"] - 1

    def state_dict(self) -> dict[str, int]:
        return self.live

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.live = dict(state)


class Countdown(Sampler[int]):
    """A sampler with a state, as in torchdata."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.remaining = n
        self.calls = 0

    def __iter__(self) -> Iterator[int]:
        while self.remaining:
            self.remaining -= 1
            self.calls += 1
            yield self.remaining
        self.remaining = self.n

    def __len__(self) -> int:
        return self.n

    def state_dict(self) -> dict[str, int]:
        return {"remaining": self.remaining}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.remaining = state["remaining"]


class Reshuffled(Sampler[int]):
    """A sampler that draws from the global generators and keeps no state."""

    def __iter__(self) -> Iterator[int]:
        order = list(range(30))
        random.shuffle(order)
        return iter([order[i] for i in np.random.permutation(30)])

    def __len__(self) -> int:
        return 30


def plain(samples: list[Any]) -> list[Any]:
    return list(samples)


def make(workers: int, seed: int | None = 3, dataset: Any = None, **options: Any) -> Any:
    generator = None if seed is None else np.random.default_rng(seed)
    return DataLoader(
        Drawn() if dataset is None else dataset,
        4,
        num_workers=workers,
        generator=generator,
        collate_fn=plain,
        **options,
    )


def take(iterator: Any, n: int) -> list[Any]:
    return [next(iterator) for _ in range(n)]


def resumed(first: Any, second: Any, n: int) -> list[Any]:
    """`n` batches of a loader, and the others from another one that goes on from its state."""
    iterator = iter(first)
    head = take(iterator, n)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    return head + list(second)


@pytest.mark.parametrize(
    ("workers", "method"), [(0, None), (1, None), (3, "fork"), (2, "forkserver"), (2, "spawn")]
)
def test_any_number_of_workers_makes_the_same_batches(workers: int, method: str | None) -> None:
    expected = make(0, shuffle=True)
    loader = make(workers, shuffle=True, multiprocessing_context=method)
    for _ in range(2):
        assert list(loader) == list(expected)


def test_out_of_order_the_batches_are_the_same() -> None:
    batches = list(make(2, shuffle=True, in_order=False))
    assert sorted(batches) == sorted(make(0, shuffle=True))


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (2, 3), (1, 1)])
@pytest.mark.parametrize("seed", [3, None])
def test_what_is_left_is_what_was_not_seen(before: int, after: int, seed: int | None) -> None:
    full = make(0, seed, shuffle=True)
    st.manual_seed(11)
    expected = list(full)
    later = list(full)
    first = make(before, seed, shuffle=True)
    st.manual_seed(11)
    iterator = iter(first)
    head = take(iterator, 4)
    state = pickle.loads(pickle.dumps(first.state_dict()))
    del iterator
    st.manual_seed(12 if seed else 99)
    second = make(after, seed, shuffle=True)
    second.load_state_dict(state)
    assert head + list(second) == expected
    if seed is not None:
        assert list(second) == later


def test_resuming_does_not_use_the_default_generator() -> None:
    first = make(0, None, shuffle=True)
    take(iter(first), 3)
    second = make(0, None, shuffle=True)
    second.load_state_dict(first.state_dict())
    st.manual_seed(5)
    expected = st.rand(2).tolist()
    st.manual_seed(5)
    list(second)
    assert st.rand(2).tolist() == expected


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.Philox])
@pytest.mark.parametrize("position", [-1, 625, 2**31 - 1, 1.0, None, "1"])
def test_a_position_outside_of_a_generators_words_is_refused(kind: Any, position: Any) -> None:
    """NumPy would read, and later write, there: the state may come from another's checkpoint."""
    first = DataLoader(Drawn(), 2, shuffle=True, generator=np.random.Generator(kind(3)))
    take(iter(first), 2)
    state = first.state_dict()
    words = state["origin"]["generator"]
    if kind is np.random.Philox:
        words["buffer_pos"] = position
    else:
        words["state"]["pos"] = position
    second = DataLoader(Drawn(), 2, shuffle=True, generator=np.random.Generator(kind(4)))
    second.load_state_dict(state)
    with pytest.raises(ValueError, match="a generator's position is outside of its words: "):
        list(second)


def test_a_position_of_numpys_own_generator_is_checked() -> None:
    def state_at(position: Any) -> Any:
        name, words, _, *gauss = np.random.get_state()
        return (name, words, position, *gauss)

    first = DataLoader(Drawn(), 2, sampler=Countdown(20), collate_fn=plain)
    take(iter(first), 2)
    for position in (-1, 625):
        state = first.state_dict()
        state["origin"]["numpy"] = state_at(position)
        second = DataLoader(Drawn(), 2, sampler=Countdown(20), collate_fn=plain)
        second.load_state_dict(state)
        with pytest.raises(ValueError, match=f"outside of its words: {position} of 624"):
            list(second)


@pytest.mark.parametrize("workers", [0, 2])
def test_between_epochs_the_next_one_is_resumed(workers: int) -> None:
    first = make(workers, shuffle=True)
    list(first)
    state = first.state_dict()
    second = make(workers, 77, shuffle=True)
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert list(second) == list(first)
    assert list(second) == list(first)


def test_out_of_order_exactly_the_rest_is_left() -> None:
    first = make(2, shuffle=True, in_order=False, prefetch_factor=3)
    second = make(3, shuffle=True, in_order=False)
    assert sorted(resumed(first, second, 4)) == sorted(make(0, shuffle=True))


def test_it_can_be_resumed_again_and_again() -> None:
    expected, batches, state = list(make(0, shuffle=True)), [], None
    for turn in range(5):
        loader = make(turn % 3, shuffle=True)
        if state is not None:
            loader.load_state_dict(state)
        batches += take(iter(loader), 2)
        state = loader.state_dict()
    assert batches == expected


def test_the_state_of_many_steps_ago_is_caught_up_with() -> None:
    samplers = Countdown(20), Countdown(20)
    first, second = (
        DataLoader(Drawn(), 2, sampler=sampler, collate_fn=plain, snapshot_every_n_steps=4)
        for sampler in samplers
    )
    batches = resumed(first, second, 6)
    assert [sample[0] for batch in batches for sample in batch] == [*range(19, -1, -1)]
    assert samplers[1].calls == 12  # two batches again, and the four remaining ones


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_sampler_resumes_at_the_consumers_position(workers: int) -> None:
    samplers = Countdown(20), Countdown(20)  # the first is further ahead, because workers prefetch
    first, second = (
        DataLoader(Drawn(), 2, sampler=sampler, collate_fn=plain, num_workers=workers)
        for sampler in samplers
    )
    batches = resumed(first, second, 3)
    assert [sample[0] for batch in batches for sample in batch] == [*range(19, -1, -1)]
    assert samplers[1].calls == 14


def test_a_sampler_that_draws_from_global_generators_is_drawn_again() -> None:
    first = DataLoader(Drawn(), 5, sampler=Reshuffled(), collate_fn=plain)
    random.seed(4)
    np.random.seed(4)
    expected = list(first)
    random.seed(4)
    np.random.seed(4)
    head = take(iter(first), 2)
    random.seed(5)
    second = DataLoader(Drawn(), 5, sampler=Reshuffled(), collate_fn=plain)
    second.load_state_dict(first.state_dict())
    indices = [s[0] for batch in head + list(second) for s in batch]
    assert indices == [s[0] for batch in expected for s in batch]


@pytest.mark.parametrize("is_own", [True, False], ids=["its own generator", "the default one"])
def test_a_sampler_draws_from_the_generator_that_it_had(is_own: bool) -> None:
    def loader() -> Any:
        rng = np.random.default_rng(9) if is_own else None
        sampler = WeightedRandomSampler([*range(1, 41)], 30, generator=rng)
        generator = np.random.default_rng(8)
        return DataLoader(Drawn(), 5, sampler=sampler, generator=generator, collate_fn=plain)

    st.manual_seed(3)
    first = loader()
    list(first)  # in a second epoch it does not start at its beginning
    iterator = iter(first)
    take(iterator, 2)
    state = pickle.loads(pickle.dumps(first.state_dict()))
    expected, after = list(iterator), list(first)
    st.manual_seed(4)
    second = loader()
    second.load_state_dict(state)
    assert list(second) == expected
    assert not is_own or list(second) == after


def test_a_stream_may_resume_with_its_live_state() -> None:
    first, second = (DataLoader(Live(), 2, snapshot_every_n_steps=3) for _ in range(2))
    batches = [batch.tolist() for batch in resumed(first, second, 4)]
    assert batches == [[n, n + 1] for n in range(0, 12, 2)]


def test_the_epoch_of_a_distributed_sampler_is_restored() -> None:
    def loader() -> Any:
        sampler = DistributedSampler(Drawn(), 2, 1)
        return DataLoader(Drawn(), 4, sampler=sampler, collate_fn=plain), sampler

    first, sampler = loader()
    sampler.set_epoch(7)
    expected = [[s[0] for s in batch] for batch in first]
    batches = resumed(first, loader()[0], 2)
    assert [[s[0] for s in batch] for batch in batches] == expected


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_streams_go_on_with_the_same_random_numbers(workers: int) -> None:
    expected = list(make(workers, dataset=Stream()))
    for n in range(len(expected) + 1):
        first, second = (make(workers, dataset=Stream()) for _ in range(2))
        assert resumed(first, second, n) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_stream_is_not_drawn_twice(workers: int) -> None:
    def loader() -> Any:
        return DataLoader(Counting(), 3, num_workers=workers, collate_fn=plain)

    n = max(workers, 1)
    batches = resumed(loader(), loader(), 3)
    assert sorted(number % 100 for batch in batches for number in batch) == sorted(
        [*range(1, 13)] * n
    )
    # The third digit counts what this copy of the data set has drawn: it starts at 1 again.
    assert {batch[0] // 100 % 10 for batch in batches[3 : 3 + n]} == {1}


class Part(Stream):
    """A stream whose part is set by `worker_init_fn`, as PyTorch's documentation has it."""

    first = 0
    note = 0.0

    def __iter__(self) -> Iterator[Any]:
        for index in range(self.first, self.n):
            yield index, random.random(), self.note


def take_part(worker: int) -> None:
    info = get_worker_info()
    assert info is not None
    dataset: Any = info.dataset
    size = -(-dataset.n // info.num_workers)
    dataset.first, dataset.n = worker * size, min((worker + 1) * size, dataset.n)
    dataset.note = np.random.rand()


@pytest.mark.parametrize("dataset", [Stream(), Part()])
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 0), (0, 2), (1, 3), (1, 0)])
def test_streams_go_on_by_any_number_of_workers(dataset: Any, before: int, after: int) -> None:
    def loader(workers: int) -> Any:
        return make(workers, dataset=dataset, worker_init_fn=take_part)

    expected, other = list(loader(before)), loader(after)
    list(other)
    later = list(other)
    for n in (1, 4):
        second = loader(after)
        assert resumed(loader(before), second, n) == expected
        assert get_worker_info() is None
    assert list(second) == later  # the next epoch has the streams of its own workers


class Told(Counting):
    """Yields its worker and its position."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        for _ in super().__iter__():
            yield info and info.id, self.at


def test_each_stream_of_other_workers_has_its_state() -> None:
    expected = list(make(3, dataset=Told()))
    for after in (0, 2):
        first, second = (make(workers, dataset=Told()) for workers in (3, after))
        assert resumed(first, second, 4) == expected


def test_streams_of_earlier_workers_outlive_a_worker() -> None:
    expected = list(make(3, dataset=Stream(300)))
    batches = take(iter(first := make(3, dataset=Stream(300))), 2)
    second = make(2, dataset=Stream(300), restart_workers=1)
    second.load_state_dict(first.state_dict())
    iterator = iter(second)
    batches += take(iterator, 2)
    os.kill(second._workers.processes[1].pid, signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match="worker 1 .* was killed by SIGKILL"):
        batches += list(iterator)
    assert batches == expected


def test_a_state_that_does_not_fit_is_refused() -> None:
    state = make(2, dataset=Stream()).state_dict()
    with pytest.raises(ValueError, match="is_stream differs: True when the state was taken, False"):
        make(2).load_state_dict(state)
    with pytest.raises(ValueError, match="batch_size differs: 4 when the state was taken, 8 here"):
        DataLoader(Drawn(), 8).load_state_dict(make(0).state_dict())
    with pytest.raises(ValueError, match="not a state of this version: None, not 2"):
        make(0).load_state_dict({})
    other = DataLoader(Drawn(), 4, shuffle=True, generator=st.Generator())
    other.load_state_dict(make(0, shuffle=True).state_dict())
    with pytest.raises(ValueError, match="another kind of generator"):
        iter(other)


def test_a_data_set_that_has_grown_within_an_epoch_is_refused() -> None:
    larger = DataLoader(range(13), 4, shuffle=True)
    loader = DataLoader(range(12), 4, shuffle=True)
    next(iter(loader))
    with pytest.raises(ValueError, match="12 samples when the state was taken, 13 here"):
        larger.load_state_dict(loader.state_dict())
    assert sum(map(len, larger)) == 13  # as if nothing had been asked
    list(loader)
    larger.load_state_dict(loader.state_dict())  # the next epoch may be of more
    assert sorted(int(x) for batch in larger for x in batch) == list(range(13))


def test_torchdata_users_find_their_name() -> None:
    assert StatefulDataLoader is DataLoader


TRAIN = """
import os, pickle, sys
sys.path.insert(0, sys.argv[3])
import numpy as np
from test_progress import make_again

path, workers = sys.argv[1], int(sys.argv[2])
loader = make_again(sys.argv[4], workers)
try:
    with open(path + ".state", "rb") as file:
        loader.load_state_dict(pickle.load(file))
except FileNotFoundError:
    pass
for batch in loader:
    # Saved before it is used, as one step: whoever is killed in between has seen the batch.
    with open(path + ".new", "wb") as file:
        pickle.dump(loader.state_dict(), file)
    with open(path + f".{batch[0][0]}.batch", "w") as file:  # augmented: its random numbers
        file.write(repr(batch))
    os.replace(path + ".new", path + ".state")
    print(len(batch), flush=True)
    sys.stdin.readline()
print("over", flush=True)
"""


def make_again(kind: str, workers: int) -> Any:
    if kind == "samples":
        return make(workers, shuffle=True)
    return make(workers, dataset=Stream(31))


@pytest.mark.parametrize(("kind", "total"), [("samples", 0), ("stream", 2)])
def test_a_killed_training_resumes_exactly(tmp_path: Path, kind: str, total: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    path, kills = str(tmp_path / "run"), 0
    for workers in (2, 0, 3, 1, 2):
        child = subprocess.Popen(
            [sys.executable, "-c", TRAIN, path, str(workers), str(Path(__file__).parent), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        lines = []
        for line in child.stdout:
            lines.append(line)
            if line == "over\n":
                break
            child.stdin.write("go on\n")
            child.stdin.flush()
            if len(lines) == 2:  # it has reached its third batch, or is about to
                os.kill(child.pid, signal.SIGKILL)
                kills += 1
                break
        child.wait(30)
        child.stdin.close()
        child.stdout.close()
        if "over\n" in lines:
            break
    batches = {name.read_text() for name in tmp_path.glob("run.*.batch")}
    assert kills >= 3
    assert batches == {repr(batch) for batch in make_again(kind, total)}
