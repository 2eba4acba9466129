"""The battery of the collectives: generated from the table of contracts.

python -m tests.distributed.battery [--ranks 1,2,3,4,7] [--kills N]    (make collectives)

Each case makes every rank's input from a seed, calls the collective by the argument names that its
contract declares, and compares bit by bit with the contract in NumPy. Then the same calls again
with a rank killed at a random moment: all others raise PeerLostError that names it.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import native
from shmtensor.distributed.contract import CONTRACTS, ReduceOp
from shmtensor.dtypes import as_dtype
from shmtensor.errors import PeerLostError

DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
LAYOUTS = ["plain", "transposed", "strided", "private"]
RANKS = [1, 2, 3, 4, 7]
Array = Any


@functools.lru_cache(maxsize=256)
def numbers(rank: int, shape: tuple[int, ...]) -> Array:
    return np.random.default_rng([rank, *shape]).standard_normal(shape) * 3


def sample(rank: int, dtype: str, shape: tuple[int, ...]) -> Array:
    x = numbers(rank, shape)
    if dtype == "bool":
        return x > 0
    if dtype.startswith("complex"):
        x = x + 1j * numbers(rank + 1000, shape)
    if dtype.startswith("uint"):
        x = np.abs(x)
    return x.astype(as_dtype(dtype))


def is_defined(op: ReduceOp, dtype: str) -> bool:
    kind = as_dtype(dtype).kind
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        return kind in "biu"
    if op in (ReduceOp.MIN, ReduceOp.MAX):
        return kind != "c"
    return op is not ReduceOp.AVG or kind in "fc"


def sizes_around(item: int) -> list[int]:
    """First sizes of tensors (n, 3) just below, at and above where the way of the data changes."""
    edge = native.GROUP_INLINE // (3 * item)
    return [0, 1, 5, edge, edge + 1]


def laid_out(x: Array, layout: str) -> Any:
    """A tensor of these values: contiguous, turned, with gaps, or an array in private memory."""
    if layout == "private":
        return x.copy()
    if layout == "transposed" and x.ndim == 2:
        return st.tensor(np.ascontiguousarray(x.T)).t()
    if layout == "strided":
        wide = st.tensor(np.repeat(x, 2, axis=-1))
        return wide[..., ::2]
    return st.tensor(x)


def same(got: Any, want: Array, exact: bool) -> None:
    array = np.asarray(got.array if isinstance(got, st.Tensor) else got)
    assert array.dtype == want.dtype, (array.dtype, want.dtype)
    if exact:
        np.testing.assert_array_equal(array, want)
    else:  # NumPy's product of complex numbers fuses where the CPU can
        np.testing.assert_allclose(array, want, rtol=1e-5)


def check(
    name: str, dtype: str, layout: str, size: int, op: ReduceOp = ReduceOp.SUM, root: int = 0
) -> None:
    """One call on this rank, compared with the contract."""
    rank, n = dist.get_rank(), dist.get_world_size()
    contract = CONTRACTS[name]
    if not contract.takes[0]:
        getattr(dist, name)()
        return
    takes, form = contract.takes
    gives, given = contract.gives
    shape = (size, 3)
    if form == "list":
        inputs: list[Any] = [[sample(r * n + k, dtype, shape) for k in range(n)] for r in range(n)]
    else:
        inputs = [sample(r, dtype, (size * n, 3) if form == "wide" else shape) for r in range(n)]
    extra: list[Any] = [root] if contract.root else []
    join: Any = dist.PremulSum(rank + 1) if op is ReduceOp.PREMUL_SUM else op
    if contract.reduces and op is ReduceOp.PREMUL_SUM:
        factors = [np.asarray(r + 1, as_dtype(dtype)) for r in range(n)]
        scaled = [
            [(x * f).astype(as_dtype(dtype)) for x in each]
            if form == "list"
            else (each * f).astype(as_dtype(dtype))
            for each, f in zip(inputs, factors, strict=True)
        ]
        want = contract.function(scaled, *extra, ReduceOp.SUM)[rank]
    else:
        want = contract.function(inputs, *extra, *([op] if contract.reduces else []))[rank]

    def tensor(x: Array) -> Any:
        return laid_out(x, layout)

    own = [tensor(x) for x in inputs[rank]] if form == "list" else tensor(inputs[rank])
    arguments: dict[str, Any] = {takes: own}
    if contract.root:
        arguments[contract.root] = root
        is_root = rank == root
        if contract.root == "src" and form == "list" and not is_root:
            arguments[takes] = None
    if contract.reduces:
        arguments["op"] = join
    if gives != takes:
        blank = np.zeros((size * n, 3) if given == "wide" else shape, as_dtype(dtype))
        out: Any = [tensor(blank) for _ in range(n)] if given == "list" else tensor(blank)
        arguments[gives] = None if given == "list" and contract.root and want is None else out
    else:
        out = own
    work = getattr(dist, name)(**arguments, async_op=(size + len(name)) % 2 == 0)
    if work is not None:
        assert work.wait()
    exact = not (op is ReduceOp.PRODUCT and contract.reduces and dtype.startswith("complex"))
    if want is None:
        if gives == takes:
            same(out, inputs[rank], True)
    elif given == "list":
        for got, each in zip(out, want, strict=True):
            same(got, each, exact)
    else:
        same(out, want, exact)


def cases(n: int, mode: str) -> Iterator[tuple[str, str, str, int, ReduceOp, int]]:
    """All of them; "quick": for every collective a few, which dtypes, layouts, sizes and operations
    take turns in."""
    turn = itertools.count()
    for name, contract in CONTRACTS.items():
        roots = sorted({0, n - 1}) if contract.root else [0]
        if mode == "quick":
            for size_at in range(5) if n < 4 else (0, 1, 4):
                k = next(turn)
                dtype = DTYPES[k * 5 % len(DTYPES)]
                ops = [op for op in ReduceOp if is_defined(op, dtype)]
                size = sizes_around(as_dtype(dtype).itemsize)[size_at]
                op = ops[k % len(ops)]
                yield name, dtype, LAYOUTS[k % 4], size, op, roots[k % len(roots)]
            continue
        for dtype in DTYPES:
            ops = [op for op in ReduceOp if is_defined(op, dtype)] if contract.reduces else []
            for layout in LAYOUTS:
                for size in sizes_around(as_dtype(dtype).itemsize):
                    for op in ops or [ReduceOp.SUM]:
                        for root in roots:
                            yield name, dtype, layout, size, op, root


def sweep(mode: str) -> int:
    """All cases on this rank; returns how many."""
    count = 0
    for case in cases(dist.get_world_size(), mode):
        try:
            check(*case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from None
        count += 1
    return count


# ---------------------------------------------------------------- with a death


def until_lost(seed: int, victim: int, after: float) -> tuple[str, float]:
    """Random collectives until the victim, which is killed after that many seconds, is missed.

    Returns: the name in the error, and when it came, on a clock that all processes share.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank == victim:
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
    rng = random.Random(seed)  # the same calls on all ranks
    end = time.monotonic() + 60
    while time.monotonic() < end:
        name = rng.choice(list(CONTRACTS))
        dtype = rng.choice(DTYPES)
        ops = [op for op in ReduceOp if is_defined(op, dtype)]
        size = rng.choice(sizes_around(as_dtype(dtype).itemsize))
        try:
            check(name, dtype, rng.choice(LAYOUTS), size, rng.choice(ops), rng.randrange(n))
        except PeerLostError as error:
            return error.name, time.monotonic()
    raise AssertionError(f"rank {victim} was not missed")


def kill_one(seed: int, ranks: int) -> float:
    """A group with a death at a random moment; the seconds from the last error to the death."""
    from .crowd import run

    rng = random.Random(seed)
    victim, after = rng.randrange(ranks), rng.uniform(0.0, 0.15)
    began = time.monotonic()
    outcomes = run(until_lost, ranks, seed, victim, after)
    late = 0.0
    for outcome in outcomes:
        if outcome.rank == victim:
            assert outcome.exitcode == -signal.SIGKILL, (seed, outcome)
            continue
        assert outcome.error is None, (seed, outcome)
        name, at = outcome.value
        assert name == f"rank {victim}", (seed, outcome)
        late = max(late, at - began - after)
    return late


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", default=",".join(map(str, RANKS)))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    from shmtensor import memory

    from .crowd import run, values

    for n in [int(each) for each in options.ranks.split(",")]:
        began = time.monotonic()
        counts = values(run(sweep, n, "whole", timeout=120.0, patience=3600.0))
        print(f"{n} ranks: {counts[0]} cases, {time.monotonic() - began:.0f} s", flush=True)
    before, late = memory.statistics(), []
    for i in range(options.kills):
        late.append(kill_one(options.seed * 1000 + i, 2 + i % 3))
    after = memory.statistics()
    left = after.private_blocks + after.shared_blocks + after.held_blocks
    left -= before.private_blocks + before.shared_blocks + before.held_blocks
    if late:
        print(
            f"{len(late)} kills: noticed after {sorted(late)[len(late) // 2]:.3f} s (median), "
            f"{max(late):.3f} s at most, starting included; {left} blocks more than before"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
