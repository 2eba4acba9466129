"""Run: one `fit` on one rank. Rank 0 leads (`Lead`), the other ranks follow (`serve`).

Note [Meetings] The ranks meet, in a barrier, before each step and at the end of a pass. Before it,
rank 0 writes on the board what follows. So whatever it does between two steps, the others wait; and
once it has met them, the weights are complete.

| signal | what follows |
|---|---|
| STEP | a step |
| OPTIONS | what rank 0 has changed between steps, then the step |
| AGAIN | another meeting: rank 0 looks at complete weights meanwhile |
| END | the end of the pass |
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

from ..device import Device
from ..errors import PeerLostError, TornWeights
from ..nn import Module
from ..random import manual_seed
from .batches import Counter, Order, Samples, as_tensors, own_samples, part_of, share
from .gradients import Gradients, parts_of
from .nodes import NodeRanks, weights_on_nodes
from .progress_board import Figures
from .rank_step import Precision, RankStep, seed_of
from .ranks import Ranks
from .weights import ByRankZero, OneProcess, Sharded, Snapshot, is_flat

STEP, OPTIONS, AGAIN, END = range(4)


class Setup(NamedTuple):
    """What the ranks train with; a child gets it from rank 0.

    Attributes:
        board: the array of the board.
        device: where the model is to be trained; without an index: each rank has another GPU.
        samples: of each data set of the run, if each rank loads its own.
        is_sharded: each rank updates a shard.
        shared: the optimizer's flats, if so.
        rows, has_gradient: the arrays of the gradients, if the ranks share weights.
    """

    model: Module
    loss: Any
    optimizer: Any
    precision: Precision
    seed: int
    board: Any
    device: Device
    samples: list[Samples | None]
    is_sharded: bool = False
    shared: Any = None
    rows: Any = None
    has_gradient: Any = None


class Pass(NamedTuple):
    """A pass over data, as rank 0 announces it.

    Attributes:
        number: of the data set, in `Setup.samples`, of which each rank loads its samples; or None.
        dataset: as it is now, if the program may have changed it since the last pass; or None.
        order: an Order of these samples, or a list of batches; None: rank 0 hands over each batch.
        step: the number of steps before.
        start: the first batch.
    """

    number: int | None
    dataset: Any
    order: Any
    training: bool
    epoch: int
    step: int
    start: int


class Member:
    """One rank's part of a run."""

    def __init__(self, setup: Setup, ranks: Ranks) -> None:
        self.join(setup, ranks)

    def join(self, setup: Setup, ranks: Ranks) -> None:
        """Becomes a member of these ranks."""
        self.setup = setup
        self.ranks = ranks
        self.rank, self.size = ranks.rank, ranks.size
        self.board = ranks.make_board(setup)
        self.meetings = 0
        self.loaders: dict[int, Any] = {}  # this rank's, by the number of the data set
        self.buffers: list[tuple[Any, Any]] = []  # rank 0's, and this rank's copy
        device = setup.device
        if self.size > 1 and device.type == "cuda":
            from .gpu_ranks import gpu_of_rank, use_gpu

            device = gpu_of_rank(device, self.rank)
            use_gpu(device)
            setup.model.to(device)
        self.weights = self.make_weights()
        self.step = RankStep(
            setup.model, setup.loss, self.weights, self.board, ranks.barrier, self.rank, self.size,
            device, setup.precision,
        )  # fmt: skip
        if self.rank and setup.rows is not None:
            for buffer in setup.model.buffers():
                shared = buffer.array
                buffer.array = shared.copy()
                self.buffers.append((shared, buffer.array))

    def make_weights(self) -> Any:
        """How this rank updates the weights."""
        setup, scaler = self.setup, self.setup.precision.scaler
        if self.size == 1:
            return OneProcess(setup.optimizer, scaler)
        if setup.device.type == "cuda":
            from .gpu_ranks import Replicated, group_on_gpus

            assert self.ranks.group is not None
            group = group_on_gpus(self.ranks.group, setup.device)
            return Replicated(setup.optimizer, scaler, group)
        parts = parts_of(setup.optimizer)
        ranks = self.ranks
        gradients = Gradients(parts, setup.rows, setup.has_gradient, ranks.local_rank)
        if isinstance(ranks, NodeRanks):
            return weights_on_nodes(setup, gradients, ranks)
        if setup.is_sharded:
            shared = setup.shared if self.rank else None
            return Sharded(setup.optimizer, gradients, self.size, shared)
        return ByRankZero(setup.optimizer, scaler, gradients)

    def meet(self, signal: int = STEP) -> int:
        """Meets the other ranks; returns rank 0's signal."""
        place = self.meetings % 2
        self.meetings += 1
        if self.rank == 0:
            self.board.signals[place] = signal
        self.ranks.barrier()
        return int(self.board.signals[place])

    def begin_pass(self, training: bool, number: int) -> None:
        setup = self.setup
        self.board.clear_figures(self.rank)
        manual_seed(seed_of(setup.seed, number, self.rank))
        setup.model.train(training)
        if training or self.size == 1:
            return
        if setup.device.type == "cuda":
            from .gpu_ranks import refresh_buffers

            refresh_buffers(setup.model, self.weights.group)
        self.refresh_buffers()
        for shared, copy in self.buffers:
            copy[...] = shared

    def refresh_buffers(self) -> None:
        """Copies rank 0's buffers to the other nodes."""
        own = [] if self.rank else [x.array for x in self.setup.model.buffers()]
        self.ranks.copy_from_rank_zero(own or [shared for shared, _ in self.buffers])

    def parts(self, this: Pass) -> Iterator[tuple[Any, int, int]]:
        """This rank's part of each batch that it has or loads: the number of its samples, and of
        the batch's."""
        if isinstance(this.order, list):
            for batch in this.order[this.start :]:
                yield part_of(batch, self.rank, self.size)
        elif this.number is not None:
            own = self.own_loader(this.number, this.dataset if self.rank else None)
            yield from own_samples(own, this.order, self.rank, self.size, this.start)

    def own_loader(self, number: int, dataset: Any) -> Any:
        """This rank's loader of its samples, of another data set if that is not None."""
        if number in self.loaders and dataset is not None:
            self.loaders.pop(number)[0].close()
        if number not in self.loaders:
            samples = self.setup.samples[number]
            assert samples is not None
            if dataset is not None:
                samples = samples._replace(dataset=dataset)
            self.loaders[number] = samples.loader(self.ranks.local_rank, self.ranks.local_size)
        return self.loaders[number]

    def run_step(self, this: Pass, part: Any, n: int, total: int, number: int) -> None:
        if this.training:
            self.step.train(part, n, total, seed_of(self.setup.seed, number, self.rank))
        else:
            self.step.evaluate(part, n)

    def close(self) -> None:
        for loader, _ in self.loaders.values():
            loader.close()
        self.loaders = {}


# ---------------------------------------------------------------- the other ranks
def serve(ranks: Ranks, setup: Setup) -> Any:
    """Another rank's part of a run: follows rank 0 until it stops; returns what comes with that."""
    member = Member(setup, ranks)
    try:
        while True:
            message = ranks.broadcast()
            if not isinstance(message, Pass):
                member.refresh_buffers()
                return message
            follow(member, message)
    finally:
        member.close()


def follow(member: Member, this: Pass) -> None:
    """One pass."""
    member.begin_pass(this.training, this.epoch)
    parts = member.parts(this)
    number, is_handed_over = this.step + this.start, this.order is None
    item = next(parts, None)
    while (signal := member.meet()) != END:
        if signal == AGAIN:
            continue
        if signal == OPTIONS:
            set_options(member, member.ranks.broadcast())
        if is_handed_over:
            item = part_of(member.ranks.broadcast(), member.rank, member.size)
        assert item is not None
        member.run_step(this, *item, number)
        number += 1
        item = next(parts, None)


def options_of(member: Member) -> Any:
    """What the other ranks need of rank 0's optimizer and scaler in each step."""
    setup = member.setup
    if isinstance(member.weights, ByRankZero):
        scaler = setup.precision.scaler
        return None if scaler is None else scaler.state_dict()
    return [
        {k: v for k, v in group.items() if k != "params"} for group in setup.optimizer.param_groups
    ]


def set_options(member: Member, options: Any) -> None:
    if isinstance(member.weights, ByRankZero):
        member.setup.precision.scaler.load_state_dict(options)
    else:
        for group, values in zip(member.setup.optimizer.param_groups, options, strict=True):
            group.update(values)


# ---------------------------------------------------------------- rank 0
class Lead(Member):
    """Rank 0's part of a run.

    Args:
        data: the data sets of the run.
        start: `start(step)` returns the setup of the model as it is, complete at that step, and
            the ranks.
        step: the number of steps before.
        max_restarts: how many times ranks are started again after a death.

    Attributes:
        options: that the other ranks have.
        used: the numbers of the data sets that they have used.
        former_buffers: the model's buffers before the present step.
    """

    options: Any
    used: set[int]

    def __init__(
        self,
        data: list[Any],
        start: Callable[[int], tuple[Setup, Ranks]],
        step: int,
        max_restarts: int = 0,
    ) -> None:
        self.data = data
        self.start = start
        self.restarts_left = max_restarts
        self.counter = Counter()
        self.snapshot: Snapshot | None = None
        self.former_buffers: list[Any] = []
        self.start_ranks(step)

    @property
    def bytes_copied(self) -> int:
        return self.counter.nbytes + self.ranks.bytes_copied

    # ---------------------------------------------------------------- passes
    def run_pass(
        self,
        data: Iterable[Any],
        training: bool,
        epoch: int,
        step: int,
        after_step: Callable[[int], None] | None = None,
        on_step: Callable[[int], None] | None = None,
    ) -> Figures:
        """One pass over the data.

        Args:
            step: the number of steps before.
            after_step: called after each training step, with its number.
            on_step: the same, with complete weights.

        Raises:
            PeerLostError, ProcessRaisedException: a rank has failed, and is not to be replaced.
            TornWeights: and the weights are torn.
        """
        this = Pass(*self.order_of(data, step), training, epoch, step, 0)
        self.announce(this)
        items = self.items(this, data)
        figures, position, item = Figures(), 0, next(items, None)
        while True:
            is_new = False  # the ranks
            try:
                if item is None:
                    self.end_pass()
                    break
                part = self.begin_step(this, item)
                self.run_step(this, *part, step + position)
                if on_step is not None:
                    self.complete()
                done = position + 1
            except PeerLostError:
                self.ranks.is_lost = True  # if the gradients of GPUs were not reduced, too
                done, is_new = self.replace_ranks(this, position), True
                if done == position and training and item is not None:  # the step is made again
                    self.restore_buffers()
            if done < position:
                figures = Figures()
            elif done > position and training:
                figures.add(self.board)
            if is_new:
                this = this._replace(start=done)
                self.announce(this)
            if done > position and after_step is not None:
                after_step(step + done)
            if done > position and on_step is not None:
                on_step(step + done)
                if self.size > 1 and self.sign() != self.signature:
                    self.end_pass()
                    self.set_up_anew(step + done)
                    this, is_new = this._replace(start=done), True
                    self.announce(this)
            if is_new and this.order is not None:
                items.close()
                items = self.items(this, data)
            if done > position or this.order is not None:
                item = next(items, None)
            position = done
        if not training:
            figures.add(self.board)
        return figures

    def order_of(self, data: Iterable[Any], step: int) -> tuple[int | None, Any, Any]:
        """How the ranks get their parts of this data: `Pass.number`, `dataset`, `order`."""
        if self.size == 1:
            return None, None, None
        for number, each in enumerate(self.data):
            if each is data and self.setup.samples[number] is not None:
                dataset = self.dataset_of(number, step)
                samples = self.setup.samples[number]
                if samples is not None and (order := Order.draw(data)) is not None:
                    return number, dataset, order
        if isinstance(data, (list, tuple)):
            return None, None, [share(batch, self.counter) for batch in data]
        return None, None, None

    def dataset_of(self, number: int, step: int) -> Any:
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
            self.set_up_anew(step)
            self.used.add(number)
            return None
        return samples.dataset

    def announce(self, this: Pass) -> None:
        while True:
            try:
                self.ranks.broadcast(this)
                break
            except PeerLostError:
                self.replace_ranks()
        self.begin_pass(this.training, this.epoch)

    def items(self, this: Pass, data: Iterable[Any]) -> Generator[tuple[Any, int, int], None, None]:
        """This rank's part of each batch, or the whole batch if it is to be handed over."""
        if this.order is not None:
            yield from self.parts(this)
            return
        for batch in data:
            if self.size > 1:
                yield share(batch, self.counter), 0, 0
            else:
                yield part_of(as_tensors(batch), 0, 1)

    def begin_step(self, this: Pass, item: tuple[Any, int, int]) -> tuple[Any, int, int]:
        """Meets the other ranks, and hands over the batch; returns this rank's part."""
        if self.size == 1:
            return item
        if self.restarts_left and this.training:
            self.former_buffers = [x.array.copy() for x in self.setup.model.buffers()]
        options = options_of(self)
        has_new = options != self.options
        self.meet(OPTIONS if has_new else STEP)
        if has_new:
            self.ranks.broadcast(options)
            self.options = options
        if this.order is not None:
            return item
        return part_of(self.ranks.broadcast(item[0]), 0, self.size)

    def end_pass(self) -> None:
        if self.size > 1:
            self.meet(END)

    def complete(self) -> None:
        """Returns when all ranks have updated their shards. They wait for the next meeting."""
        if self.size > 1:
            self.meet(AGAIN)

    def stop(self, message: Any) -> None:
        """Ends the run on the other ranks, between two passes."""
        try:
            self.ranks.broadcast(message)
            self.refresh_buffers()
        except PeerLostError:
            self.count_restart(self.failure()[1])

    # ---------------------------------------------------------------- new ranks
    def sign(self) -> Any:
        """What the ranks were set up for: it changes if the program replaces or freezes parameters,
        adds a group, or registers a hook of the optimizer."""
        optimizer = self.setup.optimizer
        return is_flat(optimizer), [
            [(id(p), id(p.array), p.requires_grad) for p in group["params"]]
            for group in optimizer.param_groups
        ]

    def check_setup(self, step: int) -> None:
        """Between two passes: sets the ranks up anew if the program has changed what they need."""
        if self.size > 1 and self.sign() != self.signature:
            self.set_up_anew(step)

    def set_up_anew(self, step: int) -> None:
        self.stop(None)
        self.ranks.close()
        self.close()
        self.start_ranks(step)
        if self.snapshot is not None:
            self.snapshot = None
            self.take_snapshot(step)

    def start_ranks(self, step: int) -> None:
        while True:
            try:
                self.join(*self.start(step))
                break
            except PeerLostError as error:
                self.count_restart(error)
        self.options, self.used = None, set()
        self.signature = self.sign()

    def replace_ranks(self, this: Pass | None = None, position: int = 0) -> int:
        """After a rank's death: starts the ranks again, or raises the error; returns how many
        batches of the pass are done.

        Args:
            this, position: the pass in which it died, and where; None: between two.
        """
        step, error = self.failure()
        done = 0
        if this is not None:
            done = step - this.step if this.training else 0
            if this.order is None and done < position:  # these batches are gone
                raise error from None
        self.count_restart(error)
        self.ranks.close()
        self.close()
        self.start_ranks(step)
        return done

    def restore_buffers(self) -> None:
        for buffer, copy in zip(self.setup.model.buffers(), self.former_buffers, strict=True):
            buffer.array[...] = copy

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
        """After a rank's failure: the step at which the weights are complete now, and the error. In
        a process group raises it."""
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
            step, state = self.recover()
        except TornWeights as torn:
            raise TornWeights(f"{ranks.error(first)}; {torn}") from None
        return step, ranks.error(first, state)

    # ---------------------------------------------------------------- the weights' state
    def take_snapshot(self, step: int) -> None:
        """Copies weights and state, so that they can be restored where a death leaves them torn."""
        if self.snapshot is not None:
            self.snapshot.take(step)
        elif isinstance(self.weights, Sharded):
            buffers = [x.array for x in self.setup.model.buffers()]
            self.snapshot = Snapshot(step, self.weights, buffers)

    def recover(self) -> tuple[int, str]:
        """When no other rank runs any more: makes the weights complete. Returns their step, and a
        text.

        A word that is behind another one, and even, is of a shard whose update had not begun,
        though all gradients were complete: then this rank updates the shard.

        Raises:
            TornWeights: a rank died in the middle of its update, and there is no snapshot.
        """
        board, words = self.board, self.board.read()
        last = max(words)
        if not isinstance(self.weights, Sharded):  # rank 0 alone has written
            return words[0] // 2, f"weights are whole at step {words[0] // 2}"
        if not any(word % 2 for word in words):
            if words[0] < last:
                self.step.update()
            for rank in range(1, self.size):
                if words[rank] < last:
                    board.begin_update(rank)
                    self.weights.update_shard(rank)
                    board.end_update(rank)
            return last // 2, f"weights are whole at step {last // 2}"
        torn = f"torn between steps {min(words) // 2} and {(last + 1) // 2}"
        if self.snapshot is None:
            raise TornWeights(f"weights are {torn}, and snapshots are off: load a checkpoint")
        step = self.snapshot.restore()
        board.start(step)
        return step, f"weights were {torn} and are those of the snapshot at step {step}"
