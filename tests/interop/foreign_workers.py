"""What the other process does in the tests of this folder, and ways to it; imported by spawned
children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import native
from shmtensor.multiprocessing.reduction import dumps, loads


def through(obj: Any) -> Any:
    """A message's way, within this process."""
    data, blocks = dumps(obj)
    return loads(data, [native.receive(native.export(block)) for block in blocks])


def run_alone(code: str) -> None:
    """Runs code in a process of its own: one that ran JAX warns at each later fork, and joblib
    keeps its workers and folders until its end."""
    folders = [str(Path(__file__).parent), str(Path(st.__file__).parents[1])]
    start = f"""
        import sys; sys.path[:0] = {folders!r}
        import foreign_workers, operator, pytest, numpy as np, shmtensor as st
        from foreign_workers import through
        from shmtensor import native, multiprocessing as mp
        from shmtensor.multiprocessing.reduction import dumps
    """
    code = textwrap.dedent(start) + textwrap.dedent(code)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def echo(inbox: Any, outbox: Any) -> None:
    """Sends each message back, until None."""
    while (message := inbox.get()) is not None:
        outbox.put(message)


def describe(x: Any) -> tuple[str, str, tuple[int, ...], bool]:
    """The class, dtype and shape of an array of another library, and whether its memory is ours."""
    memory = x.data_ptr() if hasattr(x, "data_ptr") else np.asarray(x)
    name = f"{type(x).__module__.partition('.')[0]}.{type(x).__name__}"
    return name, str(x.dtype), tuple(x.shape), native.is_shared(memory)


def describe_all(arrays: Any, out: Any) -> None:
    out.put([describe(x) for x in arrays])


def send_torch_and_die(outbox: Any, ready: Any) -> None:
    """Sends a tensor of PyTorch from private memory, and is killed once it was received."""
    import torch

    outbox.put(torch.arange(10_000, dtype=torch.int64))
    ready.wait()
    os.kill(os.getpid(), signal.SIGKILL)


def jax_of(values: list[float], out: Any) -> None:
    import jax

    out.put(jax.numpy.asarray(values))


def train_step(inbox: Any, out: Any) -> None:
    """One step of SGD on a model of PyTorch that came in a message."""
    import torch

    model = inbox.get()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    out.put([p.detach() for p in model.parameters()])


def double(x: Any) -> Any:
    return 2 * x


def total(x: Any) -> float:
    return float(np.asarray(x).sum())


def is_shared(x: Any) -> bool:
    return bool(native.is_shared(x.array if isinstance(x, st.Tensor) else x))


def frame_total(frame: Any) -> float:
    return float(frame.to_numpy().sum())


def read_after_death(out: Any, block: Any, done: Any) -> None:
    """Sends a read-only tensor over a block, and exits without waiting for the reader."""
    out.put(st.from_numpy(block).share(readonly=True))
    done.set()


def __getattr__(name: str) -> Any:
    """`Tagged`, a subclass of PyTorch's tensor: made on first use, because PyTorch takes long to
    import."""
    if name != "Tagged":
        raise AttributeError(name)
    import torch

    class Tagged(torch.Tensor):
        @classmethod
        def of(cls, x: Any, tag: str) -> Any:
            tagged = x.as_subclass(cls)
            tagged.tag = tag
            return tagged

    Tagged.__qualname__ = "Tagged"
    globals()["Tagged"] = Tagged
    return Tagged


def add_one_in_place_of_item(inbox: Any, outbox: Any) -> None:
    """Adds one to an element of a shared container, and sends its class."""
    container, key = inbox.get()
    x = container[key]
    x += 1
    outbox.put(f"{type(x).__module__.partition('.')[0]}.{type(x).__name__}")
