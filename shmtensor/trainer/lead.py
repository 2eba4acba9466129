"""Lead: rank 0's part of a run: the passes over data, what the other ranks are told, and what
follows a death.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from copy import deepcopy
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ..errors import PeerLostError, TornWeights
from .batches import (
    Counter,
    Order,
    apply,
    as_tensors,
    in_groups,
    is_same,
    memory_of,
    part_of,
    seeded,
    share,
)
from .checkpoint import Snapshot
from .gradients import parameters_of
from .history import Figures
from .plan import seed_of
from .rank_step import interrupts_deferred
from .ranks import Ranks
from .run import AGAIN, END, OPTIONS, PASS, SAME, STEP, Member, Pass, options_of, set_options
from .setup import Setup
from .weights import Sharded, is_flat

SHARE = 100  # a snapshot is due after this many times the last one's time: it also empties caches
REPLAY = 64 << 20  # bytes of batches that are kept since the last snapshot, to be given again


class Group(NamedTuple):
    """The batches of a step on rank 0: its parts, and the batches if they are to be handed over."""

    parts: list[Any]
    batches: list[Any] | None


class Lead(Member):
    """Rank 0's part of a run.

    Args:
        data: the data sets of the run.
        start: `start(updates)` returns the setup of the model as it is, complete after so many
            updates, and the ranks.
        updates: how many there were before.
        max_restarts: how many times ranks are started again after a death.
        snapshots: after how many updates a snapshot is taken; True: as often as costs little;
            False: none.
        progress: returns the program's part of a snapshot: what changes from step to step beside
            weights, optimizers and buffers.
        go_back: is given it again.

    Attributes:
        options: that the other ranks have.
        memory: of the lists of batches that the other ranks have, by the number of the data set.
        used: the numbers of the data sets that may have changed since the ranks, or those that they
            replace, were set up.
        uncounted: of the present update the figures to which its own belong, the index of its
            optimizer, and its number; None: they are there.
        former_buffers: the model's buffers before the present update, once it has begun.
        snapshot: of the weights at some step, or None.
        has_written: callbacks have written weights, which the other nodes are to get.
        generation: how many times the ranks have been started.
        depth: of the present pass: 0: none, 1: a pass, 2: an evaluation within it.
        recent: the groups handed over since the snapshot; first_recent: the number of the first.
        again: the groups of these that are to be given again, after a death.
        all_kept: of the last evaluation that kept them, each rank's outputs and targets.
        seconds_of_data: for which this rank has waited for batches.
        seconds_waited: for the others, before the present ranks were started.
    """

    def __init__(
        self,
        data: list[Any],
        start: Callable[[int], tuple[Setup, Ranks]],
        updates: int,
        max_restarts: int = 0,
        snapshots: bool | int = False,
        progress: Callable[[], Any] = dict,
        go_back: Callable[[Any], None] = lambda progress: None,
    ) -> None:
        self.data = data
        self.start = start
        self.restarts_left = max_restarts
        self.snapshots = snapshots
        self.progress = progress
        self.go_back = go_back
        self.counter = Counter()
        self.used: set[int] = set()
        self.options: Any = None
        self.memory: dict[int, Any] = {}
        self.depth = 0
        self.snapshot: Snapshot | None = None
        self.uncounted: tuple[Figures, int, int] | None = None
        self.has_written = False
        self.generation = 0
        self.again: list[Any] = []
        self.forget(0)
        self.all_kept: list[Any] = []
        self.seconds_of_data = self.seconds_waited = 0.0
        self.start_ranks(updates)

    @property
    def bytes_copied(self) -> int:
        return self.counter.nbytes + self.ranks.bytes_copied

    @property
    def waits(self) -> tuple[float, float]:
        """The seconds for which this rank has waited: for batches, for the other ranks."""
        return self.seconds_of_data, self.seconds_waited + self.ranks.seconds_waited

    # ---------------------------------------------------------------- passes
    def run_pass(
        self,
        data: Iterable[Any],
        training: bool,
        epoch: int,
        updates: int,
        *,
        start: int = 0,
        limit: int | None = None,
        figures: Figures | None = None,
        looks: Callable[[int], bool] | None = None,
        after: Callable[[int], bool] | None = None,
    ) -> Figures:
        """One pass over the data.

        Args:
            updates: how many there were before the pass.
            start: how many of the pass are done.
            limit: the number of batches, if not all.
            figures: of what is done.
            looks: whether `after` sees complete weights after an update, whose number it is given.
            after: called after each update, with its number; True ends the pass.

        Raises:
            PeerLostError, ProcessRaisedException: a rank has failed, and is not to be replaced.
            TornWeights: and the weights are torn.
        """
        this = Pass(*self.order_of(data, updates + start, limit), training, epoch, updates, start)
        figures = figures or Figures()
        if training:
            self.again = []
            self.forget(start // self.shape_of(this)[1])
        self.announce(this)
        groups = self.groups(this, data, limit)
        per_group = self.shape_of(this)[1]
        position, stops = start, False
        group = self.next_group(this, groups)
        is_new = True  # the group
        while True:
            generation, done, is_due, looked = self.generation, position, False, False
            self.former_buffers: list[Any] = []
            try:
                if group is None or stops:
                    self.end_pass()
                    if not training:
                        self.all_kept = self.end_evaluation()
                    break
                self.begin_update(this, group, is_new)
                if training:
                    self.uncounted = figures, position % per_group, updates + position + 1
                self.run_update(this, group.parts, position)
                if self.step.unread:
                    figures.add_unread(self.step.unread)
                    self.step.unread = []
                is_due = self.is_due(this)  # by the clock: only now
                looked = looks is not None and looks(updates + position + 1)
                if is_due or looked:
                    self.complete()
                done, is_new = position + 1, False
            except PeerLostError:
                self.ranks.is_lost = True  # if the gradients of GPUs were not reduced, too
                done = self.replace_ranks(this, position)
            if done < position:
                stops = False
                if not training:
                    figures.clear()
            if done > position and training:
                self.count_figures(updates + done)
                if after is not None:
                    watches = looked and self.size > 1
                    stops = self.watch(after, updates + done) if watches else after(updates + done)
                if is_due:
                    self.take_snapshot(updates + done)
                    self.forget(done // per_group, [group] if done % per_group else [])
            if self.generation != generation:
                this, is_new = this._replace(start=done), True
                self.announce(this)
                if this.order is not None or not training:
                    groups.close()
                    groups = self.groups(this, data, limit)
                else:
                    number = done // per_group - self.first_recent
                    self.again[:0] = self.recent[number:]
                    del self.recent[number:]
                group = self.next_group(this, groups)
            elif done > position and done % per_group == 0:
                group, is_new = self.next_group(this, groups), True
            position = done
        groups.close()
        if not training:
            figures.add(self.board, self.board.totals(), self.step.names)
        return figures

    def order_of(
        self, data: Iterable[Any], updates: int, limit: int | None
    ) -> tuple[int | None, Any, Any]:
        """How the ranks get their parts of this data: `Pass.number`, `dataset`, `order`."""
        if self.size == 1:
            return None, None, None
        number = next(i for i, each in enumerate(self.data) if each is data)
        if self.setup.samples[number] is not None:
            dataset = self.dataset_of(number, updates)
            samples = self.setup.samples[number]
            if samples is not None and (order := Order.draw(data)) is not None:
                return number, dataset, order if limit is None else order.first(limit)
        if isinstance(data, (list, tuple)):
            return number, None, [share(batch, self.counter) for batch in data[:limit]]
        return None, None, None

    def dataset_of(self, number: int, updates: int) -> Any:
        """What the other ranks need of a data set: None the first time, and if it does not change.
        One that cannot be sent, or is too large, is had by new processes.
        """
        samples = self.setup.samples[number]
        assert samples is not None
        is_known = number not in self.used or samples.is_persistent or self.ranks.spans_nodes
        self.used.add(number)
        if is_known:
            return None
        if not samples.can_be_sent():
            self.set_up_anew(updates)
            self.used.add(number)
            return None
        return samples.dataset

    def announce(self, this: Pass) -> None:
        while True:
            try:
                if self.depth:
                    self.meet(PASS)
                self.ranks.broadcast(self.without_known_batches(this))
                break
            except PeerLostError:
                self.replace_ranks()
        self.depth += 1
        self.options = None  # the others get them in the pass: callbacks may have changed counts
        self.begin_pass(this)

    def without_known_batches(self, this: Pass) -> Pass:
        """The pass as the other ranks get it: they keep lists of batches, whose memory they share,
        and sending one takes 6 us for each batch. Other nodes have copies, and get them again."""
        if not isinstance(this.order, list) or self.ranks.spans_nodes:
            return this
        assert this.number is not None
        former, self.memory[this.number] = self.memory.get(this.number), memory_of(this.order)
        is_known = former is not None and is_same(former, self.memory[this.number])
        return this._replace(order=SAME) if is_known else this

    def groups(
        self, this: Pass, data: Iterable[Any], limit: int | None
    ) -> Generator[Group, None, None]:
        """The groups of batches from `this.start` on."""
        if this.order is not None:
            yield from (Group(parts, None) for parts in self.own_groups(this))
            return
        accumulate, updates = self.shape_of(this)
        first = this.start // updates * accumulate
        is_list = isinstance(data, (list, tuple))  # nothing is drawn
        seed = seed_of(self.setup.seed, this.epoch)
        all_batches = data if is_list else seeded(data, seed)
        for batches in in_groups(islice(all_batches, first, limit), accumulate):
            if self.size == 1:
                yield Group([part_of(as_tensors(batch), 0, 1) for batch in batches], None)
            else:
                shared = [share(batch, self.counter) for batch in batches]
                parts = [part_of(batch, 0, self.size, self.least) for batch in shared]
                yield Group(parts, shared)

    def next_group(self, this: Pass, groups: Iterator[Any]) -> Any:
        """The next group, or None; keeps it if it may have to be given again."""
        began = time.perf_counter()
        group = self.again.pop(0) if this.training and self.again else next(groups, None)
        self.seconds_of_data += time.perf_counter() - began
        if group is not None and group.batches is not None and self.restarts_left and this.training:
            if self.snapshot is None:  # only this one may have to be given again
                self.forget(self.first_recent + len(self.recent))
            self.recent.append(group)
            sizes: list[int] = []
            apply(lambda x: sizes.append(x.array.nbytes), group.batches)
            self.recent_bytes += sum(sizes)
        return group

    def forget(self, first: int, present: list[Any] | None = None) -> None:
        """Forgets the groups before group `first`, which is the present one if it has begun."""
        self.recent, self.first_recent, self.recent_bytes = present or [], first, 0

    def begin_update(self, this: Pass, group: Group, is_new: bool) -> None:
        """Meets the other ranks, and hands over the group if they do not have it."""
        if self.size == 1:
            return
        if self.restarts_left and this.training:
            self.former_buffers = [x.array.copy() for x in self.setup.buffers]
        options = options_of(self)
        has_new = options != self.options or self.has_written
        self.meet(OPTIONS if has_new else STEP)
        if has_new:
            self.ranks.broadcast((options, self.counts(), self.has_written))
            if self.has_written:
                self.copy_to_nodes()
            self.options, self.has_written = options, False
        if group.batches is not None and is_new:
            self.ranks.broadcast(group.batches)

    def watch(self, after: Callable[[int], bool], updates: int) -> bool:
        """Calls `after`, which sees complete weights; notes whether it has written what the others
        have copies of: the counts of steps, on other nodes also weights and state. Versions do not
        say it: `p.data.mul_` leaves them as they are.

        Copies: one of these.
        """
        arrays = self.counts() + (self.arrays() if self.ranks.spans_nodes else [])
        before = [x.copy() for x in arrays]
        stops = after(updates)
        if not all(map(np.array_equal, arrays, before)):
            self.options, self.has_written = None, self.ranks.spans_nodes
        return stops

    def count_figures(self, updates: int) -> None:
        """Adds the figures of the present update, once, if it is complete: if that was its number.
        The run may end in it, and go on with the next one in another `fit`.
        """
        if self.uncounted is not None and self.uncounted[2] == updates:
            (figures, index, _), self.uncounted = self.uncounted, None
            if not self.step.is_skipped:
                figures.add(self.board, self.step.totals, self.step.names, index)

    def end_pass(self) -> None:
        """Ends a pass on the other ranks."""
        self.meet(END)
        self.depth -= 1

    def complete(self) -> None:
        """Returns when all ranks have updated their shards. They wait for the next meeting."""
        self.meet(AGAIN)

    def stop(self, message: Any) -> None:
        """Ends the passes in which the other ranks are, and the run there."""
        try:
            while self.depth:
                self.end_pass()
            self.ranks.broadcast(message)
            self.copy_to_nodes()
        except PeerLostError:
            self.count_restart(self.failure()[1])

    # ---------------------------------------------------------------- new ranks
    def sign(self) -> Any:
        """What the ranks were set up for: it changes if the program replaces an optimizer; if there
        are several ranks, also if it replaces parameters or state, adds a group, sets an option
        that needs more state, or registers a hook; on GPUs also if it freezes parameters."""
        if self.size == 1:
            return list(self.setup.optimizers)
        on_gpus = self.setup.shared is None
        return [
            (
                each,
                is_flat(each)
                and (
                    each._is_state_replaced(),
                    [(id(flat), each._names(flat.group)) for flat in each._flats],
                ),
                [len(group["params"]) for group in each.param_groups],
                [(id(p), id(p.array), on_gpus and p.requires_grad) for p in parameters_of(each)],
            )
            for each in self.setup.optimizers
        ]

    def check_setup(self, updates: int) -> None:
        """Sets the ranks up anew if the program has changed what they need."""
        if self.sign() != self.signature:
            self.set_up_anew(updates)
            self.snapshot = None
            self.take_snapshot(updates)

    def set_up_anew(self, updates: int) -> None:
        """Starts other ranks, between two updates. The snapshot stays: the arrays are the same."""
        self.stop(None)
        self.used = set()
        self.start_ranks(updates)

    def start_ranks(self, updates: int) -> None:
        if self.generation:
            self.counter.nbytes += self.ranks.bytes_copied
            self.seconds_waited += self.ranks.seconds_waited
            self.ranks.close()
            self.close()
        while True:
            try:
                setup, ranks = self.start(updates)
                try:
                    self.join(setup, ranks)
                except BaseException as error:
                    ranks.close(error)
                    raise
                break
            except PeerLostError as error:
                self.count_restart(error)
        self.options, self.memory, self.depth = None, {}, 0
        self.generation += 1
        self.signature = self.sign()

    def replace_ranks(self, this: Pass | None = None, position: int = 0) -> int:
        """After a rank's death: starts the ranks again, or raises the error; returns how many
        updates of the pass are done.

        Args:
            this, position: the pass in which it died, and where; None: between two.
        """
        updates, error = self.failure()
        done = updates - this.updates if this is not None and this.training else 0
        self.count_restart(error)
        self.start_ranks(updates)
        if done == position and this is not None and this.training:  # the update is made again
            for buffer, copy in zip(self.setup.buffers, self.former_buffers, strict=False):
                buffer.array[...] = copy
        return done

    def count_restart(self, error: Exception) -> None:
        """Warns of a death, or raises the error if the run must not go on."""
        if not isinstance(error, PeerLostError) or not self.restarts_left:
            raise error from None
        self.restarts_left -= 1
        warnings.warn(
            f"{error}; started again, {self.restarts_left} restarts left",
            RuntimeWarning,
            stacklevel=2,
        )

    def failure(self) -> tuple[int, Exception]:
        """After a rank's failure: the updates that the weights have now, and the error. In a
        process group raises it."""
        ranks = self.ranks
        ranks.is_lost = False  # explained by the error
        if ranks.children is None:
            if self.board.complete_step() is None:
                raise TornWeights(
                    "Trainer: a rank died in the middle of an update, and the weights are torn: "
                    "load a checkpoint"
                )
            raise
        first = ranks.wait_for_end()
        try:
            updates, state = self.recover()
        except TornWeights as torn:
            raise TornWeights(f"{ranks.error(first)}; {torn}") from None
        return updates, ranks.error(first, state)

    # ---------------------------------------------------------------- the weights' state
    def is_due(self, this: Pass) -> bool:
        """Whether a snapshot is to be taken after this update of a training pass."""
        snapshot = self.snapshot
        if snapshot is None or not this.training:
            return False
        if self.recent_bytes > REPLAY:
            return True
        if self.snapshots is True:
            return time.perf_counter() > snapshot.due
        steps = (self.board.read()[0] // 2 - snapshot.updates) / len(self.weights)
        return steps >= self.snapshots

    def take_snapshot(self, updates: int) -> None:
        """Copies weights, state and progress, so that they can be restored where a death leaves
        weights torn."""
        if not self.snapshots or not self.sharded():
            return
        began = time.perf_counter()
        if self.snapshot is None:
            buffers = [x.array for x in self.setup.buffers]
            self.snapshot = Snapshot([*self.arrays(), *self.counts(), *buffers])
        states = [each.state_dict() for each in self.not_sharded()]
        self.snapshot.take(updates, deepcopy((options_of(self), states, self.progress())))
        now = time.perf_counter()
        self.snapshot.due = now + SHARE * (now - began)

    def not_sharded(self) -> list[Any]:
        """The optimizers that rank 0 steps alone."""
        return [each.optimizer for each in self.weights if not isinstance(each, Sharded)]

    @interrupts_deferred
    def recover(self) -> tuple[int, str]:
        """When no other rank runs any more: makes the weights complete. Returns the number of their
        updates, and a text.

        A word that is behind another one, and even, is of a shard whose update had not begun,
        though all gradients were complete: then this rank updates the shard.

        Raises:
            TornWeights: a rank died in the middle of its update, and there is no snapshot.
        """
        board, words = self.board, self.board.read()
        last = max(words)
        weights = self.weights[self.step.index]
        if not isinstance(weights, Sharded):  # rank 0 alone has written
            self.count_figures(words[0] // 2)
            return words[0] // 2, f"weights are whole at {self.step_of(words[0])}"
        if not any(word % 2 for word in words):
            if words[0] < last:
                self.step.update(has_met=True)
            for rank in range(1, self.size):
                if words[rank] < last:
                    board.begin_update(rank)
                    weights.update_shard(rank)
                    board.end_update(rank)
            self.count_figures(last // 2)
            return last // 2, f"weights are whole at {self.step_of(last)}"
        steps = " and ".join(str(word // 2 // len(self.weights)) for word in (min(words), last + 1))
        torn = f"torn between steps {steps}"
        if self.snapshot is None:
            raise TornWeights(f"weights are {torn}, and snapshots are off: load a checkpoint")
        if self.sign() != self.signature:
            raise TornWeights(
                f"weights are {torn}, and the optimizer has changed since the snapshot: load a "
                "checkpoint"
            )
        options, states, progress = self.snapshot.restore()
        for optimizer, state in zip(self.not_sharded(), states, strict=True):
            optimizer.load_state_dict(state)
        set_options(self, options)
        self.go_back(progress)
        updates = self.snapshot.updates
        board.start(updates)
        step = self.step_of(2 * updates)
        return updates, f"weights were {torn} and are those of the snapshot at {step}"

    def step_of(self, word: int) -> str:
        return f"step {word // 2 // len(self.weights)}"
