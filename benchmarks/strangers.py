"""Ranks that met by address and port beside forked ones: the same calls, in turn.

python -m benchmarks.strangers [--rounds 9] [--quick]

| pair | its two ranks |
|---|---|
| forked | children of one process, which made the group's block |
| forked again | the same: what differs between two equal pairs is noise |
| strangers | two programs with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT |
| strangers with tensors | the same, each with tensors and a model in a domain of its own before |

All pairs live at once; one is measured while the ranks of the others sleep. A figure is the median
over rounds; a ratio is the median over rounds of the ratio to the forked pair in the same round.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

PAIRS = ("forked", "forked again", "strangers", "strangers with tensors")
CALLS = {
    "barrier": 2000,
    "all_reduce 64 B": 2000,
    "all_reduce 32 KiB": 1000,
    "all_reduce 4 MB": 60,
    "all_reduce 64 MB": 5,
    "DistributedDataParallel step": 6,
}


# ---------------------------------------------------------------- in a rank
def make_step(model: Any) -> Callable[[], None]:
    import shmtensor as st
    from shmtensor.distributed import DistributedDataParallel

    wrapped = DistributedDataParallel(model)
    optimizer = st.optim.SGD(model.parameters(), 0.01)
    x = st.randn(32, 1024)

    def step() -> None:
        optimizer.zero_grad()
        wrapped(x).square().mean().backward()
        optimizer.step()

    return step


def make_model() -> Any:
    from shmtensor import nn

    layers = [nn.Linear(1024, 1024) if i % 2 == 0 else nn.ReLU() for i in range(9)]
    return nn.Sequential(*layers)


def serve(model: Any = None) -> None:
    """Rank 0 reads names of calls, and writes the seconds of one call; all ranks make it."""
    import shmtensor as st
    from shmtensor import distributed as dist

    model = model or make_model()
    calls: dict[str, Callable[[], object]] = {"barrier": dist.barrier}
    for name, nbytes in (("64 B", 64), ("32 KiB", 1 << 15), ("4 MB", 1 << 22), ("64 MB", 1 << 26)):
        x = st.zeros(nbytes // 4)
        calls[f"all_reduce {name}"] = lambda x=x: dist.all_reduce(x)  # type: ignore[misc]
    calls["DistributedDataParallel step"] = make_step(model)
    while True:
        request = [sys.stdin.readline().strip()] if dist.get_rank() == 0 else [""]
        dist.broadcast_object_list(request)
        name, _, count = request[0].partition("\t")
        if not name:
            break
        calls[name]()
        dist.barrier()
        began = time.perf_counter()
        for _ in range(int(count)):
            calls[name]()
        seconds = st.tensor([(time.perf_counter() - began) / int(count)], dtype=st.float64)
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        if dist.get_rank() == 0:
            print(seconds.item(), flush=True)
    dist.destroy_process_group()


def run_rank(kind: str) -> None:
    import shmtensor as st
    from shmtensor import distributed as dist

    model = make_model() if kind == "strangers with tensors" else None
    st.set_num_threads(1)
    dist.init_process_group(timeout=600)
    serve(model)


def run_forked() -> None:
    import shmtensor as st
    from shmtensor import native
    from shmtensor.distributed.group.init_process_group import join_group, set_default_group
    from shmtensor.distributed.rendezvous.find_group import create_block

    block, _ = create_block(2)
    child = os.fork()
    st.set_num_threads(1)
    rank = 0 if child else 1
    set_default_group(join_group(block, rank, 2, 600.0, f"rank {rank}"))
    native.set_role(f"rank {rank}")
    serve()
    if child:
        os.waitpid(child, 0)


# ---------------------------------------------------------------- the pairs, in turn
class Pair:
    """Two ranks, and the pipes of rank 0."""

    def __init__(self, kind: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        program = [sys.executable, "-m", "benchmarks.strangers", "--rank", kind]
        ranks = (0, 1) if kind.startswith("strangers") else (0,)
        self.processes = []
        for rank in ranks:
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
            env |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} if rank == 0 else {}
            self.processes.append(subprocess.Popen(program, env=env, text=True, **pipes))  # type: ignore[call-overload]

    def measure(self, name: str, count: int) -> float:
        """Seconds of one call."""
        first = self.processes[0]
        first.stdin.write(f"{name}\t{count}\n")
        first.stdin.flush()
        return float(first.stdout.readline())

    def close(self) -> None:
        self.processes[0].stdin.close()
        for process in self.processes:
            process.wait(60)
        self.processes[0].stdout.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rank", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        run_rank(options.rank) if options.rank.startswith("strangers") else run_forked()
        return 0
    pairs = {kind: Pair(kind) for kind in PAIRS}
    print(f"{'call':30}" + "".join(f"{kind:>34}" for kind in PAIRS))
    for name, count in CALLS.items():
        n = max(1, count // 10) if options.quick else count
        times: dict[str, list[float]] = {kind: [] for kind in PAIRS}
        for i in range(2 if options.quick else options.rounds):
            for kind in PAIRS if i % 2 else reversed(PAIRS):
                times[kind].append(pairs[kind].measure(name, n))
        cells = []
        for kind in PAIRS:
            pairs_of_times = zip(times[kind], times["forked"], strict=True)
            ratio = statistics.median(a / b for a, b in pairs_of_times)
            cells.append(f"{statistics.median(times[kind]) * 1e6:20.1f} us, ratio {ratio:4.2f}")
        print(f"{name:30}" + "".join(f"{cell:>34}" for cell in cells), flush=True)
    for pair in pairs.values():
        pair.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
