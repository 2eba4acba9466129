"""Trainer: data-parallel training on the processes of one machine, with one copy of weights and
optimizer state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from .. import distributed, native
from ..autograd import enable_grad
from ..device import CPU, Device
from ..distributed.group.process_group import ProcessGroup
from ..errors import TornWeights
from ..nn import Module
from ..optim import Optimizer
from ..random import fork_rng, manual_seed
from ..tensor.share_memory import move_to_shared_memory
from . import checkpoint
from .batches import Samples
from .gradients import Gradients, Part, parts_of
from .history import Epoch, History, TrainerStatistics
from .loss_weight import LossFunction
from .nodes import local_size, ranks_of
from .progress_bar import Progress
from .progress_board import ProgressBoard
from .rank_step import Precision, seed_of
from .ranks import Ranks, launched_group
from .run import Lead, Setup, serve
from .weights import Sharded, is_flat


class Trainer:
    """Trains a model on several processes that share its weights, its optimizer's state, and the
    batches.

    The process that calls `fit` is rank 0, and starts `nprocs - 1` children. Each rank computes the
    gradients of its part of every batch, reduces one shard of all gradients, and updates that shard
    of the weights. The result is that of one process on the same batches, up to the rounding of a
    sum over ranks, and the same bits in every run with the same seed and number of ranks. Hooks,
    attributes that the model sets, callbacks and printed lines are those of rank 0. Under
    `python -m shmtensor.run` the launched processes are the ranks: each calls `fit`, and rank 0's
    model, callbacks and order of samples are used. On several nodes each has one copy of weights
    and state, with the same bits.

    What differs from one process: dropout draws other random numbers on each rank, and `BatchNorm`
    normalizes each rank's part of the batch by itself.

    On GPUs several processes cannot update one copy of the weights in place. So there each rank has
    its own, and all gradients are reduced in every rank, as by DistributedDataParallel.

    Args:
        model: a Module; its parameters are updated in place.
        optimizer: of `shmtensor.optim`, over the model's parameters. One with hooks or a `step` of
            its own is called by rank 0 alone, with the sums of all ranks' gradients.
        loss: called with (outputs, targets); returns the mean over the batch (or with `reduction`
            "sum" the sum). The mean of a batch is put together from those of its parts: by the
            number of samples; for `CrossEntropyLoss`, `NLLLoss` and their functions by the targets
            that count, with their classes' weights. A function whose mean is over something else
            returns `(loss, n)`, where n is what it is divided by.
        nprocs: number of ranks.
        scheduler: of `shmtensor.optim.lr_scheduler`; stepped after every epoch.
        seed: of shuffling, dropout and other random numbers.
        start_method: "fork", "forkserver", "spawn", or None for the running Python's default.
        timeout: seconds that a rank waits for the others in a step; None: no limit. Under the
            launcher the process group's timeout counts instead.
        snapshots: keep a copy of the weights of the last epoch, and restore it if a death leaves
            them torn.
        progress: show a progress bar on standard error.
        device: where to train: "cpu"; "cuda:1": all ranks on that GPU; "cuda": rank 0 on the first
            GPU, rank 1 on the second, and so on, again from the first if there are more ranks;
            None: where the model is. With one rank the model moves there. Several ranks on GPUs
            are started by "spawn" (or "forkserver"); the model is where it was after `fit`.
        autocast: a dtype: forward and loss run under `shmtensor.autocast` with it; None: without.
        scaler: an `amp.GradScaler` for the loss.
        max_restarts: how many times ranks that have died are started again in a `fit`. The run goes
            on from the last step, or from the snapshot if the death left the weights torn, and ends
            with the bits of an undisturbed one. Batches of an iterable that rank 0 hands over
            cannot be given again: from a snapshot only a DataLoader or a list goes on.
        check_parameters: refuse a model with parameters that the optimizer does not have.

    Raises (by fit):
        PeerLostError: a rank died; the message has its pid and exit code. The model's weights are
            complete: those of the last step, or of the last snapshot, as the message says.
        TornWeights: a rank died, and the weights are torn, because snapshots are off.
        ProcessRaisedException: a rank failed with an exception; the message has its traceback.
        ValueError: the optimizer lacks parameters of the model, or the data gave no batch.
        TypeError: a batch is no pair, the loss no tensor of one element, or a gradient is sparse
            and there are several ranks.

    Copies: none of tensors between processes, if batches are in shared memory or the ranks load
    their own (a DataLoader of a map-style data set with the default collation);
    `statistics()` counts them. On GPUs each part of a batch is copied there, and the gradients
    twice a step.

    >>> import shmtensor as st
    >>> from shmtensor import nn, optim
    >>> from shmtensor.trainer import Trainer
    >>> model = nn.Linear(2, 2)
    >>> batches = [(st.randn(8, 2), st.zeros(8, dtype=st.int64)) for _ in range(4)]
    >>> sgd = optim.SGD(model.parameters(), lr=0.1)
    >>> trainer = Trainer(model, sgd, nn.CrossEntropyLoss(), nprocs=1, progress=False)
    >>> len(trainer.fit(batches, epochs=2))
    2
    """

    def __init__(
        self,
        model: Module,
        optimizer: Any,
        loss: LossFunction,
        *,
        nprocs: int = 2,
        scheduler: Any = None,
        seed: int = 0,
        start_method: str | None = None,
        timeout: float | None = 600.0,
        snapshots: bool = True,
        progress: bool = True,
        device: Any = None,
        autocast: Any = None,
        scaler: Any = None,
        max_restarts: int = 0,
        check_parameters: bool = True,
    ) -> None:
        if nprocs < 1:
            raise ValueError(f"Trainer: nprocs is not positive: {nprocs}")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"Trainer: not an optimizer of shmtensor.optim: {type(optimizer).__name__}"
            )
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.nprocs = nprocs
        self.scheduler = scheduler
        self.seed = seed
        self.start_method = start_method
        self.timeout = -1.0 if timeout is None else float(timeout)
        self.snapshots = snapshots
        self.progress = progress
        self.device = None if device is None else Device(device)
        self.autocast = autocast
        self.scaler = scaler
        self.history = History()
        self.epoch = 0
        self.step = 0
        self.max_restarts = max_restarts
        self.check_parameters = check_parameters
        self._seconds = 0.0
        self._samples = 0
        self._copied = 0

    # ---------------------------------------------------------------- training
    def fit(
        self,
        train: Iterable[Any],
        epochs: int,
        eval: Iterable[Any] | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
        on_step: Callable[[int], None] | None = None,
    ) -> History:
        """Trains up to epoch `epochs`; a trainer that has trained or loaded 3 epochs continues with
        the 4th.

        Args:
            train: a DataLoader, or any iterable of (inputs, targets) that can be iterated once for
                each epoch.
            eval: the same with held-out data, evaluated after every epoch.
            checkpoint: the file in which to save after every epoch.
            on_epoch: called after every epoch with its record. It may change options of the
                optimizer, add groups, freeze or replace parameters; so may `on_step`.
            on_step: called after every step with its number; weights are complete meanwhile. Costs
                one more barrier a step.

        Returns: the history of all epochs so far.
        """
        with self._run([train] if eval is None else [train, eval]) as run:
            if run is None:  # another launched rank, which has done what rank 0 did
                return self.history
            bar = Progress(self._steps(train, epochs), self.progress)
            try:
                for epoch in range(self.epoch + 1, epochs + 1):
                    bar.begin_epoch(epoch, epochs)
                    record = self._run_epoch(run, epoch, train, eval, bar, on_step)
                    if checkpoint is not None:
                        self.save(checkpoint)
                    if on_epoch is not None:
                        on_epoch(record)
                        run.check_setup(self.step)
            finally:
                bar.close()
        return self.history

    def _steps(self, train: Iterable[Any], epochs: int) -> int | None:
        try:
            return len(train) * (epochs - self.epoch)  # type: ignore[arg-type]
        except TypeError:
            return None

    def _run_epoch(
        self,
        run: Lead,
        epoch: int,
        train: Iterable[Any],
        eval: Iterable[Any] | None,
        bar: Progress,
        on_step: Callable[[int], None] | None,
    ) -> Epoch:
        lr = float(self.optimizer.param_groups[0]["lr"])
        manual_seed(seed_of(self.seed, epoch, 0))  # the loader's shuffling, in this process
        seed_loader(train, self.seed, epoch)
        begin, first = time.perf_counter(), self.step

        def after_step(step: int) -> None:
            self.step = step
            bar.advance(step)

        figures = run.run_pass(train, True, epoch, first, after_step, on_step)
        seconds = time.perf_counter() - begin
        if self.step == first:
            raise ValueError(
                "Trainer.fit: the loader gave no batch: can it be iterated again for each epoch?"
            )
        eval_loss = eval_accuracy = None
        if eval is not None:
            evaluated = run.run_pass(eval, False, epoch, self.step)
            eval_loss, eval_accuracy = evaluated.loss, evaluated.accuracy
        if self.snapshots:
            run.take_snapshot(self.step)
        if self.scheduler is not None:
            self.scheduler.step()
        self._seconds += seconds
        self._samples += figures.samples
        self.epoch = epoch
        record = Epoch(
            epoch, figures.loss, figures.accuracy, eval_loss, eval_accuracy, lr, figures.samples,
            seconds,
        )  # fmt: skip
        self.history.epochs.append(record)
        bar.show(loss=record.loss, accuracy=record.accuracy, held_out=record.eval_accuracy)
        return record

    @contextmanager
    def _run(self, data: list[Any]) -> Iterator[Lead | None]:
        """Starts the ranks, and ends them; leaves the program's random state, threads, modes and
        the model's mode as they were. None: this rank is not rank 0, and rank 0's run is over.
        """
        group = launched_group()
        ranks = self.nprocs if group is None else group.size()
        self._check_parameters()
        device, home = self.device_of_model(), self._home()
        training, threads = self.model.training, native.get_num_threads()
        with fork_rng(), enable_grad():
            try:
                if group is not None and group.rank():
                    self._serve(group, data, device)
                    yield None
                    return
                if ranks > 1:
                    native.share_threads(ranks if group is None else local_size(group))
                if group is None:
                    start = partial(self._start, data, device)
                    lead = Lead(data, start, self.step, self.max_restarts)
                else:
                    lead = Lead(data, partial(self._join, group, data, device), self.step)
                with self._lead(lead):
                    if self.snapshots:
                        lead.take_snapshot(self.step)
                    yield lead
            finally:
                self.model.train(training)
                native.set_num_threads(threads)
                if ranks > 1 and device.type == "cuda":
                    self.model.to(home)

    @contextmanager
    def _lead(self, lead: Lead) -> Iterator[None]:
        """Ends the other ranks, and makes the weights complete."""
        is_alone = lead.size == 1 or lead.ranks.children is not None
        try:
            yield
            lead.stop(self._progress())
        except BaseException as error:
            if lead.ranks.is_lost:  # between two passes
                self.step, failure = lead.failure()
                raise failure from None
            if not isinstance(error, TornWeights):
                lead.ranks.close(error)
                if is_alone:
                    self.step = lead.recover()[0]
            raise
        finally:
            lead.ranks.close()
            lead.close()
            self._copied += lead.bytes_copied

    # ---------------------------------------------------------------- ranks
    def _setup(
        self,
        device: Device,
        ranks: int,
        samples: list[Samples | None],
        step: int,
        create: Callable[[list[Part]], Any] | None = None,
    ) -> Setup:
        """Rank 0's setup: weights, buffers and gradients are in shared memory."""
        model, optimizer = self.model, self.optimizer
        board = ProgressBoard.create(ranks)
        board.start(step)
        precision = Precision(device.type, self.autocast, self.scaler)
        setup = Setup(
            model, self.loss, optimizer, precision, self.seed, board.array, device, samples
        )
        if ranks == 1:
            model.to(device)
            return setup
        model.to("cpu")
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        move_to_shared_memory([*model.parameters(), *model.buffers(), *parameters])
        optimizer.zero_grad()
        if device.type == "cuda":
            _ = getattr(optimizer, "flats", None)  # moves the state there
            return setup
        parts = parts_of(optimizer)
        rows, has_gradient = create(parts) if create else Gradients.create(parts, ranks)
        is_sharded = is_flat(optimizer) and not (self.scaler and self.scaler.is_enabled())
        shared = Sharded.shared(optimizer) if is_sharded else None
        return setup._replace(
            is_sharded=is_sharded, shared=shared, rows=rows, has_gradient=has_gradient
        )

    def _start(self, data: list[Any], device: Device, step: int) -> tuple[Setup, Ranks]:
        """Starts the other ranks as children."""
        n, method = self.nprocs, self.start_method
        if n > 1 and device.type == "cuda":
            method = method or "spawn"
            if method == "fork":
                raise ValueError(
                    f"Trainer: start_method: a forked rank cannot use {device}: 'fork', use "
                    "'spawn' or 'forkserver'"
                )
        samples = [Samples.of(each) if n > 1 else None for each in data]
        setup = self._setup(device, n, samples, step)
        return setup, Ranks() if n == 1 else Ranks.start(n, method, self.timeout, serve, setup)

    def _join(
        self, group: ProcessGroup, data: list[Any], device: Device, step: int
    ) -> tuple[Setup, Ranks]:
        """Hands the setup to the other ranks of a process group."""
        ranks = ranks_of(group)
        samples = common_samples(ranks, data)
        setup = self._setup(device, ranks.size, samples, step, ranks.create_gradients)
        ranks.broadcast_setup(setup._replace(loss=None, samples=[], precision=Precision()))
        return setup, ranks

    def _serve(self, group: ProcessGroup, data: list[Any], device: Device) -> None:
        """On another rank of a process group: its part of rank 0's run, which may set the ranks up
        several times."""
        ranks, progress = ranks_of(group), None
        native.share_threads(ranks.local_size)
        try:
            while progress is None:
                samples = common_samples(ranks, data)
                progress = serve(ranks, self._adopt(ranks.broadcast_setup(), samples, device))
        except BaseException as error:
            ranks.close(error)
            raise
        self._load_progress(progress)

    def _adopt(self, setup: Setup, samples: list[Samples | None], device: Device) -> Setup:
        """Rank 0's setup for this rank. On the CPU it trains rank 0's model, with its optimizer,
        and this rank's model has the same memory."""
        if device.type == "cuda":
            self.model.to("cpu")
            self.model.load_state_dict(setup.model.state_dict())
            self.optimizer.load_state_dict(setup.optimizer.state_dict())
            setup = setup._replace(model=self.model, optimizer=self.optimizer)
        else:
            use_shared_memory(self.model, setup.model)
        precision = Precision(device.type, self.autocast, self.scaler)
        return setup._replace(loss=self.loss, samples=samples, precision=precision, device=device)

    def _progress(self) -> dict[str, Any]:
        """What remains of a run beside weights and the optimizer's state."""
        scheduler = None if self.scheduler is None else self.scheduler.state_dict()
        return {
            "epoch": self.epoch,
            "step": self.step,
            "seed": self.seed,
            "history": self.history.state_dict(),
            "scheduler": scheduler,
        }

    def _load_progress(self, state: dict[str, Any]) -> None:
        if self.scheduler is not None and state["scheduler"] is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.epoch, self.step, self.seed = state["epoch"], state["step"], state["seed"]
        self.history.load_state_dict(state["history"])

    def _check_parameters(self) -> None:
        """Raises ValueError for parameters of the model that the optimizer does not have."""
        known = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        missing = [
            name
            for name, p in self.model.named_parameters()
            if p.requires_grad and id(p) not in known
        ]
        if missing and self.check_parameters:
            raise ValueError(
                f"Trainer: the optimizer lacks {len(missing)} of the model's parameters: "
                f"{', '.join(missing[:5])}{', ...' * (len(missing) > 5)}: add them to it, freeze "
                "them by requires_grad_(False), or pass check_parameters=False"
            )

    def _home(self) -> Device:
        return next((p.device for p in self.model.parameters()), CPU)

    def device_of_model(self) -> Device:
        """The device to train on: `device`, or that of the model.

        Raises:
            ValueError: the model is on several devices.
        """
        if self.device is not None:
            return self.device
        devices = {p.device for p in self.model.parameters()}
        if len(devices) > 1:
            raise ValueError(
                "Trainer: the model has to be on one device: its parameters are on "
                f"{', '.join(sorted(map(str, devices)))}"
            )
        return devices.pop() if devices else CPU

    def evaluate(self, data: Iterable[Any]) -> dict[str, float]:
        """Mean loss and, for a classifier, accuracy over (inputs, targets) batches, in this
        process.
        """
        training = self.model.training
        device = self._home()
        board = ProgressBoard.create(1)
        precision = Precision(device.type, self.autocast, self.scaler)
        setup = Setup(
            self.model, self.loss, self.optimizer, precision, self.seed, board.array, device, []
        )
        try:
            with fork_rng():
                lead = Lead([], lambda step: (setup, Ranks()), self.step)
                figures = lead.run_pass(data, False, self.epoch, self.step)
        finally:
            self.model.train(training)
        if not figures.samples:
            raise ValueError("Trainer.evaluate: the data gave no batch")
        out = {"loss": figures.loss}
        if figures.accuracy is not None:
            out["accuracy"] = figures.accuracy
        return out

    # ---------------------------------------------------------------- state
    def statistics(self) -> TrainerStatistics:
        return TrainerStatistics(self.step, self._samples, self._seconds, self._copied)

    def state_dict(self) -> dict[str, Any]:
        """The state on which the remaining run depends."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            **self._progress(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scaler is not None and state.get("scaler"):
            self.scaler.load_state_dict(state["scaler"])
        self._load_progress(state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint, atomically. Training that resumes from it gives the same bits as
        uninterrupted training.
        """
        checkpoint.write(path, self.state_dict())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Restores a checkpoint, also one from another device."""
        self.load_state_dict(checkpoint.read(path))


def seed_loader(loader: Any, seed: int, epoch: int) -> None:
    """Makes the order of samples a function of seed and epoch, the same in a resumed run."""
    for owner in (loader, getattr(loader, "sampler", None)):
        set_epoch = getattr(owner, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        generator = getattr(owner, "generator", None)
        if generator is not None:
            generator.manual_seed((seed * 1_000_003 + epoch) * 1_009)


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
