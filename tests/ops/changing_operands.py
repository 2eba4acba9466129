"""`python tests/ops/changing_operands.py SECONDS [PART/PARTS] [REGEX]`: calls rows whose operands
another process changes meanwhile; nothing may crash.

    this process    writes into the board: right elements, a wrong one (negative, huge, NaN), ...
    child           calls one case after the other, for SECONDS each, on tensors over the board

    board   | segments of the current case | its name | right elements | live elements |

The cases are the rows of the op table with operands of integers or bools (in their samples' sizes,
and with index arrays among their attributes), and the large ones below, for which kernels have
another path. A call gives a value or one of ERRORS. If the child dies, the last line names the
case.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# MemoryError: counts, classes and repeats may ask for more than there is.
ERRORS = (IndexError, RuntimeError, ValueError, MemoryError)

PATIENCE = 30  # seconds until a case counts as a hang

# Their order is the number of their steps.
LEFT_OUT = re.compile("special_.*polynomial")

SIZE = 1 << 20  # bytes of the elements of a case
RIGHT, LIVE = 1 << 12, (1 << 12) + SIZE
SEGMENTS = 8
NAME, NAME_SIZE = 1024, 1024
KINDS = ("q", "?", "d", "f", "i", "B")  # dtypes; B: the bytes of packed data

WRONG: dict[str, list[Any]] = {
    "q": [-1, -(2**50), 2**50, 2**62, -(2**63), 0, 3],
    "i": [-1, -(2**31), 2**31 - 1, 0],
    "?": [],
    "d": [np.nan, np.inf, -np.inf, 1e300, -1e300, -1.0, 1e18],
    "f": [np.nan, np.inf, -np.inf, 1e30, -1e30, -1.0, 1e18],
    "B": [0, 1, 4, 5, 7, 8, 0x7F, 0x80, 0xFF],  # no tag of a pickle
}


class Board:
    """Memory of both processes."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, LIVE + SIZE)
        self.header = np.frombuffer(self.memory, np.int64, 1 + 3 * SEGMENTS)
        self.right, self.live = (
            {k: np.frombuffer(self.memory, k, SIZE // np.dtype(k).itemsize, at) for k in KINDS}
            for at in (RIGHT, LIVE)
        )

    @property
    def name(self) -> str:
        return bytes(self.memory[NAME : NAME + NAME_SIZE]).rstrip(b"\0").decode(errors="replace")

    def begin(self, name: str) -> None:
        """No segments, and another name."""
        self.header[0] = 0
        self.memory[NAME : NAME + NAME_SIZE] = name.encode()[:NAME_SIZE].ljust(NAME_SIZE, b"\0")

    def add(self, array: Any, kind: str = "") -> Any:
        """An array over the board with the same elements, which the other process changes."""
        kind = kind or array.dtype.char.replace("l", "q")
        n, used = int(self.header[0]), 0
        for i in range(n):
            _, start, size = self.header[1 + 3 * i : 4 + 3 * i]
            used = int(start + size)
        start = (used + 63) // 64 * 64
        assert n < SEGMENTS, self.name
        assert start + array.nbytes <= SIZE, (self.name, array.nbytes)
        item = array.dtype.itemsize
        for copy in (self.right, self.live):
            copy[kind][start // item : start // item + array.size] = array.reshape(-1)
        self.header[1 + 3 * n : 4 + 3 * n] = KINDS.index(kind), start, array.nbytes
        self.header[0] = n + 1
        return self.live[kind][start // item : start // item + array.size].reshape(array.shape)

    def scribble(self, draw: random.Random) -> None:
        """Makes elements of one segment wrong for a moment."""
        n = int(self.header[0])
        if not n:
            time.sleep(1e-4)
            return
        i = draw.randrange(n)
        kind, start, nbytes = (int(v) for v in self.header[1 + 3 * i : 4 + 3 * i])
        right, live = self.right[KINDS[kind]], self.live[KINDS[kind]]
        first, end = start // right.itemsize, (start + nbytes) // right.itemsize
        if first == end:
            return
        wrong = WRONG[KINDS[kind]]
        for _ in range(50):
            if not wrong:
                live.view(np.uint8)[first:end] = draw.choice((0, 1, 255))
                live[first:end] = right[first:end]
                continue
            at = draw.randrange(first, end)
            live[at] = draw.choice(wrong)
            live[at] = right[at]
        if wrong and KINDS[kind] != "B":  # right elements in another order
            live[first:end] = right[first:end][::-1]
            live[first:end] = right[first:end]


# ---- cases


def rows() -> Iterator[tuple[str, Callable[[Board], Callable[[], Any]]]]:
    """Rows with operands or attributes that are arrays of integers or bools, in their samples."""
    from draws import calls

    from shmtensor.ops import ROWS

    def is_index(x: Any) -> bool:
        return isinstance(x, np.ndarray) and x.dtype.kind in "ib"

    def on(board: Board, x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(on(board, part) for part in x)
        return board.add(x) if is_index(x) else x

    def call_on(call: Any, board: Board) -> Callable[[], Any]:
        import shmtensor as st

        inputs = [
            st.from_numpy(board.add(x)) if is_index(x) else t
            for x, t in zip(call.inputs, call.tensors(), strict=True)
        ]
        call.attributes = [on(board, a) for a in call.attributes]
        return lambda: call.public(*inputs)

    for row in ROWS.values():
        for call in [] if LEFT_OUT.match(row.name) else calls(row):
            parts = [p for a in call.attributes for p in (a if isinstance(a, tuple) else (a,))]
            if any(is_index(x) for x in (*call.inputs, *parts)):
                yield str(call), lambda board, call=call: call_on(call, board)


def large() -> Iterator[tuple[str, Callable[[Board], Callable[[], Any]]]]:
    """Functions on so many elements that the kernels work in pieces."""
    import shmtensor as st
    import shmtensor.nn.functional as F
    from shmtensor import native

    draw = np.random.default_rng(0)
    n, m = 20_000, 1000

    def floats(*shape: int, dtype: Any = np.float32) -> Any:
        return st.tensor(draw.standard_normal(shape).astype(dtype))

    def ints(high: int, *shape: int) -> Any:
        return draw.integers(0, high, shape)

    def bools(*shape: int) -> Any:
        return draw.random(shape) < 0.5

    def gradient(f: Callable[..., Any], x: Any, *index: Any) -> Any:
        x = x.detach().requires_grad_(True)
        f(x, *index).sum().backward()
        return x.grad

    scalar, vector, matrix, table = st.tensor(1.0), floats(m), floats(100, 200), floats(m, 16)
    wide, columns = floats(m, 256), floats(4, m)
    values, rows_of_values = floats(n), floats(n, 16)
    cases: list[tuple[str, Callable[..., Any], list[Any]]] = [
        ("gather(1)", lambda i: matrix.gather(1, i), [ints(200, 100, 200)]),
        ("gather(0)", lambda i: matrix.gather(0, i), [ints(100, 100, 200)]),
        ("gather of a vector", lambda i: vector.gather(0, i), [ints(m, n)]),
        ("gather, backward", lambda i: gradient(lambda x, i: x.gather(1, i), matrix, i),
         [ints(200, 100, 200)]),
        ("take_along_dim", lambda i: st.take_along_dim(matrix, i, 1), [ints(200, 100, 200)]),
        ("take", lambda i: vector.take(i), [ints(m, n)]),
        ("index_select, elements", lambda i: vector.index_select(0, i), [ints(m, n)]),
        ("index_select(1)", lambda i: columns.index_select(1, i), [ints(m, n)]),
        ("index_select, rows", lambda i: table.index_select(0, i), [ints(m, n)]),
        ("index_select, wide rows", lambda i: wide.index_select(0, i), [ints(m, 2000)]),
        ("embedding", lambda i: F.embedding(i, table), [ints(m, n)]),
        ("embedding, backward", lambda i: gradient(lambda w, i: F.embedding(i, w), table, i),
         [ints(m, n)]),
        ("embedding_bag", lambda i, o: F.embedding_bag(i, table, o, mode="max"),
         [ints(m, 2000), np.arange(0, 2000, 20)]),
        ("scatter(1)", lambda i: matrix.scatter(1, i, matrix), [ints(200, 100, 200)]),
        ("scatter(0), a number", lambda i: matrix.scatter(0, i, 1.0), [ints(100, 100, 200)]),
        ("scatter_", lambda i: matrix.clone().scatter_(1, i, matrix), [ints(200, 100, 200)]),
        ("scatter_add", lambda i: matrix.scatter_add(1, i, matrix), [ints(200, 100, 200)]),
        ("scatter_add_", lambda i: vector.clone().scatter_add_(0, i, values), [ints(m, n)]),
        ("scatter, multiply", lambda i: matrix.scatter(1, i, matrix, reduce="multiply"),
         [ints(200, 100, 200)]),
        *((f"scatter_reduce, {how}", lambda i, how=how: matrix.scatter_reduce(
            1, i, matrix, how, include_self=False), [ints(200, 100, 200)])
          for how in ("sum", "prod", "mean", "amax", "amin")),
        ("scatter_reduce, 0-d", lambda i: scalar.scatter_reduce(0, i, scalar, "sum"), [ints(1)]),
        ("index_add, elements", lambda i: vector.index_add(0, i, values), [ints(m, n)]),
        ("index_add, rows", lambda i: table.index_add(0, i, rows_of_values), [ints(m, n)]),
        ("index_add_", lambda i: table.clone().index_add_(0, i, rows_of_values), [ints(m, n)]),
        ("index_reduce", lambda i: table.index_reduce(0, i, rows_of_values, "mean",
                                                      include_self=False), [ints(m, n)]),
        ("index_copy", lambda i: table.index_copy(0, i, rows_of_values), [ints(m, n)]),
        ("index_fill", lambda i: table.index_fill(0, i, 1.0), [ints(m, n)]),
        ("index_put", lambda i: vector.index_put((i,), values), [ints(m, n)]),
        ("index_put, accumulate", lambda i: vector.index_put((i,), values, True), [ints(m, n)]),
        ("index_put, accumulate, bfloat16",
         lambda i: vector.bfloat16().index_put((i,), values.bfloat16(), True), [ints(m, n)]),
        ("put_", lambda i: matrix.clone().put_(i, values), [ints(n, n)]),
        ("x[i]", lambda i: vector[i], [ints(m, n)]),
        ("x[i], few", lambda i: vector[i], [ints(m, 100)]),
        ("x[i], rows", lambda i: table[i], [ints(m, n)]),
        ("x[i, j]", lambda i, j: matrix[i, j], [ints(100, n), ints(200, n)]),
        ("x[:, i]", lambda i: matrix[:, i], [ints(200, 1000)]),
        ("x[i, j], backward", lambda i, j: gradient(lambda x, i, j: x[i, j], matrix, i, j),
         [ints(100, n), ints(200, n)]),
        ("x[i] = v", lambda i: vector.clone().__setitem__(i, values), [ints(m, n)]),
        ("x[mask]", lambda k: matrix[k], [bools(100, 200)]),
        ("x[mask], few", lambda k: vector[:100][k], [bools(100)]),
        ("x[mask], rows", lambda k: table[k], [bools(m)]),
        ("x[0, mask]", lambda k: floats(2, 3, 100)[0, :, k], [bools(100)]),
        ("x[mask] = v", lambda k: matrix.clone().__setitem__(k, 1.0), [bools(100, 200)]),
        ("masked_select", lambda k: matrix.masked_select(k), [bools(100, 200)]),
        ("masked_scatter", lambda k: matrix.masked_scatter(k, matrix), [bools(100, 200)]),
        ("nonzero of bools", lambda k: k.nonzero(), [bools(100, 200)]),
        ("nonzero of ints", lambda i: i.nonzero(), [ints(2, 100, 200)]),
        ("nll_loss", lambda i: F.nll_loss(columns.T, i), [ints(4, m)]),
        ("nll_loss, backward", lambda i: gradient(F.nll_loss, table, i), [ints(16, m)]),
        ("nll_loss, bfloat16", lambda i: F.nll_loss(table.bfloat16(), i, reduction="none"),
         [ints(16, m)]),
        ("cross_entropy", lambda i: F.cross_entropy(table, i), [ints(16, m)]),
        ("cross_entropy, backward", lambda i: gradient(F.cross_entropy, table, i), [ints(16, m)]),
        ("cross_entropy, weights", lambda i: F.cross_entropy(
            table, i, floats(16), label_smoothing=0.1), [ints(16, m)]),
        ("multi_margin_loss", lambda i: F.multi_margin_loss(table, i), [ints(16, m)]),
        ("multilabel_margin_loss", lambda i: F.multilabel_margin_loss(table, i), [ints(16, m, 16)]),
        ("ctc_loss", lambda i: F.ctc_loss(
            floats(20, 4, 16).log_softmax(2), i, (20,) * 4, (8,) * 4), [1 + ints(15, 4, 8)]),
        ("ctc_loss, lengths", lambda i, a, b: gradient(lambda x, i, a, b: F.ctc_loss(
            x.log_softmax(2), i, a, b), floats(20, 4, 16), i, a, b),
         [1 + ints(15, 4, 8), np.full(4, 20), np.full(4, 8)]),
        ("one_hot", lambda i: F.one_hot(i, 50), [ints(50, m)]),
        ("bincount", lambda i: i.bincount(), [ints(m, n)]),
        ("bincount, weights", lambda i: i.bincount(values), [ints(m, n)]),
        ("repeat_interleave", lambda i: vector.repeat_interleave(i), [ints(4, m)]),
        ("repeat_interleave of repeats", lambda i: st.repeat_interleave(i), [ints(4, m)]),
        ("searchsorted, sorter", lambda i: st.searchsorted(vector, values, sorter=i),
         [draw.permutation(m)]),
        ("bucketize", lambda x: st.bucketize(values, x), [np.sort(draw.random(m, np.float32))]),
        ("max_unpool", lambda i: F.max_unpool2d(floats(4, 16, 16), i, 2), [ints(1024, 4, 16, 16)]),
        ("max_pool, backward", lambda i: native.value_selecting_reduction_backward(
            np.ones((4, 256), np.float32), i.numpy(), (4, 1024), 1), [ints(1024, 4, 256)]),
        ("grid_sample", lambda x: F.grid_sample(floats(1, 2, 16, 16), x, align_corners=False),
         [draw.uniform(-1, 1, (1, 32, 32, 2)).astype(np.float32)]),
        ("grid_sample, backward", lambda x: native.grid_sample_backward(
            np.ones((1, 2, 32, 32), np.float32), np.ones((1, 2, 16, 16), np.float32), x.numpy(),
            2, 2, 0, 1, 1), [draw.uniform(-1, 1, (1, 32, 32, 2)).astype(np.float32)]),
        ("ldl_solve", lambda i: st.linalg.ldl_solve(floats(16, 16), i, floats(16, 4)),
         [1 + np.arange(16, dtype=np.int32)]),
        ("lu_solve", lambda i: st.linalg.lu_solve(floats(16, 16), i, floats(16, 4)),
         [1 + np.arange(16, dtype=np.int32)]),
        ("segment_reduce", lambda i: st.segment_reduce(vector, "sum", lengths=i),
         [np.full(10, 100)]),
        ("tensor_split", lambda i: vector.tensor_split(i), [ints(m, 10)]),
        ("pad_packed_sequence", lambda i: st.nn.utils.rnn.pad_packed_sequence(
            st.nn.utils.rnn.PackedSequence(floats(30, 2), i)), [np.full(10, 3)]),
        ("pack_padded_sequence", lambda i: st.nn.utils.rnn.pack_padded_sequence(
            floats(10, 3, 2), i), [np.full(3, 10)]),
        ("sparse, to_dense", lambda i: st.sparse_coo_tensor(i, floats(m), (50, 50)).to_dense(),
         [ints(50, 2, m)]),
        ("sparse, coalesce", lambda i: st.sparse_coo_tensor(i, floats(m), (50, 50)).coalesce(),
         [ints(50, 2, m)]),
        ("unique of ints", lambda i: i.unique(), [ints(m, n)]),
        ("unique, inverse", lambda i: i.unique(return_inverse=True), [ints(m, n)]),
        ("unique of many, inverse", lambda i: i.unique(return_inverse=True), [ints(2**40, 70_000)]),
        ("unique_consecutive", lambda i: i.unique_consecutive(return_inverse=True), [ints(2, n)]),
        ("sort", lambda x: x.sort(), [draw.standard_normal(70_000)]),
        ("sort of float32", lambda x: x.sort(), [draw.random(100_000, np.float32)]),
        ("sort of few ints", lambda i: i.sort(), [ints(50, 70_000)]),
        ("topk", lambda x: x.topk(10), [draw.standard_normal(70_000)]),
        ("kthvalue", lambda x: x.kthvalue(30_000), [draw.standard_normal(70_000)]),
        ("median", lambda x: x.median(), [draw.standard_normal(70_000)]),
        ("mode", lambda i: i.mode(), [ints(50, n)]),
        ("isin", lambda i: st.isin(i, i), [ints(m, n)]),
        ("histc", lambda x: x.histc(50), [draw.random(n, np.float32)]),
        ("histogram, edges", lambda x: values.histogram(x), [np.linspace(-1, 1, 50, dtype="f")]),
        ("native histogram", lambda x: native.histogram(values.numpy(), x.numpy()),
         [np.linspace(-1, 1, 50, dtype="f")]),
        ("multinomial", lambda x: x.multinomial(100, True), [draw.random(40_000, np.float32)]),
        ("quantile", lambda x: x.quantile(0.3), [draw.random(n, np.float32)]),
    ]  # fmt: skip
    for name, function, arrays in cases:
        yield (
            name,
            lambda board, f=function, arrays=arrays: closure(
                f, [st.from_numpy(board.add(np.asarray(x))) for x in arrays]
            ),
        )


def packed() -> Iterator[tuple[str, Callable[[Board], Callable[[], Any]]]]:
    """Packed lists and dictionaries, and messages, of which single bytes change."""
    import shmtensor as st
    from shmtensor import native

    items = ["abc", "é" * 20, b"bytes", 5, 300, 70_000, 2**40, 1.5, None, [1, (2, "x")]]
    items += [np.arange(6.0).reshape(2, 3), st.ones(3)]
    block = lambda c: np.frombuffer(c._blocks[0], np.uint8).copy()  # noqa: E731

    def read_list(data: Any) -> None:
        container = native.PackedList([data])
        for i in range(min(len(container), 20)):
            try:
                container[i]
            except Exception:
                continue  # what wrong bytes mean

    def read_dict(data: Any) -> None:
        container = native.PackedDict([data])
        for i in range(20):
            try:
                container.get(300 + i)
                container.get(f"{i}")
            except Exception:
                continue

    def read_message(data: Any) -> None:
        try:
            native.decode(data, [])
        except Exception:
            return

    numbers = {300 + i: x for i, x in enumerate(items)} | {f"{i}": x for i, x in enumerate(items)}
    message = native.encode(["text" * 100, "é" * 300, (1, 2.5, None), {"a": b"b"}])[0]
    for name, function, data in (
        ("SharedList", read_list, block(st.SharedList(items))),
        ("SharedDict", read_dict, block(st.SharedDict(numbers))),
        ("decode", read_message, np.frombuffer(message, np.uint8)),
    ):
        yield name, lambda board, f=function, data=data: closure(f, [board.add(data, "B")])


def closure(function: Callable[..., Any], arguments: list[Any]) -> Callable[[], Any]:
    return lambda: function(*arguments)


# ---- processes


def run(board: Board, seconds: float, part: int, parts: int, pattern: str) -> None:
    """Calls each case that matches, for some seconds."""
    faulthandler.enable()
    cases = [case for family in (rows, large, packed) for case in family()]
    number = 0
    for name, prepare in cases[part::parts]:
        if not re.search(pattern, name):
            continue
        board.begin(name)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        call = prepare(board)
        number += 1
        calls, end = 0, time.monotonic() + seconds
        while calls < 3 or time.monotonic() < end:
            calls += 1
            try:
                call()
            except ERRORS:
                continue
    board.begin("")
    faulthandler.cancel_dump_traceback_later()
    print(f"{number} cases", flush=True)


def main() -> int:
    seconds = float(sys.argv[1])
    part, parts = (int(v) for v in (sys.argv[2] if len(sys.argv) > 2 else "0/1").split("/"))
    pattern = sys.argv[3] if len(sys.argv) > 3 else ""
    board = Board()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run(board, seconds, part, parts, pattern)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    draw = random.Random(0)
    try:
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            for _ in range(20):
                board.scribble(draw)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    code = os.waitstatus_to_exitcode(ended[1])
    if code:
        reason = signal.Signals(-code).name if code < 0 else "an unexpected error"
        print(f"{reason} in {board.name}", flush=True)
    return int(code != 0)


if __name__ == "__main__":
    sys.exit(main())
