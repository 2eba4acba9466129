"""What cannot be sent to a child is named, wherever something is sent at its start."""

from __future__ import annotations

import collections
import functools
import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor import nn
from shmtensor.dataloaders import DataLoader
from shmtensor.errors import OutOfSharedMemory
from shmtensor.multiprocessing import reduction
from shmtensor.trainer import Trainer

LOCK = threading.Lock()
METHODS = ["spawn", "forkserver"]
START = "multiprocessing: cannot be sent to another process: "


class Thing:
    """A data set, or anything else, with these attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return index

    def collate(self, samples: Any) -> Any:
        return samples


class Slots:
    __slots__ = ("first", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()


class WithoutLock(Thing):
    """Leaves out one attribute, whose object is held elsewhere, too."""

    def __getstate__(self) -> Any:
        return {key: value for key, value in vars(self).items() if key != "lock"}


class PickledAsLock:
    def __getstate__(self) -> Any:
        return {"made": threading.Lock()}


class Refuses:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getstate__(self) -> Any:
        raise self.error


class Boobytrap:
    """Nothing of it may be called in order to write a message."""

    def refuse(self, *_: object) -> Any:
        raise SystemExit("the user's code was called")

    __repr__ = __iter__ = __eq__ = __hash__ = __getattr__ = __bool__ = refuse  # type: ignore
    value = property(refuse)

    def __getstate__(self) -> None:
        return None


class Pair(collections.namedtuple("Pair", "first second")):
    """A tuple with names."""


class OwnError(Exception):
    """An error that the library does not know."""


def use(dataset: Any, other: Any = None, *rest: Any) -> None:
    """A target."""


def closure_over(value: Any) -> Callable[..., Any]:
    return lambda samples: (samples, value)


def local_class(value: Any) -> Any:
    class Local:
        def method(self) -> Any:
            return value

    return Local


def cycle() -> list[Any]:
    items: list[Any] = [1]
    items.append(items)
    items.append(threading.Lock())
    return items


def model() -> nn.Module:
    result = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    result[1].lock = threading.Lock()
    return result


def start(*args: Any, method: str = "spawn", **kwargs: Any) -> None:
    mp.get_context(method).Process(target=use, args=args, kwargs=kwargs).start()


# Made anew for each use: an object that holds something that cannot be sent, and how the message
# names it, `dataset` being the object.
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "attribute": (lambda: Thing(lock=threading.Lock()), "dataset.lock: a lock"),
    "slot": (lambda: Thing(inner=Slots()), "dataset.inner.lock: an RLock"),
    "partial": (
        lambda: Thing(transform=Thing(fn=functools.partial(use, LOCK))),
        "dataset.transform.fn.args[0]: a lock",
    ),
    "nested": (
        lambda: Thing(items=[0, 1, 2, {"key": threading.Lock()}]),
        "dataset.items[3]['key']: a lock",
    ),
    "tuple": (lambda: Pair(1, (2, threading.Lock())), "dataset.second[1]: a lock"),
    "deque": (lambda: collections.deque([1, threading.Lock()]), "dataset[1]: a lock"),
    "ordered": (lambda: collections.OrderedDict(a=LOCK), "dataset['a']: a lock"),
    "objects": (lambda: Thing(x=np.array([None, LOCK], object)), "dataset.x.flat[1]: a lock"),
    "generator": (lambda: Thing(stream=(i for i in range(3))), "dataset.stream: a generator"),
    "lambda": (lambda: Thing(fn=closure_over(LOCK)), "dataset.fn's variable value: a lock"),
    "default": (lambda: Thing(fn=lambda x=LOCK: x), "dataset.fn's default: a lock"),
    "method": (lambda: Thing(lock=LOCK).collate, "dataset.__self__.lock: a lock"),
    "local class": (lambda: local_class(LOCK), "dataset.method's variable value: a lock"),
    "of a local class": (
        lambda: [local_class(LOCK)()],
        "dataset[0].__class__.method's variable value: a lock",
    ),
    "module": (model, "dataset[1].lock: a lock"),
    "cycle": (cycle, "dataset[2]: a lock"),
    "left out": (
        lambda: WithoutLock(lock=LOCK, user=Thing(lock=LOCK)),
        "dataset.user.lock: a lock",
    ),
    "made": (lambda: Thing(a=1, b=PickledAsLock()), "dataset.b: it is pickled as a lock"),
    "boobytrap": (lambda: Thing(a=Boobytrap(), z=LOCK), "dataset.z: a lock"),
    "iterator": (lambda: Thing(m=map(LOCK.acquire, [True])), "dataset.m's content"),
    "Condition": (lambda: Thing(c=threading.Condition()), "dataset.c._lock: an RLock"),
    "graph": (
        lambda: Thing(x=st.ones(3, requires_grad=True) * 2),
        "dataset.x: a shmtensor.Tensor: a non-leaf tensor that requires grad",
    ),
    "refusal": (
        lambda: [Refuses(ValueError("bad"))],
        "dataset[0]: a test_unsendable.Refuses: bad",
    ),
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_sent_is_named(case: str, method: str) -> None:
    make, text = CASES[case]
    with pytest.raises((TypeError, RuntimeError, ValueError)) as caught:
        start(make(), method=method)
    assert str(caught.value).startswith(START + text)
    cause = str(caught.value.__cause__).removeprefix("multiprocessing: ")
    assert cause
    assert cause in str(caught.value)


def test_arguments_have_the_names_of_the_target() -> None:
    lock = threading.Lock()
    for args, kwargs, name in [
        ((1, [lock]), {}, "other[0]"),
        ((1, 2, 3, Thing(lock=lock)), {}, "args[3].lock"),
        ((1,), {"other": {"a": lock}}, "other['a']"),
    ]:
        with pytest.raises(TypeError, match="cannot pickle") as caught:
            start(*args, **kwargs)  # type: ignore[arg-type]
        assert str(caught.value).startswith(f"{START}{name}: a lock: ")
    process: Any = mp.get_context("spawn").Process(target=closure_over(lock))
    with pytest.raises(TypeError, match="target's variable value: a lock"):
        process.start()


class Own(mp.get_context("spawn").Process):  # type: ignore[name-defined, misc]
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_an_attribute_of_a_users_process_is_named() -> None:
    with pytest.raises(TypeError, match=f"{START}Own.lock: a lock"):
        Own().start()


STARTERS: dict[str, Callable[[Any, str], Any]] = {
    "fn": lambda thing, _: mp.spawn(closure_over(thing), (), 2),
    "args[1]": lambda thing, method: mp.start_processes(use, (1, thing), 2, start_method=method),
    "initializer's variable value": lambda thing, method: mp.get_context(method).Pool(
        2, closure_over(thing)
    ),
    "initargs[0]": lambda thing, method: mp.get_context(method).Pool(2, use, (thing,)),
    "dataset": lambda thing, method: next(iter(loader(thing, method))),
    "dataset.inner": lambda thing, method: next(iter(loader(Thing(inner=thing), method))),
    "collate_fn's variable value": lambda thing, method: next(
        iter(loader(Thing(), method, collate_fn=closure_over(thing)))
    ),
    "worker_init_fn's variable value": lambda thing, method: next(
        iter(loader(Thing(), method, worker_init_fn=closure_over(thing)))
    ),
    "args[0]": lambda thing, method: st.launch(use, 2, (thing,), method),
    "model[0]": lambda thing, method: train(method, model=thing),
    "optimizers[0].param_groups[0]['thing']": lambda thing, method: train(method, optimizer=thing),
    "loss's variable value": lambda thing, method: train(method, loss=closure_over(thing)),
}


def loader(dataset: Any, method: str, **options: Any) -> Any:
    return DataLoader(dataset, num_workers=2, multiprocessing_context=method, **options)


def train(method: str, loss: Any = nn.functional.mse_loss, **things: Any) -> None:
    module = nn.Sequential(nn.Linear(2, 2))
    optimizer = st.optim.SGD(module.parameters(), 0.1)
    if "model" in things:
        module[0].lock = things["model"].lock
    if "optimizer" in things:
        optimizer.param_groups[0]["thing"] = things["optimizer"]
    trainer = Trainer(module, optimizer, loss, nprocs=2, start_method=method, progress=False)
    trainer.fit([(st.ones(2, 2), st.ones(2, 2))], epochs=1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", STARTERS)
def test_every_starter_names_it(name: str, method: str) -> None:
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object") as caught:
        STARTERS[name](Thing(lock=threading.Lock()), method)
    if name == "fn":
        name = "fn's variable value"
    assert str(caught.value).startswith(f"{START}{name}.lock: a lock: ")


def test_another_kind_of_error_stays_and_has_a_note() -> None:
    with pytest.raises(OwnError, match=r"^bad") as caught:
        start([Refuses(OwnError("bad"))])
    assert caught.value.args == ("bad",)
    notes = getattr(caught.value, "__notes__", [f"{START}dataset[0]: a "])  # Python 3.10 has none
    assert notes[0].startswith(f"{START}dataset[0]: a ")


def test_deep_and_long_objects_end_the_search() -> None:
    deep: Any = None
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecursionError, match="maximum recursion depth"):
        start(deep)
    while deep:  # without recursion
        deep = deep.pop()
    chain = Thing(lock=threading.Lock())
    for _ in range(150):
        chain = Thing(next=chain)
    with pytest.raises(
        TypeError, match=r"dataset(\.next)+.*\.\.\..*(\.next)+\.lock: a lock"
    ) as caught:
        start(chain)
    assert len(str(caught.value)) < 700
    with pytest.raises(TypeError, match=r"dataset\[1\]: a lock"):
        start([list(range(1_000_000)), threading.Lock()])


class Counts(Thing):
    n = 0

    def __getstate__(self) -> Any:
        Counts.n += 1
        return vars(self)


def test_the_users_code_is_not_called_for_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "explain", lambda *_: None)
    counts = []
    for _ in range(2):
        Counts.n = 0
        with pytest.raises(TypeError, match=r"lock"):
            start(Counts(lock=threading.Lock()))
        counts.append(Counts.n)
        monkeypatch.undo()
    assert counts == [2, 2]  # one for each of the two picklers


def test_nothing_is_kept_after_the_error() -> None:
    thing = Thing(x=st.ones(1000), lock=threading.Lock())
    alive = weakref.ref(thing)
    with pytest.raises(TypeError):
        reduction.dumps(thing)
    del thing
    gc.collect()
    assert alive() is None


# ---------------------------------------------------------------- memory-mapped arrays
def mapped_file(folder: Path) -> Any:
    """A mapped file of 4 TiB, which has no pages."""
    with open(folder / "file", "wb") as file:
        file.truncate(1 << 42)
    return np.memmap(folder / "file", mode="r", dtype=np.uint8)


@pytest.mark.parametrize("method", METHODS)
def test_a_mapped_array_that_does_not_fit_is_named(tmp_path: Path, method: str) -> None:
    mapped = mapped_file(tmp_path)
    for array, kind in (
        (mapped, MemoryError),
        (mapped.view(np.ndarray)[5:], MemoryError),
        (st.from_numpy(mapped), OutOfSharedMemory),
    ):
        with pytest.raises(kind) as caught:
            start(Thing(small=np.zeros(10), array=array), method=method)
        size = array.nbytes
        text = f"dataset.array: a memory-mapped array of shape ({size},), uint8, {size:,} bytes, "
        assert str(caught.value).startswith(f"{START}{text}would be copied: ")
        assert "hint: use fork, or open the file in the child" in str(caught.value)


@pytest.mark.parametrize("method", METHODS)
def test_a_data_set_with_a_mapped_array_is_named(tmp_path: Path, method: str) -> None:
    with pytest.raises(MemoryError, match=r"dataset.images: a memory-mapped array of .* fork, or"):
        next(iter(loader(Thing(images=mapped_file(tmp_path)), method)))


def test_without_memory_for_the_message_the_largest_array_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dumps(_: Any) -> bytes:
        raise MemoryError

    thing = Thing(small=np.zeros(10), large=np.zeros(100), shared=st.zeros(1000))
    monkeypatch.setattr(mp.popen, "pickle", Thing(dumps=dumps))
    with pytest.raises(MemoryError, match=r"dataset.large: an array of .*800 bytes, .*out of mem"):
        start(thing)
