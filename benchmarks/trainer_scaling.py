"""The time of a training step on several nodes: a model, fitted to measurements here, and
computed for up to 1,000 nodes.

python -m benchmarks.trainer_scaling             measures, fits, predicts other settings, a table
python -m benchmarks.trainer_scaling --table     the table only, from the figures in the file

```
step = sample x samples of a rank x max(1, ranks / cores)         forward, backward
     + update / ranks of a node                                   the optimizer's step of a shard
     + reduction                                                  in a node, if it has several ranks
     + (2 ceil(log2 n) + 2) x (round + delay)                     two barriers, two rounds of sums
     + 2 (n - 1) x message                                        that a rank begins
     + 2 (n - 1) / n x bytes of the gradients
       x (1 / (rate of a node's network x efficiency) + copy / ranks of a node)
```

Nodes are network namespaces, each with a rate in both directions (tc tbf). The processors of
one machine serve all of them, so `cores` is the machine's. The measured networks have no delay but
that of the software; in the table `delay` is what a network adds to each message.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from math import ceil, log2
from typing import NamedTuple

WIDTH = 1024  # of the model's hidden layers
SCRIPT = """
import sys
import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import DataLoader, TensorDataset
from shmtensor.trainer import Trainer

samples, steps, w = map(int, sys.argv[1:])
st.manual_seed(0)
model = nn.Sequential(nn.Linear(784, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 10))
data = TensorDataset(st.randn(samples * steps, 784), st.randint(0, 10, (samples * steps,)))
adam = optim.Adam(model.parameters(), lr=1e-4)
trainer = Trainer(model, adam, nn.CrossEntropyLoss(), nprocs=1, progress=False)
seconds = []
trainer.fit(DataLoader(data, samples), 6, on_epoch=lambda record: seconds.append(record.seconds))
if seconds:
    print(min(seconds[1:]) / steps)
"""
MESSAGES = """
import time
import numpy as np
from shmtensor import distributed as dist

dist.init_process_group()
engine, n, seconds = dist.group.WORLD.native, 500, []
x, other = np.zeros((n, 8), np.uint8), 1 - dist.get_rank()
for _ in range(5):
    dist.barrier()
    began = time.perf_counter()
    with engine.combined("messages"):
        both = [engine.irecv(row, other) for row in x.copy()]
        both += [engine.isend(row, other) for row in x]
        engine.wait("messages", [(each, [other]) for each in both], 60)
    seconds.append((time.perf_counter() - began) / n)
if other:
    print(min(seconds))
dist.destroy_process_group()
"""
SUBNET = "10.213.9"


class Setting(NamedTuple):
    """What is measured: nodes, ranks of each, samples of each rank, Mbit/s of a node's network."""

    nodes: int
    ranks: int
    samples: int
    rate: int = 0
    width: int = WIDTH

    @property
    def nbytes(self) -> int:
        """Of the gradients."""
        w = self.width
        return 4 * (784 * w + w + w * w + w + w * 10 + 10)

    @property
    def rounds(self) -> int:
        return 2 * ceil(log2(self.nodes)) + 2 if self.nodes > 1 else 0

    @property
    def sent(self) -> float:
        """Bytes that a node sends in a step."""
        return 2 * (self.nodes - 1) / self.nodes * self.nbytes


@dataclass
class Model:
    """Seconds; of `WIDTH`."""

    sample: float
    update: float
    reduction: float
    round: float
    message: float
    copy: float  # a byte through the sockets, by the processors
    efficiency: float  # of the network's rate
    cores: int = 2

    def step(self, at: Setting, delay: float = 0.0, shares_cores: bool = True) -> float:
        """Seconds of a step.

        Args:
            delay: that the network adds to a message.
            shares_cores: all nodes are on this machine.
        """
        busy = max(1.0, at.nodes * at.ranks / self.cores) if shares_cores else 1.0
        out = self.sample * at.samples * busy + self.update / at.ranks * busy
        if at.ranks > 1:
            out += self.reduction
        if at.nodes > 1:
            out += at.rounds * (self.round * busy + delay) + 2 * (at.nodes - 1) * self.message
            out += at.sent * self.copy / at.ranks * busy
            if at.rate:
                out += at.sent * 8 / (at.rate * 1e6 * self.efficiency)
        return out


# ---------------------------------------------------------------- nodes of this machine
def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def hosts(n: int, rate: int) -> Iterator[list[str]]:
    """Hosts at one switch; each sends and receives at most `rate` Mbit/s (0: no limit)."""
    switch, *names = (f"scaling-{os.getpid()}-{i}" for i in range(n + 1))
    try:
        for name in (switch, *names):
            ip("netns", "add", name)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for i, name in enumerate(names):
            port = f"port{i}"
            ip("link", "add", "end", "netns", name, "type", "veth", "peer", port, "netns", switch)
            ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            ip("-n", name, "address", "add", f"{SUBNET}.{i + 1}/24", "dev", "end")
            ip("-n", name, "link", "set", "end", "up")
            ip("-n", name, "link", "set", "lo", "up")
            for space, device in ((name, "end"), (switch, port)) if rate else ():
                limit = f"tbf rate {rate}mbit burst 64kb latency 500ms".split()
                tc = ["tc", "-n", space, "qdisc", "add", "dev", device, "root", *limit]
                subprocess.run(tc, check=True, capture_output=True)
        yield names
    finally:
        for name in (switch, *names):
            with suppress(subprocess.CalledProcessError):
                ip("netns", "del", name)


def run(script: str, nodes: int, ranks: int, rate: int, *arguments: int) -> float:
    """What rank 0 prints."""
    env = {**os.environ, "PYTHONPATH": os.getcwd(), "SHMTENSOR_SECRET": "5c" * 16}
    env["OMP_NUM_THREADS"] = "1"
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file, hosts(nodes, rate) as names:
        file.write(script)
        file.flush()
        launchers = []
        for node, name in enumerate(names):
            command = [
                "ip", "netns", "exec", name, sys.executable, "-m", "shmtensor.run",
                f"--nnodes={nodes}", f"--node_rank={node}", f"--nproc_per_node={ranks}",
                f"--master_addr={SUBNET}.1", "--master_port=29500", file.name,
                *map(str, arguments),
            ]  # fmt: skip
            launchers.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        outputs = [each.communicate()[0] for each in launchers]
        if any(each.returncode for each in launchers):
            raise RuntimeError(f"a launcher failed: {[each.returncode for each in launchers]}")
    return float(outputs[0])


def measure(at: Setting, steps: int, turns: int) -> float:
    """Seconds of a step: the best epoch of all turns."""
    samples = at.samples * at.nodes * at.ranks
    times = [
        run(SCRIPT, at.nodes, at.ranks, at.rate, samples, steps, at.width) for _ in range(turns)
    ]
    return min(times)


def fit(steps: int, turns: int) -> Model:
    """Measures one rank, two, and two nodes."""
    few, many = Setting(1, 1, 16), Setting(1, 1, 64)
    two_ranks, two_nodes, free = Setting(1, 2, 64), Setting(2, 1, 16, 400), Setting(2, 1, 16)
    small = Setting(1, 1, 16, width=8), Setting(2, 1, 16, 0, 8)
    seconds = {}
    for at in (few, many, two_ranks, two_nodes, free, *small):
        seconds[at] = measure(at, steps, turns)
        print(f"measured {describe(at)}: {1e3 * seconds[at]:.2f} ms", flush=True)
    sample = (seconds[many] - seconds[few]) / (many.samples - few.samples)
    update = seconds[few] - few.samples * sample
    reduction = max(0.0, seconds[two_ranks] - two_ranks.samples * sample - update / 2)
    message = run(MESSAGES, 2, 1, 0)
    between = seconds[small[1]] - seconds[small[0]] - 2 * message
    model = Model(sample, update, reduction, between / small[1].rounds, message, 0.0, 1.0)
    model.copy = max(0.0, seconds[free] - model.step(free)) / free.sent
    rest = seconds[two_nodes] - model.step(two_nodes._replace(rate=0))
    model.efficiency = two_nodes.sent * 8 / (two_nodes.rate * 1e6) / rest
    return model


def describe(at: Setting) -> str:
    network = f", {at.rate} Mbit/s" if at.rate else ""
    width = f", width {at.width}" if at.width != WIDTH else ""
    return f"{at.nodes} x {at.ranks} ranks, {at.samples} samples each{network}{width}"


def table(model: Model, rate: int, delay: float, samples: int, ranks: int) -> None:
    """For 1 to 1,000 nodes, each with a core for each of its ranks."""
    print(f"{ranks} ranks a node, {rate / 1000:g} Gbit/s, {1e6 * delay:g} us of delay:")
    print("| nodes | ms, of that the network | samples a second | efficiency |")
    print("|---|---|---|---|")
    alone = model.step(Setting(1, ranks, samples), shares_cores=False)
    for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000):
        seconds = model.step(Setting(n, ranks, samples, rate), delay, shares_cores=False)
        print(
            f"| {n} | {1e3 * seconds:.1f}, {1e3 * (seconds - alone):.1f} "
            f"| {n * ranks * samples / seconds:,.0f} | {alone / seconds:.2f} |"
        )


# On 2 cores of an AMD EPYC, among other programs, at a high priority.
MEASURED = Model(38.9e-6, 1.53e-3, 1.17e-3, 65.8e-6, 18.8e-6, 0.792e-9, 0.964)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument(
        "--steps", type=int, default=10, help="of an epoch; the best of five counts"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rate", type=int, default=25_000, help="Mbit/s, of the table")
    parser.add_argument("--delay", type=float, default=20e-6, help="seconds, of the table")
    parser.add_argument("--samples", type=int, default=1024, help="of a rank, of the table")
    parser.add_argument("--ranks", type=int, default=8, help="of a node, of the table")
    options = parser.parse_args()
    model = MEASURED
    if not options.table:
        model = fit(options.steps, options.turns)
        print({name: float(f"{value:.3g}") for name, value in asdict(model).items()})
        for at in (Setting(2, 1, 64, 1000), Setting(3, 1, 16, 200), Setting(2, 2, 16, 300)):
            seconds, expected = measure(at, options.steps, options.turns), model.step(at)
            print(
                f"{describe(at)}: {1e3 * seconds:.1f} ms, predicted {1e3 * expected:.1f} "
                f"({expected / seconds - 1:+.0%})",
                flush=True,
            )
    table(model, options.rate, options.delay, options.samples, options.ranks)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
