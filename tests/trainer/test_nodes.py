"""Ranks on several nodes train like one process, with one copy of weights on each node. A node is a
launcher with a domain of its own, in a network namespace where that may be made.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shmtensor.memory.layout import empty_shared
from shmtensor.trainer.nodes import NodeRanks
from tests.distributed.run_ranks import SECRET, free_port
from tests.environment import environment
from tests.network_namespaces import HOST, two_hosts

# What the script trains: each rank its own first weights, of which rank 0's count.
SCRIPT = """
import os, signal, sys, time
import numpy as np
import shmtensor as st
from shmtensor import native, nn, optim
from shmtensor.dataloaders import DataLoader, TensorDataset
from shmtensor.errors import PeerLostError
from shmtensor.trainer import Trainer, nodes
from shmtensor.trainer.callbacks import EMA

folder, case = sys.argv[1:3]
rank = int(os.environ.get("RANK", 0))
rng = np.random.default_rng(5)
x, y = st.tensor(rng.standard_normal((80, 6))), st.tensor(rng.integers(0, 3, 80))
batches = [(x[i : i + 16], y[i : i + 16]) for i in range(0, 80, 16)]

class Rare(nn.Module):  # `rarely` is for samples that are in some batches, `never` for none
    def __init__(self):
        super().__init__()
        self.always, self.rarely, self.never = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 3)
    def forward(self, x):
        is_rare = x[:, 0] > 1.8
        out = self.always(x)
        return out + self.rarely(x) * is_rare[:, None] if is_rare.any() else out

def run(width=33, lr=0.01):
    st.manual_seed(1 + rank)
    layers = [nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3)]
    if case == "normalized":
        layers[:1] = [nn.Linear(6, width, bias=False), nn.BatchNorm1d(width)]
    model = Rare() if case == "rare" else nn.Sequential(*layers)
    model = model.double()
    adam = optim.Adam(model.parameters(), lr=lr)
    options = {"progress": False, "nprocs": 1, "sync_batchnorm": case == "normalized"}
    if case == "clipped":
        options.update(clip_grad_norm=0.3, accumulate=2, callbacks=[EMA(0.9)])
    return model, adam, Trainer(model, adam, nn.CrossEntropyLoss(), **options)

def save(model, name, *more):
    arrays = [p.detach().numpy() for p in [*model.parameters(), *model.buffers()]]
    np.savez(f"{folder}/{name}.npz", *arrays, *more)
"""
TRAINS = """
model, adam, trainer = run()
data = batches
if case == "loader":  # each rank loads its samples
    data = DataLoader(TensorDataset(x, y), 16, shuffle=True, generator=st.Generator())
elif case == "handed over" and rank:
    data = []
elif case == "handed over":
    class Batches:
        __iter__ = lambda self: iter(batches)
    data = Batches()
elif case == "hook":  # rank 0 updates the weights
    adam.register_step_post_hook(lambda *_: None)

def on_epoch(record):
    if case == "written":
        model[2].bias.detach().numpy()[...] += 0.1
        adam.state[model[2].bias]["exp_avg"].zero_()
        if record.epoch == 2:
            adam.load_state_dict(adam.state_dict())
    if case == "anew" and record.epoch == 2:
        model[0].requires_grad_(False)
    if case == "anew" and record.epoch == 3:  # the ranks are set up anew, with the state so far
        adam.register_step_post_hook(lambda *_: None)
    if record.epoch == 3:
        adam.param_groups[0]["lr"] = 0.02

def on_step(step):  # rank 0's callbacks may write weights
    if step in (2, 5, 20):  # in an epoch, at its end, at that of the run
        for p in model.parameters():
            p.data.mul_(0.5)
    if step in (3, 10):  # and state
        for entry in adam.state.values():
            entry["exp_avg"].mul_(0.5)
            entry["step"].sub_(1)

more = {"on_step": on_step, "eval_every": 2} if case == "written" else {}
path = folder + "/run.ckpt"
history = trainer.fit(data, 4, eval=data, on_epoch=on_epoch, checkpoint=path, **more)
assert trainer.step == (12 if case == "clipped" else 20)
figures = [history[name] for name in ("loss", "accuracy", "eval_loss", "eval_accuracy")]
save(model, rank, np.array(figures))
"""


@contextmanager
def nodes_of(
    folder: Path, code: str, case: str, ranks: tuple[int, ...], spaces: list[str] | None = None
) -> Iterator[list[subprocess.Popen[str]]]:
    """A launcher for each node, with so many ranks."""
    script = folder / "script.py"
    script.write_text(SCRIPT + textwrap.dedent(code))
    port = 29500 if spaces else free_port()
    env = environment(SHMTENSOR_SECRET=SECRET, OMP_NUM_THREADS=1)
    launchers = []
    for node, n in enumerate(ranks):
        inside = ["ip", "netns", "exec", spaces[node]] if spaces else []
        command = [
            *inside, sys.executable, "-m", "shmtensor.run", f"--nnodes={len(ranks)}",
            f"--node_rank={node}", f"--nproc_per_node={n}", f"--master_port={port}",
            f"--master_addr={HOST if spaces else '127.0.0.1'}", str(script), str(folder), case,
        ]  # fmt: skip
        launchers.append(
            subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    try:
        yield launchers
    finally:
        for each in launchers:
            if each.poll() is None:
                each.kill()
            each.communicate()


def train(folder: Path, code: str, case: str, ranks: tuple[int, ...], **options: Any) -> list[Any]:
    """The arrays that each rank has saved."""
    with nodes_of(folder, code, case, ranks, **options) as launchers:
        outputs = [each.communicate(timeout=60) for each in launchers]
    assert [each.returncode for each in launchers] == [0] * len(ranks), outputs
    return [arrays_of(folder / f"{rank}.npz") for rank in range(sum(ranks))]


def one_process(folder: Path, code: str, case: str) -> list[Any]:
    """The arrays of one process."""
    script = folder / "one.py"
    script.write_text(SCRIPT + textwrap.dedent(code))
    command = [sys.executable, str(script), str(folder), case]
    subprocess.run(command, env=environment(), check=True, timeout=60)
    return arrays_of(folder / "0.npz")


def arrays_of(path: Path) -> list[Any]:
    with np.load(path) as arrays:
        return [arrays[name] for name in arrays.files]


def check(by_rank: list[Any], reference: list[Any]) -> None:
    for arrays in by_rank:
        for x, y, want in zip(arrays, by_rank[0], reference, strict=True):
            np.testing.assert_array_equal(x, y)
            np.testing.assert_allclose(x, want, rtol=1e-12, atol=1e-12)


CASES = [
    ("loader", (1, 2)),
    ("handed over", (2, 1)),
    ("hook", (1, 2)),
    ("anew", (1, 1, 1)),
    ("rare", (2, 1)),
    ("clipped", (3, 2)),
    ("normalized", (2, 1)),
    ("written", (2, 1)),
    ("written", (1, 1, 1)),
]


@pytest.mark.parametrize(("case", "ranks"), CASES)
def test_nodes_train_like_one_process(tmp_path: Path, case: str, ranks: tuple[int, ...]) -> None:
    check(train(tmp_path, TRAINS, case, ranks), one_process(tmp_path, TRAINS, case))


def test_nodes_train_with_several_optimizers_and_metrics(tmp_path: Path) -> None:
    code = """
    st.manual_seed(1 + rank)
    model = nn.Sequential(nn.Linear(6, 33), nn.ReLU(), nn.Linear(33, 3)).double()
    adam = optim.Adam(model[0].parameters(), lr=0.01)
    sgd = optim.SGD(model[2].parameters(), lr=0.1, momentum=0.9)
    sgd.register_step_post_hook(lambda *_: None)  # rank 0 updates its weights
    def step(model, batch, i):
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        return loss * (2 if i else 1)
    def eval_step(model, batch):
        outputs = model(batch[0])
        loss = nn.functional.cross_entropy(outputs, batch[1])
        return {"loss": loss, "outputs": outputs, "targets": batch[1]}
    def spread(outputs, targets):
        return (outputs - outputs.mean()).abs().max()
    trainer = Trainer(model, [adam, sgd], training_step=step, eval_step=eval_step, nprocs=1,
        metrics=[spread], clip_grad_value=0.02, progress=False)
    history = trainer.fit(batches, 4, eval=batches[:3])
    save(model, rank, np.array([history["loss"], history["eval_loss"], history["eval_spread"]]))
    """
    check(train(tmp_path, code, "", (1, 2)), one_process(tmp_path, code, ""))


def test_hosts_with_separate_addresses_train(tmp_path: Path) -> None:
    with two_hosts() as (spaces, _):
        by_rank = train(tmp_path, TRAINS, "list", (2, 2), spaces=spaces)
    check(by_rank, one_process(tmp_path, TRAINS, "list"))


def test_a_checkpoint_restores_in_one_process_and_on_nodes(tmp_path: Path) -> None:
    code = """
    at_once, _, trainer = run()
    if case == "nodes":
        trainer.fit(batches, 4)
        run()[2].fit(batches, 2, checkpoint=folder + "/run.ckpt")
    resumed, _, trainer = run()
    trainer.load(folder + "/run.ckpt")
    trainer.fit(batches, 4)
    for x, y in zip(at_once.parameters(), resumed.parameters()):
        assert case == "one" or x.equal(y)
    save(resumed, rank)
    """
    check(train(tmp_path, code, "nodes", (2, 1)), one_process(tmp_path, code, "one"))


def test_buffers_are_those_of_rank_0_on_every_node(tmp_path: Path) -> None:
    code = """
    st.manual_seed(1 + rank)
    layers = [nn.Linear(6, 33), nn.BatchNorm1d(33), nn.ReLU(), nn.Linear(33, 3)]
    model = nn.Sequential(*layers).double()
    adam = optim.Adam(model.parameters(), lr=0.01)
    trainer = Trainer(model, adam, nn.CrossEntropyLoss(), progress=False)
    history = trainer.fit(batches, 2, eval=batches[:2])
    model.eval()
    save(model, rank, np.array([history["eval_loss"][-1], trainer.evaluate(batches[:2])["loss"]]))
    """
    by_rank = train(tmp_path, code, "buffers", (1, 2))
    check(by_rank, by_rank[0])
    np.testing.assert_allclose(by_rank[0][-1][0], by_rank[0][-1][1], rtol=1e-12)
    assert by_rank[0][-2] == 10  # num_batches_tracked


def test_a_node_has_one_copy_of_weights_and_state(tmp_path: Path) -> None:
    """Weights, two arrays of Adam's state, and a row of gradients for each rank. What each script
    had made before `fit` (weights, and a place for gradients) is private to its rank.
    """
    code = """
    seen = []
    class Watched(nn.Linear):
        def forward(self, x):
            statistics = native.statistics()
            seen.append([statistics["private_bytes"], statistics["shared_bytes"]])
            return super().forward(x)
    model = nn.Sequential(Watched(6, 50_000), nn.Linear(50_000, 3)).double()  # 4 MB
    adam = optim.Adam(model.parameters(), lr=0.01)
    Trainer(model, adam, nn.CrossEntropyLoss(), progress=False).fit(batches, 2)
    nbytes = sum(p.numel() * 8 for p in model.parameters())
    np.savez(f"{folder}/{rank}.npz", *np.array(seen[-1]) / nbytes)
    """
    (alone, _), (own, shared), (other, others) = train(tmp_path, code, "", (1, 2))
    assert 4 <= alone < 4.2
    assert 5 <= shared < 5.2
    assert own == other < 2.1
    assert others == 0


DIES = """
from shmtensor.trainer.rank_step import RankStep

place, how, victim = case.split("/")
is_victim = rank == int(victim)
count = 0

def end():
    if how == "raise":
        raise ValueError("no more")
    if how == "node":
        os.kill(os.getppid(), signal.SIGKILL)  # its launcher
    os.kill(0, signal.SIGKILL)

def at(owner, name):
    function = getattr(owner, name)
    def replaced(*args, **options):
        global count
        count += is_victim
        if count == 3:
            end()
        return function(*args, **options)
    setattr(owner, name, replaced)

owners = {"train": RankStep, "exchange_rows": nodes.NodeRanks, "sum_among_nodes": nodes.NodeRanks}
if how != "none":
    at(owners.get(place, optim.Adam), place)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher may be first
model, adam, trainer = run()
states = []

def on_step(step):
    states.append(np.concatenate([p.detach().numpy().ravel() for p in model.parameters()]))

if how == "none":
    on_step(0)
    trainer.fit(batches, 1, on_step=on_step)
    np.savez(f"{folder}/0.npz", *states)
else:
    try:
        trainer.fit(batches, 4)
    except PeerLostError as error:
        on_step(0)
        os.write(1, f"{error}\\n".encode())
    np.savez(f"{folder}/{rank}.npz", *states)
"""


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The weights of one process after each step."""
    return one_process(tmp_path_factory.mktemp("states"), DIES, "none/none/0")


@pytest.mark.parametrize(
    ("place", "how", "victim", "step"),
    [
        ("train", "node", 2, 2),
        ("exchange_rows", "node", 2, 1),
        ("sum_among_nodes", "node", 2, 2),
        ("step_part", "node", 2, 3),
        ("sum_among_nodes", "rank", 1, 2),
        ("sum_among_nodes", "rank", 3, 2),  # rank 0 has its sums then, rank 1 has not
        ("train", "raise", 2, 2),
    ],
)
def test_a_node_that_dies_is_named_and_the_weights_are_whole(
    tmp_path: Path, states: list[Any], place: str, how: str, victim: int, step: int
) -> None:
    ranks = (2, 2) if victim == 3 else (2, 1)
    with nodes_of(tmp_path, DIES, f"{place}/{how}/{victim}", ranks) as launchers:
        outputs = [each.communicate(timeout=30) for each in launchers]
    lines = [line for out, _ in outputs for line in out.splitlines()]
    assert len(lines) == sum(ranks) - 1, outputs
    node, of_it = {1: (0, "0, 1"), 2: (1, "2"), 3: (1, "2, 3")}[victim]
    of_node = f"rank {victim} is of node {node} of 2 (ranks {of_it})"
    for line in lines:
        assert f"rank {victim} " in line
        assert of_node in line
    (weights,) = arrays_of(tmp_path / "0.npz")
    np.testing.assert_allclose(weights, states[step], rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- any number of nodes
class Engine:
    """A rank's end among threads: as much as `NodeRanks` uses."""

    def __init__(self, rank: int, nodes: list[list[int]], queues: Any) -> None:
        self.rank, self.nodes, self.queues = rank, nodes, queues
        self.node_index = next(i for i, node in enumerate(nodes) if rank in node)
        self.local_group = None

    def isend(self, x: Any, to: int) -> list[Any]:
        self.queues[self.rank, to].put(x.copy())
        return []

    def irecv(self, x: Any, source: int) -> list[Any]:
        return [(x, self.queues[source, self.rank])]

    def wait(self, where: str, requests: Any, timeout: float) -> None:
        for part, _ in requests:
            for x, queue in part:
                x[...] = queue.get(timeout=30)
        assert where


def on_nodes(sizes: list[int], function: Any) -> list[Any]:
    """The result of `function(ranks)` for each rank; each is a thread."""
    starts = np.cumsum([0, *sizes]).tolist()
    nodes = [list(range(a, b)) for a, b in pairwise(starts)]
    n = starts[-1]
    queues = {(a, b): Queue() for a in range(n) for b in range(n)}
    results: list[Any] = [None] * n

    def run(rank: int) -> None:
        engine = Engine(rank, nodes, queues)
        group = SimpleNamespace(native=engine, timeout=30.0, rank=lambda: rank, size=lambda: n)
        results[rank] = function(NodeRanks(group))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(n)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return results


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 11])
def test_nodes_exchange_their_bytes(n: int) -> None:
    sizes = [3 + i % 2 for i in range(n)]

    def exchange(ranks: Any) -> Any:
        own = np.full(sizes[ranks.node], ranks.node, np.uint8)
        copies = [np.array(ranks.node == 0), np.arange(6.0).reshape(2, 3).T * (ranks.node == 0)]
        gathered = ranks.all_gather(own, sizes)
        ranks.copy_to_first(copies)
        return gathered, ranks.to_first({"a": [1, 2]} if ranks.node == 0 else None), copies

    for gathered, obj, copies in on_nodes([1] * n, exchange):
        assert [each.tolist() for each in gathered] == [[i] * sizes[i] for i in range(n)]
        assert obj == {"a": [1, 2]}
        assert copies[0]
        np.testing.assert_array_equal(copies[1], np.arange(6.0).reshape(2, 3).T)


@pytest.mark.parametrize("sizes", [[1, 1], [2, 2, 2], [1, 3], [4, 1, 2], [3]])
@pytest.mark.parametrize("count", [1, 7, 100, 999])
def test_shards_of_nodes_with_other_numbers_of_ranks_are_summed(
    sizes: list[int], count: int
) -> None:
    flat = np.zeros(count, np.float32)
    rng = np.random.default_rng(3)
    of_node = rng.standard_normal((len(sizes), count)).astype(np.float32)

    def reduce(ranks: Any) -> Any:
        row = empty_shared((count,), flat.dtype)
        row[:] = of_node[ranks.node]
        intervals = ranks.intervals(flat)
        ranks.sum_among_nodes([(row[a:b], holders) for a, b, holders in intervals])
        return ranks.node, row, intervals

    want = of_node[0].copy()
    for each in of_node[1:]:
        want += each
    summed = np.zeros((len(sizes), count), int)
    for node, row, intervals in on_nodes(sizes, reduce):
        for begin, end, _ in intervals:
            np.testing.assert_array_equal(row[begin:end], want[begin:end])
            summed[node, begin:end] += 1
    assert (summed == 1).all()
