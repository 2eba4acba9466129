"""The time of a training step on several nodes: a model, fitted to measurements here, and
computed for up to 1,000 nodes.

python -m benchmarks.trainer_scaling [--save]    measures, fits, predicts other settings
python -m benchmarks.trainer_scaling --table     a table, from the saved figures
python -m benchmarks.trainer_scaling --draw      the same, drawn in docs/design/trainer-scaling.svg

```
step = sample x samples of a rank + rest, both x max(1, ranks / cores)     as on one machine
     + (2 ceil(log2 n) + 2) x (round + delay)      two barriers, two rounds of sums, of n nodes
     + 2 (n - 1) x message                         that a rank begins
     + 2 (n - 1) / n x bytes of the gradients
       x (1 / (rate of a node's network x efficiency) + copy / ranks of a node)
```

`rest` is what does not depend on the samples: one figure for a rank that is alone in its node, one
for several. Nodes are network namespaces, each with a rate in both directions (tc tbf), and with a
delay of each frame (harness/delaying_switch.py: the kernel need not have netem). The processors of
one machine serve all nodes, so `cores` is the machine's. `delay` is what the network adds to each
message; what the delaying switch itself costs is measured with a delay of 0, and is part of what
predictions with a delay say (`relay`, of a round).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import ceil, log2
from pathlib import Path
from typing import Any, NamedTuple

from .harness.line_chart import Line, draw_chart
from .harness.machine import processor, version_of
from .harness.record import RESULTS, commit

ROOT = Path(__file__).parents[1]
FILE = RESULTS / "trainer-scaling.json"
DRAWING = ROOT / "docs" / "design" / "trainer-scaling.svg"
TINY, SMALL, CNN, TRANSFORMER = MODELS = ("64-128-10", "784-512-256-10", "CNN", "transformer")
BATCH = {TINY: 64, SMALL: 64, CNN: 64, TRANSFORMER: 32}  # of a rank, in the tables
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
EPOCHS = 4  # the first is not counted
SCRIPT = """
import json
import sys
import shmtensor as st
from benchmarks.trainer import make
from shmtensor import nn, optim
from shmtensor.dataloaders import DataLoader, TensorDataset
from shmtensor.trainer import Trainer

name, samples, steps, epochs = sys.argv[1], *map(int, sys.argv[2:])
model, x = make(name, st)
n = samples * steps
data = TensorDataset(st.randn(n, *x.shape[1:]), st.randint(0, 10, (n,)))
adam = optim.Adam(model.parameters(), lr=1e-4)
trainer = Trainer(model, adam, nn.CrossEntropyLoss(), nprocs=1, progress=False)
seconds = []
trainer.fit(DataLoader(data, samples), epochs, on_epoch=lambda each: seconds.append(each.seconds))
if seconds:
    nbytes = sum(4 * p.numel() for p in model.parameters())
    print(json.dumps([[each / steps for each in seconds[1:]], nbytes]))
"""
MESSAGES = """
import json
import time
import numpy as np
from shmtensor import distributed as dist

dist.init_process_group()
engine, n, seconds = dist.group.WORLD.native, 500, []
x, other = np.zeros((n, 8), np.uint8), 1 - dist.get_rank()
for _ in range(11):
    dist.barrier()
    began = time.perf_counter()
    with engine.combined("messages"):
        both = [engine.irecv(row, other) for row in x.copy()]
        both += [engine.isend(row, other) for row in x]
        engine.wait("messages", [(each, [other]) for each in both], 60)
    seconds.append((time.perf_counter() - began) / n)
if other:
    print(json.dumps([seconds, 0]))
dist.destroy_process_group()
"""
SUBNET = "10.213.9"


class Setting(NamedTuple):
    """What is measured.

    Attributes:
        samples: of each rank, in a step.
        rate: Mbit/s of a node's network; 0: no limit.
        delay: seconds of each message; None: the nodes are at a switch without a delay.
    """

    model: str
    nodes: int
    ranks: int
    samples: int
    rate: int = 0
    delay: float | None = None

    @property
    def rounds(self) -> int:
        return 2 * ceil(log2(self.nodes)) + 2 if self.nodes > 1 else 0

    def __str__(self) -> str:
        words = [f"{self.model}, {self.nodes} x {self.ranks} ranks, {self.samples} samples each"]
        if self.rate:
            words.append(f"{self.rate} Mbit/s")
        if self.delay is not None:
            words.append(f"{1e3 * self.delay:g} ms delay")
        return ", ".join(words)


class Work(NamedTuple):
    """Of a model on one node: the bytes of its gradients; seconds of a sample, and of the rest of a
    step on a single rank, and on each of several."""

    nbytes: int
    sample: float
    alone: float
    together: float


class Network(NamedTuple):
    """Seconds of a round, of a message that is begun, of a byte that a processor copies through the
    sockets, and of a round that the delaying switch adds; the share of the rate that is used."""

    round: float
    message: float
    copy: float
    efficiency: float
    relay: float


def step_seconds(work: Work, network: Network, at: Setting, cores: int | None = None) -> float:
    """Seconds of a step.

    Args:
        cores: of the machine that all nodes are on; None: each rank has a core of its own.
    """
    busy = 1.0 if cores is None else max(1.0, at.nodes * at.ranks / cores)
    seconds = work.sample * at.samples + (work.alone if at.ranks == 1 else work.together)
    seconds *= busy
    if at.nodes > 1:
        of_round = network.round * busy
        if at.delay is not None:
            of_round += at.delay + (0.0 if cores is None else network.relay)
        n_bytes = 2 * (at.nodes - 1) / at.nodes * work.nbytes  # that a node sends
        seconds += at.rounds * of_round + 2 * (at.nodes - 1) * network.message
        seconds += n_bytes * network.copy / at.ranks * busy
        if at.rate:
            seconds += n_bytes * 8 / (at.rate * 1e6 * network.efficiency)
    return seconds


# ---------------------------------------------------------------- nodes of this machine
def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def hosts(n: int, rate: int, delay: float | None) -> Iterator[list[str]]:
    """Hosts at one switch, as in `Setting`."""
    switch, *names = (f"scaling-{os.getpid()}-{i}" for i in range(n + 1))
    with ExitStack() as stack:
        for name in (switch, *names):
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
        if delay is None:
            ip("-n", switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", switch, "link", "set", "bridge", "up")
        ports = [f"port{i}" for i in range(n)]
        for i, (name, port) in enumerate(zip(names, ports, strict=True)):
            ip("link", "add", "end", "netns", name, "type", "veth", "peer", port, "netns", switch)
            bridged = ["master", "bridge"] if delay is None else []
            ip("-n", switch, "link", "set", port, *bridged, "up")
            ip("-n", name, "address", "add", f"{SUBNET}.{i + 1}/24", "dev", "end")
            # Several frames fit into the burst of the limit, which would divide larger ones.
            ip("-n", name, "link", "set", "end", "gso_max_size", "16384", "up")
            ip("-n", name, "link", "set", "lo", "up")
            for space, device in ((name, "end"), (switch, port)) if rate else ():
                limit = f"tbf rate {rate}mbit burst 64kb latency 500ms".split()
                tc = ["tc", "-n", space, "qdisc", "add", "dev", device, "root", *limit]
                subprocess.run(tc, check=True, capture_output=True)
        if delay is not None:
            script = str(Path(__file__).parent / "harness" / "delaying_switch.py")
            command = ["ip", "netns", "exec", switch, sys.executable, script, str(delay), *ports]
            process = subprocess.Popen(command)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield names


def run(script: str, at: Setting, *arguments: object) -> tuple[list[float], int]:
    """The seconds that rank 0 prints, and the number after them."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SHMTENSOR_SECRET": "5c" * 16}
    env["OMP_NUM_THREADS"] = "1"
    with (
        tempfile.NamedTemporaryFile("w", suffix=".py") as file,
        hosts(at.nodes, at.rate, at.delay) as names,
    ):
        file.write(script)
        file.flush()
        launchers = []
        for node, name in enumerate(names):
            command = [
                "ip", "netns", "exec", name, sys.executable, "-m", "shmtensor.run",
                f"--nnodes={at.nodes}", f"--node_rank={node}", f"--nproc_per_node={at.ranks}",
                f"--master_addr={SUBNET}.1", "--master_port=29500", file.name,
                *map(str, arguments),
            ]  # fmt: skip
            launchers.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        outputs = [each.communicate()[0] for each in launchers]
        if any(each.returncode for each in launchers):
            raise RuntimeError(f"a launcher failed: {[each.returncode for each in launchers]}")
    seconds, nbytes = json.loads(outputs[0])
    return seconds, nbytes


class Measurements:
    """Steps that were measured on this machine: the median over the epochs of all turns."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.seconds: dict[Setting, float] = {}
        self.nbytes: dict[str, int] = {}

    def measure(self, at: Setting) -> float:
        if at not in self.seconds:
            slow = at.rate or at.delay
            steps = 20 if slow else 200 if at.model == TINY else 20
            epochs: list[float] = []
            for _ in range(self.turns):
                samples = at.samples * at.nodes * at.ranks
                seconds, nbytes = run(SCRIPT, at, at.model, samples, steps, EPOCHS)
                epochs += seconds
                self.nbytes[at.model] = nbytes
            self.seconds[at] = statistics.median(epochs)
            spread = f"{1e3 * min(epochs):.2f} to {1e3 * max(epochs):.2f}"
            print(f"{at}: {1e3 * self.seconds[at]:.2f} ms ({spread})", flush=True)
        return self.seconds[at]

    def work(self, model: str) -> Work:
        """From one rank with two numbers of samples, and two ranks."""
        few, many = BATCH[model] // 4, BATCH[model]
        less, more = (self.measure(Setting(model, 1, 1, n)) for n in (few, many))
        sample = (more - less) / (many - few)
        two = self.measure(Setting(model, 1, 2, many))
        alone, together = max(0.0, less - few * sample), max(0.0, two - many * sample)
        return Work(self.nbytes[model], sample, alone, together)

    def network(self, works: dict[str, Work]) -> Network:
        """From two nodes, without and behind a limit of their rate, and without delay."""
        cores = os.cpu_count()
        network = Network(0.0, 0.0, 0.0, 1.0, 0.0)
        messages, _ = run(MESSAGES, Setting("messages", 2, 1, 0))
        network = network._replace(message=statistics.median(messages))

        def rest(at: Setting) -> float:
            return self.measure(at) - step_seconds(works[at.model], network, at, cores)

        tiny, small = Setting(TINY, 2, 1, 16), Setting(SMALL, 2, 1, 16)
        limited = small._replace(rate=400)
        network = network._replace(round=rest(tiny) / tiny.rounds)
        network = network._replace(relay=rest(tiny._replace(delay=0.0)) / tiny.rounds)
        network = network._replace(copy=max(0.0, rest(small)) / works[SMALL].nbytes)
        of_rate = works[SMALL].nbytes * 8 / (limited.rate * 1e6)
        return network._replace(efficiency=of_rate / (rest(limited) + of_rate))


PREDICTED = (
    Setting(TINY, 4, 1, 16, 0, 0.005),
    Setting(SMALL, 2, 1, 64, 200, 0.01),
    Setting(SMALL, 2, 2, 16, 300),
    Setting(CNN, 2, 1, 16, 50, 0.02),
    Setting(TRANSFORMER, 3, 1, 8, 100, 0.005),
)


# ---------------------------------------------------------------- figures
def save(works: dict[str, Work], network: Network, steps: Measurements, predicted: Any) -> None:
    """Writes what was measured, fitted and predicted."""
    machine = {"processor": processor(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    record = {
        "machine": machine,
        "versions": {name: version_of(name) for name in ("shmtensor", "numpy")},
        "commit": commit(),
        "network": network._asdict(),
        "works": {name: work._asdict() for name, work in works.items()},
        "measured": [{**at._asdict(), "seconds": x} for at, x in steps.seconds.items()],
        "predicted": [{**at._asdict(), "seconds": x} for at, x in predicted],
    }
    lines = [f" {json.dumps(key)}: {compact(value)}" for key, value in record.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"saved: {FILE}")


def compact(value: Any) -> str:
    """JSON with one line for each entry, and three digits or more of each number."""
    if isinstance(value, dict) and any(isinstance(x, dict) for x in value.values()):
        return (
            "{\n" + ",\n".join(f"  {json.dumps(k)}: {compact(v)}" for k, v in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"  {compact(each)}" for each in value) + "]"
    if isinstance(value, dict):
        value = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in value.items()}
    return json.dumps(value)


def load() -> tuple[dict[str, Work], Network]:
    record = json.loads(FILE.read_text())
    works = {name: Work(**work) for name, work in record["works"].items()}
    return works, Network(**record["network"])


def tables(
    works: dict[str, Work], network: Network, rate: int, delay: float, batches: float, ranks: int
) -> str:
    """Prints the throughput of 1 to 1,000 nodes, each rank with a core of its own; returns it as a
    drawing.

    Args:
        batches: of each rank in a step.
    """
    lines = []
    title = f"nodes of {ranks} ranks, {rate / 1000:g} Gbit/s, {1e6 * delay:g} us of delay"
    print(f"{title}; samples a second (efficiency):")
    print("| nodes | " + " | ".join(MODELS) + " |\n" + "|---" * (len(MODELS) + 1) + "|")
    for model in MODELS:
        samples = round(BATCH[model] * batches)
        points = []
        for n in COUNTS:
            at = Setting(model, n, ranks, samples, rate, delay)
            points.append((n, n * ranks * samples / step_seconds(works[model], network, at)))
        lines.append(Line(model, points))
    for i, n in enumerate(COUNTS):
        cells = [
            f"{line.points[i][1]:,.0f} ({line.points[i][1] / n / line.points[0][1]:.2f})"
            for line in lines
        ]
        print(f"| {n} | " + " | ".join(cells) + " |")
    return draw_chart(lines, f"Predicted: {title}", "nodes", "samples a second")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--draw", action="store_true", help=f"measure nothing, draw {DRAWING.name}")
    parser.add_argument("--save", action="store_true", help=f"the figures to {FILE.name}")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rate", type=int, default=25_000, help="Mbit/s, of the table")
    parser.add_argument("--delay", type=float, default=20e-6, help="seconds, of the table")
    parser.add_argument("--batches", type=float, default=1, help="of a rank's step, of the table")
    parser.add_argument("--ranks", type=int, default=8, help="of a node, of the table")
    options = parser.parse_args()
    if options.table or options.draw:
        figures = options.rate, options.delay, options.batches, options.ranks
        drawing = tables(*load(), *figures)
        if options.draw:
            DRAWING.write_text(drawing)
        return 0
    steps = Measurements(options.turns)
    works = {model: steps.work(model) for model in MODELS}
    network = steps.network(works)
    print(network)
    predicted = []
    for at in PREDICTED:
        expected = step_seconds(works[at.model], network, at, os.cpu_count())
        predicted.append((at, expected))
        seconds = steps.measure(at)
        print(f"    predicted {1e3 * expected:.2f} ms ({expected / seconds - 1:+.0%})", flush=True)
    if options.save:
        save(works, network, steps, predicted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
