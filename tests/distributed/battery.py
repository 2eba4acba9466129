"""The battery of the collectives: generated from the table of contracts.

python -m tests.distributed.battery [--ranks 1,2,3,4,7] [--only a,b]  (make collectives)

Each case makes every rank's input from a seed, calls the collective with the argument names of its
contract, and compares bit by bit with the contract in NumPy. kills.py ends ranks in the same calls.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import native
from shmtensor.distributed.backends.mpi import large_collectives
from shmtensor.distributed.collectives.reference import ReduceOp
from shmtensor.distributed.group import call_signature as call
from shmtensor.dtypes import as_dtype

from .contracts import CONTRACTS
from .run_ranks import run, values

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
TILE, PIECE = (
    1 << 13,
    1 << 18,
)  # bytes: kTile of native/ipc/process_group/reduce_ranks.cc, kPiece of collectives.cc
FREE_ORDER = False  # whether the backend reduces in another order, on GPUs: set by nccl_ranks.py
Array = Any
Case = tuple[str, str, str, int, ReduceOp, int]


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


def thresholds(name: str, item: int, n: int, across_nodes: bool = False) -> list[int]:
    """Sizes of a rank's tensor in bytes at which the path of the data changes."""
    contract = CONTRACTS[name]
    inline = call.INLINE if across_nodes else native.GROUP_INLINE
    sizes = [inline]
    if contract.takes[1] != "tensor" and n > 1:  # the size of all inputs of a rank decides
        sizes.insert(0, inline // n)
    if across_nodes:
        return [*sizes, native.GROUP_INLINE, large_collectives.CHUNK]
    if contract.reduces:
        sizes.insert(0, TILE * item // max(item, 4))  # 16-bit floats are folded as float32
    if name == "broadcast":
        sizes.append(PIECE * n)  # of each rank's share
    return sizes


def sizes_around(name: str, item: int, n: int, across_nodes: bool = False) -> list[int]:
    """First sizes of tensors (n, 3): small ones, and at and above each threshold."""
    if not CONTRACTS[name].takes[0]:
        return [0]
    edges = [nbytes // (3 * item) for nbytes in thresholds(name, item, n, across_nodes)]
    return [0, 1, 5, *(size for edge in edges for size in (edge, edge + 1))]


def laid_out(x: Array, layout: str) -> Any:
    """A tensor of these values: contiguous, turned, with gaps, or an array in private memory."""
    if layout == "private" and not FREE_ORDER:
        return x.copy()
    if layout == "transposed" and x.ndim == 2:
        return st.tensor(np.ascontiguousarray(x.T)).t()
    if layout == "strided":
        wide = st.tensor(np.repeat(x, 2, axis=-1))
        return wide[..., ::2]
    return st.tensor(x)


def same(result: Any, want: Array, slack: float) -> None:
    array = np.asarray(result.cpu().array if isinstance(result, st.Tensor) else result)
    assert array.dtype == want.dtype, (array.dtype, want.dtype)
    if not slack:
        np.testing.assert_array_equal(array, want)
    else:
        wide = [x.astype(np.result_type(x, np.float32)) for x in (array, want)]
        np.testing.assert_allclose(*wide, rtol=slack, atol=slack if FREE_ORDER else 0)


def slack_of(name: str, dtype: str, op: ReduceOp) -> float:
    """The relative tolerance of results against the contract; 0: exact."""
    if not CONTRACTS[name].reduces:
        return 0.0
    if FREE_ORDER and "float" in dtype:
        return {"float16": 2e-2, "bfloat16": 2e-1}.get(dtype, 1e-4)
    # NumPy's product of complex numbers fuses where the CPU can
    return 1e-5 if op is ReduceOp.PRODUCT and dtype.startswith("complex") else 0.0


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
    gives, gives_form = contract.gives
    shape = (size, 3)
    if form == "list":
        inputs: list[Any] = [[sample(r * n + k, dtype, shape) for k in range(n)] for r in range(n)]
    else:
        inputs = [sample(r, dtype, (size * n, 3) if form == "wide" else shape) for r in range(n)]
    extra: list[Any] = [root] if contract.root else []
    terms, reduction = inputs, op
    if op is ReduceOp.PREMUL_SUM:
        factors = [np.asarray(r + 1, as_dtype(dtype)) for r in range(n)]
        terms = [
            (np.asarray(x) * f).astype(as_dtype(dtype))
            for x, f in zip(inputs, factors, strict=True)
        ]
        reduction = ReduceOp.SUM
    want = contract.function(terms, *extra, *([reduction] if contract.reduces else []))[rank]

    def tensor(x: Array) -> Any:
        return laid_out(x, layout)

    rank_input = [tensor(x) for x in inputs[rank]] if form == "list" else tensor(inputs[rank])
    arguments: dict[str, Any] = {takes: rank_input}
    if contract.root:
        arguments[contract.root] = root
        is_root = rank == root
        if contract.root == "src" and form == "list" and not is_root:
            arguments[takes] = None
    if contract.reduces:
        arguments["op"] = dist.PremulSum(rank + 1) if op is ReduceOp.PREMUL_SUM else op
    if gives != takes:
        blank = np.zeros((size * n, 3) if gives_form == "wide" else shape, as_dtype(dtype))
        out: Any = [tensor(blank) for _ in range(n)] if gives_form == "list" else tensor(blank)
        arguments[gives] = None if gives_form == "list" and contract.root and want is None else out
    else:
        out = rank_input
    work = getattr(dist, name)(**arguments, async_op=(size + len(name)) % 2 == 0)
    if work is not None:
        assert work.wait()
    slack = slack_of(name, dtype, op)
    if want is None:
        if gives == takes:
            same(out, inputs[rank], 0.0)
    elif gives_form == "list":
        for result, each in zip(out, want, strict=True):
            same(result, each, slack)
    else:
        same(out, want, slack)


def operations(name: str, dtype: str) -> list[ReduceOp]:
    if not CONTRACTS[name].reduces:
        return [ReduceOp.SUM]
    return [op for op in ReduceOp if is_defined(op, dtype)]


def roots(name: str, n: int) -> list[int]:
    return sorted({0, n - 1}) if CONTRACTS[name].root else [0]


def cases(n: int, across_nodes: bool = False, only: Sequence[str] = ()) -> Iterator[Case]:
    """All of them, or those of some collectives."""
    for name in only or CONTRACTS:
        for dtype, layout in itertools.product(DTYPES, LAYOUTS):
            sizes = sizes_around(name, as_dtype(dtype).itemsize, n, across_nodes)
            ways = itertools.product(sizes, operations(name, dtype), roots(name, n))
            for size, op, root in ways:
                yield name, dtype, layout, size, op, root


def draw(rng: random.Random, n: int, name: str, at: int = -1, across_nodes: bool = False) -> Case:
    """A random case of a collective, of the at-th size (-1: any); the same on all ranks."""
    dtype = rng.choice(DTYPES)
    sizes = sizes_around(name, as_dtype(dtype).itemsize, n, across_nodes)
    size = sizes[at] if at >= 0 else rng.choice(sizes)
    op, root = rng.choice(operations(name, dtype)), rng.randrange(n if CONTRACTS[name].root else 1)
    return name, dtype, rng.choice(LAYOUTS), size, op, root


def sample_of(n: int, seed: int, across_nodes: bool = False) -> Iterator[Case]:
    """A case of every collective for every size; between nodes, for four sizes."""
    rng = random.Random(seed)
    for name in CONTRACTS:
        size_indices = range(len(sizes_around(name, 1, n, across_nodes)))
        for at in (
            rng.sample(size_indices, min(4, len(size_indices))) if across_nodes else size_indices
        ):
            yield draw(rng, n, name, at, across_nodes)


def sweep(seed: int | None = None, only: Sequence[str] = ()) -> int:
    """Cases on this rank, a sample of them or (None) all; returns how many."""
    n, world = dist.get_world_size(), dist.GroupMember.WORLD
    across = world is not None and world.spans_nodes
    count = 0
    for case in cases(n, across, only) if seed is None else sample_of(n, seed, across):
        try:
            check(*case)
        except Exception as error:
            message = f"{case} of {n} ranks (seed {seed}): {type(error).__name__}: {error}"
            raise AssertionError(message) from None
        count += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", default=",".join(map(str, RANKS)))
    parser.add_argument("--only", default="", help="collectives: all_reduce,reduce")
    parser.add_argument("--node", type=int, default=0, help="ranks of a node: TCP between them")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else list(CONTRACTS)
    for n in [int(each) for each in options.ranks.split(",")]:
        began, count = time.monotonic(), 0
        for name in only:
            limits: dict[str, Any] = {"timeout": 120.0, "patience": 3600.0}
            count += values(run(sweep, n, None, [name], node=options.node, **limits))[0]
        print(f"{n} ranks: {count} cases, {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
