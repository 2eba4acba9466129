"""The ranks of a training run: the calling process is rank 0, and the others are its children; or
all are the ranks of a process group, and each calls `fit`; they may be on several nodes (nodes.py).

```
rank 0: the program              rank 1 .. n - 1: children
  start ------------------------>  join the group in a block that they inherit
  <----------- joined -----------
  ...            barriers, and objects from rank 0            ...
  "stop" ----------------------->  leave, exit
```

| what ends | is seen by |
|---|---|
| a child | the others, in their next barrier; rank 0 also knows exit code and traceback |
| rank 0 | the children, in their next barrier: they exit |
| rank 0's `fit`, by an exception | the children, likewise |
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import distributed, multiprocessing, native
from ..distributed.group.process_group import ProcessGroup
from ..distributed.rendezvous.find_group import create_block
from ..errors import PeerLostError
from ..multiprocessing import child_report
from ..multiprocessing.children import Child, Children
from .progress_board import ProgressBoard

if TYPE_CHECKING:
    from ..memory.layout import Array

GRACE = 10.0  # seconds that the other ranks have to notice an end and exit by themselves


class Ranks:
    """One rank's end: barriers, and objects from rank 0.

    Attributes:
        is_lost: a barrier or an object has not come, because a rank has ended.
        spans_nodes: some ranks share no memory (nodes.py).
        local_rank, local_size: among the ranks that share memory.
        seconds_waited: in barriers.
        hung: the pids of children that did not end by themselves after a failure.
    """

    spans_nodes = False

    def __init__(self, group: ProcessGroup | None = None) -> None:
        self.group = group
        self.rank, self.size = (0, 1) if group is None else (group.rank(), group.size())
        self.local_rank, self.local_size = self.rank, self.size
        self.children: Children | None = None
        self.handle = b""
        self.is_lost = False
        self.seconds_waited = 0.0
        self.hung: list[int | None] = []
        self._bytes_copied = 0

    def make_board(self, setup: Any) -> ProgressBoard:
        return ProgressBoard(setup.board)

    @property
    def gradient_rows(self) -> tuple[int, int]:
        """How many rows of gradients, and of `has_gradient`, are in shared memory."""
        return self.size, self.size

    def broadcast_setup(self, setup: Any = None, own_setup: Any = None) -> Any:
        """Rank 0's setup on every rank.

        Args:
            own_setup: `own_setup(setup, ranks)` is that of another node.
        """
        return self.broadcast(setup)

    def copy_to_nodes(self, arrays: list[Array]) -> None:
        """Copies rank 0's arrays to those in the shared memory of each other node. All ranks call
        it.
        """

    def barrier(self) -> None:
        """Returns when all ranks have called it.

        Raises:
            PeerLostError: a rank has ended.
        """
        if self.group is not None:
            began = time.perf_counter()
            try:
                self.group.native.barrier(self.group.timeout)
            except PeerLostError:
                self.is_lost = True
                raise
            self.seconds_waited += time.perf_counter() - began

    def broadcast(self, obj: Any = None) -> Any:
        """Rank 0's object on every rank; tensors have the same memory."""
        if self.group is None:
            return obj
        objects = [obj]
        try:
            distributed.broadcast_object_list(objects, group=self.group, group_src=0)
        except PeerLostError:
            self.is_lost = True
            raise
        return objects[0]

    def gather(self, obj: Any) -> list[Any]:
        """Every rank's object, on rank 0; tensors have the same memory."""
        if self.group is None:
            return [obj]
        objects: Any = None if self.rank else [None] * self.size
        try:
            distributed.gather_object(obj, objects, group=self.group, group_dst=0)
        except PeerLostError:
            self.is_lost = True
            raise
        return objects or []

    @property
    def bytes_copied(self) -> int:
        """Bytes of tensors that this rank has copied because their memory was not shared."""
        if self.group is not None:
            self._bytes_copied = self.group.statistics().bytes_staged
        return self._bytes_copied

    # ---------------------------------------------------------------- children
    @classmethod
    def start(
        cls,
        n: int,
        start_method: str | None,
        timeout: float,
        serve: Callable[[Ranks, Any], None],
        setup: Any,
    ) -> Ranks:
        """Starts n - 1 children, which call `serve(ranks, setup)`; returns when they have joined.

        Raises:
            ProcessException: a child failed before.
        """
        context = multiprocessing.get_context(start_method)
        block, handle = create_block(n)
        joined, child_end = context.Pipe(duplex=False)
        children = Children()
        try:
            for rank in range(1, n):
                process = context.Process(
                    target=run_child,
                    name=f"rank {rank}",
                    args=(rank, n, handle.hex(), timeout, serve, setup, child_end),
                )
                children.start(process)
            group = ProcessGroup(native.Group(block, 0, n), timeout, list(range(n)), block)
            ranks = cls(group)
            ranks.children, ranks.handle = children, handle
            missing = n - 1
            while missing:
                ready = children.wait(None, [joined])
                if ready:
                    joined.recv()
                    missing -= 1
                if children.is_failing:
                    raise ranks.error(ranks.wait_for_end())
            try:
                ranks.barrier()
            except PeerLostError:
                raise ranks.error(ranks.wait_for_end()) from None
        except BaseException:
            children.end(grace=0.0)
            children.close()
            native.acknowledge(handle)
            raise
        finally:
            child_end.close()
            joined.close()
        return ranks

    def close(self, error: BaseException | None = None) -> None:
        """Leaves the group and waits for the children.

        Args:
            error: why the run ends early; the other ranks' next barrier raises PeerLostError.
        """
        if self.group is None:
            return
        if error is not None:
            self.group.native.break_off(f"rank {self.rank} raised {type(error).__name__}")
        if self.children is None:
            return
        _ = self.bytes_copied
        self.children.end(patience=GRACE)
        self.group.close()
        self.children.close()
        native.acknowledge(self.handle)
        self.group = self.children = None

    def wait_for_end(self) -> Child:
        """Waits until all children have ended, after a barrier of rank 0 has failed: the others end
        by themselves, because killing them might leave a shard torn. Returns the first that failed.
        """
        children = self.children
        assert children is not None
        deadline = time.monotonic() + GRACE
        while children.running and time.monotonic() < deadline:
            children.wait(max(0.0, deadline - time.monotonic()))
        self.hung = [child.pid for child in children.running]
        children.end()
        first = children.failure()
        return first or min(children.all, key=lambda child: child.failed_at)

    def error(self, first: Child, state: str = "") -> Exception:
        """The error for the child that failed first.

        Args:
            state: of the weights, or "".
        """
        children = self.children
        assert children is not None
        if first.raised is not None:
            comma = f", {state}" if state else ""
            return children.error("Trainer", first, raised=f"Trainer: {first.line()}{comma}:\n")
        line = first.line()
        if first.pid in self.hung:
            line = f"{first.who()} was stopped or hung, and was killed after {GRACE:.0f} s"
        text = f"Trainer: {line}" + (f"; {state}" if state else "")
        text = children.explain(text, line, first)
        return PeerLostError(text, first.name, first.pid, first.exitcode)


def run_child(
    rank: int, n: int, handle: str, timeout: float, serve: Any, setup: Any, joined: Any
) -> None:
    """The main function of a child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # rank 0 handles Ctrl-C
    try:
        block = native.receive(bytes.fromhex(handle), False)
        native.set_role(f"rank {rank}")
        group = ProcessGroup(native.Group(block, rank, n), timeout, list(range(n)), block)
        joined.send(rank)
        joined.close()
        ranks = Ranks(group)
        ranks.barrier()
        serve(ranks, setup)
        group.close()
    except BaseException as error:
        child_report.fail(error)
        code = error.code if isinstance(error, SystemExit) else 1
        os._exit(code if isinstance(code, int) else 1)  # the user's model may run no more
