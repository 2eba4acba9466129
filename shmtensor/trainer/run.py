"""Run: one `fit` on one rank. Rank 0 leads (lead.py), the other ranks follow (`serve`).

Note [Meetings] The ranks meet, in a barrier, before each update and at the end of a pass. Before
it, rank 0 writes on the board what follows. So whatever it does between two updates, the others
wait; and once it has met them, the weights are complete.

| signal | what follows |
|---|---|
| STEP | an update |
| OPTIONS | what rank 0 has changed between steps: options, on nodes weights; then the update |
| AGAIN | another meeting: rank 0 looks at complete weights meanwhile |
| PASS | another pass, of an evaluation, and then the next meeting of this one |
| END | the end of the pass |

Note [Updates] A pass is counted in updates: each step has one for each optimizer, over the same
group of batches (one, or several whose gradients are accumulated).
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from ..dataloaders.loader.seeding import seed_everything
from .batches import in_groups, own_samples, part_of
from .gradients import Gradients, parameters_of, parts_of
from .history import Figures
from .nodes import NodeRanks, weights_on_nodes
from .plan import seed_of
from .rank_step import RankStep
from .ranks import Ranks
from .setup import Setup
from .sync_batchnorm import SyncedBatchNorms
from .weights import ByRankZero, OneProcess, Sharded

STEP, OPTIONS, AGAIN, PASS, END = range(5)
SAME = "same"
REQUIRES_GRAD = attrgetter("requires_grad")


class Pass(NamedTuple):
    """A pass over data, as rank 0 announces it.

    Attributes:
        number: of the data set, in `Setup.samples`, unless rank 0 hands over each group.
        dataset: as it is now, if the program may have changed it since the last pass; or None.
        order: an Order of these samples; a list of batches; SAME: the list of the last pass over
            this data; None: rank 0 hands over each group.
        training: or an evaluation.
        epoch: its number, from 1, for random numbers.
        updates: how many there were before the pass.
        start: the first update of the pass: those before it are done.
    """

    number: int | None
    dataset: Any
    order: Any
    training: bool
    epoch: int
    updates: int
    start: int


class Member:
    """One rank's part of a run.

    Attributes:
        setup, ranks, board, step: of the present ranks; rank, size: this rank's number, and theirs.
        weights: for each optimizer, how this rank updates it (weights.py).
        optimizers: those that every rank steps.
        meetings: how many there were.
        loaders: of this rank's samples, by the number of the data set.
        lists: of batches, by the same.
        buffers: rank 0's and this rank's copy of each; of rank 0 none.
        least: the fewest samples of a batch that a rank gets, if it gets any.
    """

    def __init__(self, setup: Setup, ranks: Ranks) -> None:
        self.join(setup, ranks)

    def join(self, setup: Setup, ranks: Ranks) -> None:
        """Becomes a member of these ranks."""
        self.setup = setup
        self.ranks = ranks
        self.rank, self.size = ranks.rank, ranks.size
        self.parameters = parameters_of(*setup.optimizers)
        self.board = ranks.make_board(setup)
        self.meetings = 0
        self.loaders: dict[int, Any] = {}
        self.lists: dict[int, list[Any]] = {}
        self.buffers: list[tuple[Any, Any]] = []
        device = setup.device
        if self.size > 1 and device.type == "cuda":
            from .cuda_ranks import gpu_of_rank, use_gpu

            device = gpu_of_rank(device, self.rank)
            use_gpu(device)
            setup.model.to(device)
        self.weights = [self.make_weights(i) for i in range(len(setup.optimizers))]
        self.optimizers = [w.optimizer for w in self.weights if not isinstance(w, ByRankZero)]
        batch_norms = None
        if setup.sync_batchnorm and ranks.group is not None:
            group = getattr(self.weights[0], "group", ranks.group)
            batch_norms = SyncedBatchNorms(setup.model, group)
        self.step = RankStep(setup, ranks, self.board, self.weights, device, batch_norms)
        self.least = 1 if setup.sync_batchnorm else 2
        if self.rank and setup.shared is not None:
            for buffer in setup.buffers:
                shared = buffer.array
                buffer.array = shared.copy()
                self.buffers.append((shared, buffer.array))

    def make_weights(self, i: int) -> Any:
        """How this rank updates the weights of an optimizer."""
        setup, scaler = self.setup, self.setup.precision.scaler
        optimizer, clip = setup.optimizers[i], setup.clip
        if self.size == 1:
            return OneProcess(optimizer, scaler, clip)
        if setup.device.type == "cuda":
            from .cuda_ranks import Replicated, group_on_gpus

            assert self.ranks.group is not None
            group = group_on_gpus(self.ranks.group, setup.device)
            return Replicated(optimizer, scaler, group, clip)
        assert setup.shared is not None
        shared = setup.shared[i]
        ranks, parts = self.ranks, parts_of(optimizer)
        gradients = Gradients(parts, shared.rows, shared.has_gradient, ranks.local_rank)
        if isinstance(ranks, NodeRanks):
            return weights_on_nodes(optimizer, scaler, shared, gradients, clip, ranks)
        if shared.is_sharded:
            return Sharded(
                optimizer, gradients, self.size, shared.flats if self.rank else None, clip
            )
        return ByRankZero(optimizer, scaler, gradients, clip)

    def meet(self, signal: int = STEP) -> int:
        """Meets the other ranks; returns rank 0's signal."""
        place = self.meetings % 2
        self.meetings += 1
        if self.rank == 0:
            self.board.signals[place] = signal
        self.ranks.barrier()
        return int(self.board.signals[place])

    def begin_pass(self, this: Pass) -> None:
        self.board.clear_figures(self.rank)
        self.step.names, self.step.kept, self.step.evaluated = [], [], Figures()
        seed_everything(seed_of(self.setup.seed, this.epoch, self.rank))
        self.set_mode(this.training)

    def set_mode(self, training: bool) -> None:
        """Before a pass, and before the rest of one: rank 0's buffers evaluate, and on GPUs its
        weights, which may be averages meanwhile."""
        setup = self.setup
        setup.model.train(training)
        if self.size > 1 and setup.device.type == "cuda" and (setup.has_averages or not training):
            from .cuda_ranks import refresh

            refresh(setup.model, self.weights[0].group, setup.has_averages)
        self.copy_to_nodes()
        if not training:
            for shared, copy in self.buffers:
                copy[...] = shared

    def copy_to_nodes(self) -> None:
        """Copies rank 0's buffers, weights and state to the other nodes: callbacks may write
        them."""
        model = self.setup.model
        arrays = [shared for shared, _ in self.buffers] or [x.array for x in model.buffers()]
        self.ranks.copy_to_nodes([*arrays, *self.arrays()])

    def arrays(self) -> list[Any]:
        """The weights, and the state that the ranks of a machine share."""
        state = [x for each in self.sharded() for x in each.state()]
        weights = {id(p): p.array for p in (*self.setup.model.parameters(), *self.parameters)}
        return [*weights.values(), *state]

    def counts(self) -> list[Any]:
        """Of the optimizers' steps, which each rank counts."""
        return [x for each in self.sharded() for x in each.counts()]

    def sharded(self) -> list[Sharded]:
        """How optimizers are updated by all ranks."""
        return [each for each in self.weights if isinstance(each, Sharded)]

    def shape_of(self, this: Pass) -> tuple[int, int]:
        """How many batches make a group, and how many updates a group has."""
        return (self.setup.accumulate, len(self.weights)) if this.training else (1, 1)

    def own_groups(self, this: Pass) -> Iterator[list[Any]]:
        """Of each group of batches that this rank has or loads its part: of each batch the samples,
        their number, and the number of the batch's."""
        accumulate, updates = self.shape_of(this)
        first = this.start // updates * accumulate
        parts: Iterator[Any]
        assert this.number is not None
        order = self.lists[this.number] if this.order == SAME else this.order
        if isinstance(order, list):
            self.lists[this.number] = order
            parts = (part_of(batch, self.rank, self.size, self.least) for batch in order[first:])
        else:
            own = self.own_loader(this.number, this.dataset if self.rank else None)
            parts = own_samples(own, this.order, self.rank, self.size, first, self.least)
        return in_groups(parts, accumulate)

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

    def run_update(self, this: Pass, group: list[Any], update: int) -> None:
        """One update of a pass, or the evaluation of a batch."""
        if this.training:
            optimizers, number = len(self.weights), this.updates + update
            seed = seed_of(self.setup.seed, number, self.rank)
            self.step.train(group, seed, number // optimizers, number % optimizers)
        else:
            for part, n, _ in group:
                self.step.evaluate(part, n)

    def end_evaluation(self) -> list[Any]:
        """Returns when all figures are on the board; on rank 0 what the ranks have kept."""
        if self.setup.device.type == "cuda":
            self.step.evaluated.read()
            self.board.figures[self.rank] += self.step.evaluated.sums
            self.ranks.barrier()
        return self.ranks.gather(self.step.kept) if self.setup.keeps_outputs else []

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
                member.copy_to_nodes()
                return message
            follow(member, message)
    finally:
        member.close()


def follow(member: Member, this: Pass) -> None:
    """One pass on another rank: does what rank 0's signals say, until END."""
    member.begin_pass(this)
    is_handed_over = this.order is None
    groups = iter(()) if is_handed_over else member.own_groups(this)
    _, updates = member.shape_of(this)
    update, group = this.start, next(groups, None)
    while (signal := member.meet()) != END:
        if signal == AGAIN:
            continue
        if signal == PASS:
            follow(member, member.ranks.broadcast())
            member.set_mode(this.training)
            continue
        if signal == OPTIONS:
            options, counts, has_written = member.ranks.broadcast()
            set_options(member, options)
            for x, values in zip(member.counts(), counts, strict=True):
                x[...] = values
            if has_written:
                member.copy_to_nodes()
        if is_handed_over and (group is None or update % updates == 0):
            batches = member.ranks.broadcast()
            group = [part_of(batch, member.rank, member.size, member.least) for batch in batches]
        assert group is not None
        member.run_update(this, group, update)
        update += 1
        if update % updates == 0:
            group = next(groups, None)
    if not this.training:
        member.end_evaluation()


def options_of(member: Member) -> Any:
    """What the other ranks need of rank 0's optimizers, scaler and parameters in each step."""
    scaler, setup = None, member.setup
    if setup.shared is not None and setup.precision.scaler is not None:
        scaler = setup.precision.scaler.state_dict()
    groups = [{**group, "params": None} for group in groups_of(member)]
    return scaler, groups, list(map(REQUIRES_GRAD, member.parameters))


def groups_of(member: Member) -> list[Any]:
    """The groups of the optimizers that every rank steps."""
    return [group for each in member.optimizers for group in each.param_groups]


def set_options(member: Member, options: Any) -> None:
    scaler, new_groups, flags = options
    if scaler is not None:
        member.setup.precision.scaler.load_state_dict(scaler)
    for group, values in zip(groups_of(member), new_groups, strict=True):
        group.update({**values, "params": group["params"]})
    for p, requires_grad in zip(member.parameters, flags, strict=True):
        if p.requires_grad != requires_grad:
            p.requires_grad_(requires_grad)
