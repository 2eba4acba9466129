"""Setup: what the ranks train with; how rank 0 makes it and starts the others, or hands it to the
other ranks of a process group.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import distributed
from ..device import CPU, Device
from ..distributed.group.init_process_group import is_launched
from ..distributed.group.process_group import ProcessGroup
from ..nn import Module
from ..tensor.share_memory import move_to_shared_memory
from .batch_loss import Precision, Steps
from .batches import Samples
from .callbacks.averaged_weights import AveragedWeights
from .gradients import Gradients, parameters_of, parts_of
from .nodes import ranks_of
from .progress_board import ProgressBoard
from .ranks import Ranks
from .sync_batchnorm import batch_norms
from .weights import Clip, Sharded, SharedFlat, is_flat


class SharedOptimizer(NamedTuple):
    """What several ranks share of an optimizer.

    Attributes:
        is_sharded: each rank updates a shard.
        flats: the optimizer's flats, if so.
        rows, has_gradient: the arrays of the gradients.
    """

    is_sharded: bool
    flats: list[SharedFlat] | None
    rows: list[Any]
    has_gradient: Any


class Setup(NamedTuple):
    """What the ranks train with; a child gets it from rank 0.

    Attributes:
        loss, training_step, eval_step, on_nonfinite, keeps_outputs: the Steps of this rank.
        sync_batchnorm: batch statistics are those of all ranks.
        board: the array of the board.
        device: where the model is to be trained; without an index: each rank has another GPU.
        samples: of each data set of the run, if each rank loads its own.
        accumulate: how many batches make a step.
        has_averages: evaluations may use averages of the weights.
        shared: for each optimizer, if the ranks share weights.
    """

    model: Module
    loss: Any
    training_step: Any
    eval_step: Any
    on_nonfinite: str
    keeps_outputs: bool
    optimizers: list[Any]
    precision: Precision
    clip: Clip
    accumulate: int
    seed: int
    sync_batchnorm: bool
    board: Any
    device: Device
    samples: list[Samples | None]
    has_averages: bool
    shared: list[SharedOptimizer] | None = None

    @property
    def buffers(self) -> list[Any]:
        """Those of the model, and of a loss that is a module."""
        loss = self.loss.buffers() if isinstance(self.loss, Module) else ()
        return [*self.model.buffers(), *loss]

    @property
    def steps(self) -> Steps:
        """How the loss of a batch is computed."""
        return Steps(*(getattr(self, name) for name in Steps._fields))


def home_of(model: Module) -> Device:
    """Where the model is."""
    return next((p.device for p in model.parameters()), CPU)


def device_of(trainer: Any) -> Device:
    """The device to train on: `device`, or that of the model.

    Raises:
        ValueError: the model is on several devices.
    """
    if trainer.device is not None:
        return trainer.device  # type: ignore[no-any-return]
    devices = {p.device for p in trainer.model.parameters()}
    if len(devices) > 1:
        raise ValueError(
            "Trainer: the model has to be on one device: its parameters are on "
            f"{', '.join(sorted(map(str, devices)))}"
        )
    return devices.pop() if devices else CPU


def make_setup(
    trainer: Any,
    device: Device,
    ranks: int,
    samples: Any,
    updates: int,
    gradient_rows: tuple[int, int] | None = None,
) -> Setup:
    """Rank 0's setup of a Trainer: weights, buffers and gradients are in shared memory.

    Args:
        gradient_rows: `Ranks.gradient_rows`; None: one of each for each rank.
    """
    model, optimizers = trainer.model, trainer.optimizers
    board = ProgressBoard.create(ranks)
    board.start(updates)
    setup = Setup(
        model=model,
        **trainer.steps._asdict(),
        optimizers=optimizers,
        precision=Precision(device.type, trainer.autocast, trainer.scaler),
        clip=trainer.clip,
        accumulate=trainer.accumulate,
        seed=trainer.seed,
        sync_batchnorm=trainer.sync_batchnorm and ranks > 1 and bool(batch_norms(model)),
        board=board.array,
        device=device,
        samples=samples,
        has_averages=any(isinstance(c, AveragedWeights) for c in trainer.callbacks),
    )
    if ranks == 1:
        model.to(device)
        return setup
    model.to("cpu")
    move_to_shared_memory([*model.parameters(), *setup.buffers, *parameters_of(*optimizers)])
    for optimizer in optimizers:
        optimizer.zero_grad()
        _ = getattr(optimizer, "flats", None)  # moves the state there
    if device.type == "cuda":
        return setup
    scaler = setup.precision.scaler
    scales = scaler is not None and scaler.is_enabled()
    rows = gradient_rows or (ranks, ranks)
    shared = [share_optimizer(each, is_flat(each) and not scales, rows) for each in optimizers]
    return setup._replace(shared=shared)


def share_optimizer(
    optimizer: Any, is_sharded: bool, gradient_rows: tuple[int, int]
) -> SharedOptimizer:
    """Makes the gradients of an optimizer's parameters for several ranks."""
    rows, has_gradient = Gradients.create(parts_of(optimizer), *gradient_rows)
    flats = Sharded.shared(optimizer) if is_sharded else None
    return SharedOptimizer(is_sharded, flats, rows, has_gradient)


def launched_group() -> ProcessGroup | None:
    """The default group, if this process is one of its ranks or was launched to be one."""
    if not distributed.is_initialized() and is_launched():
        distributed.init_process_group()
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return None
    return distributed.GroupMember.WORLD


def start_children(
    trainer: Any, n: int, data: list[Any], device: Device, serve: Any, updates: int
) -> tuple[Setup, Ranks]:
    """Starts the other ranks as children."""
    method = trainer.start_method
    if n > 1 and device.type == "cuda":
        method = method or "spawn"
        if method == "fork":
            raise ValueError(
                f"Trainer: start_method: a forked rank cannot use {device}: 'fork', use 'spawn' or "
                "'forkserver'"
            )
    samples = [Samples.of(each) if n > 1 else None for each in data]
    setup = make_setup(trainer, device, n, samples, updates)
    if n == 1:
        return setup, Ranks()
    return setup, Ranks.start(n, method, trainer.timeout, serve, setup)


def hand_over(
    trainer: Any, group: ProcessGroup, data: list[Any], device: Device, updates: int
) -> tuple[Setup, Ranks]:
    """Hands the setup to the other ranks of a process group."""
    ranks = ranks_of(group)
    samples = common_samples(ranks, data)
    setup = make_setup(trainer, device, ranks.size, samples, updates, ranks.gradient_rows)
    ranks.broadcast_setup(
        setup._replace(
            loss=None, training_step=None, eval_step=None, samples=[], precision=Precision()
        )
    )
    return setup, ranks


def own_setup(setup: Setup, ranks: Ranks) -> Setup:
    """The setup of another node, with its own arrays, from a copy of rank 0's."""
    model, parameters = setup.model, parameters_of(*setup.optimizers)
    move_to_shared_memory([*model.parameters(), *model.buffers(), *parameters])
    board = ProgressBoard.create(ranks.size)
    board.array[...] = setup.board
    assert setup.shared is not None
    shared = [
        share_optimizer(optimizer, each.is_sharded, ranks.gradient_rows)
        for optimizer, each in zip(setup.optimizers, setup.shared, strict=True)
    ]
    return setup._replace(board=board.array, shared=shared)


def adopt(trainer: Any, ranks: Ranks, samples: list[Samples | None], device: Device) -> Setup:
    """Rank 0's setup for another rank of a process group. On the CPU it trains rank 0's model, with
    its optimizers, and this rank's model has the same memory."""
    setup: Setup = ranks.broadcast_setup(own_setup=own_setup)
    if device.type == "cuda":
        trainer.model.to("cpu")
        trainer.model.load_state_dict(setup.model.state_dict())
        for ours, theirs in zip(trainer.optimizers, setup.optimizers, strict=True):
            ours.load_state_dict(theirs.state_dict())
        setup = setup._replace(model=trainer.model, optimizers=trainer.optimizers)
    else:
        use_shared_memory(trainer.model, setup.model)
    precision = Precision(device.type, trainer.autocast, trainer.scaler)
    own = trainer.steps._asdict()
    return setup._replace(**own, samples=samples, precision=precision, device=device)


def common_samples(ranks: Ranks, data: list[Any]) -> list[Samples | None]:
    """Of each data set, what this rank loads its samples from, if all ranks of a process group can,
    and their data sets have one length."""
    samples = [Samples.of(each) for each in data]
    lengths = [None if each is None else len(each.dataset) for each in samples]
    all_lengths: list[Any] = [None] * ranks.size
    distributed.all_gather_object(all_lengths, lengths, ranks.group)
    is_common = all(each == lengths for each in all_lengths)
    return samples if is_common else [None] * len(data)


def use_shared_memory(model: Any, shared_model: Any) -> None:
    """Makes the tensors of a rank's own model use the memory of the shared model."""
    for x, y in zip(
        [*model.parameters(), *model.buffers()],
        [*shared_model.parameters(), *shared_model.buffers()],
        strict=True,
    ):
        if x.array.shape != y.array.shape or x.array.dtype != y.array.dtype:
            raise ValueError(
                "Trainer: this rank's model is not rank 0's: a tensor is "
                f"{tuple(x.array.shape)} {x.array.dtype}, "
                f"not {tuple(y.array.shape)} {y.array.dtype}"
            )
        x.array = y.array
