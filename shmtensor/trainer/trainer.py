"""Trainer: data-parallel training on the processes of one machine, with one copy of weights and
optimizer state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from ..device import CPU, Device
from ..nn import Module
from ..tensor import Tensor
from . import checkpoint
from .execution import InProcess, InWorkers, Ranks
from .history import Epoch, History, TrainerStatistics
from .progress_bar import Progress
from .progress_board import ProgressBoard
from .rank_step import Precision, Replica
from .sharded_optimizer import FullOptimizer
from .split_batch import Counter, as_tensors, share
from .under_launcher import InGroup, is_in_group
from .worker_processes import get_options, seed_rank


class Trainer:
    """Trains a model on several processes that share its weights, its optimizer's state, and the
    batches.

    The process that calls `fit` iterates the loader and supervises; `nprocs` ranks each compute
    the gradients of their part of every batch, reduce one shard of all gradients, and update that
    shard. The result is that of one process on the same batches, up to the rounding of a sum over
    ranks, and the same bits in every run with the same seed. With `nprocs=1` everything runs in
    the calling process. Under `python -m shmtensor.run` the launched processes are the ranks: each
    calls `fit`, and rank 0's model and loader are used.

    On GPUs several processes cannot update one copy of the weights in place. So there each rank has
    its own, and all gradients are reduced in every rank, as by DistributedDataParallel.

    Args:
        model: a Module; its parameters are updated in place.
        optimizer: of `shmtensor.optim`, over the model's parameters.
        loss: called with (outputs, targets); with `reduction` "mean" (default) or "sum".
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
            are started by "spawn" (or "forkserver"); the calling process then uses no GPU, and its
            model, which stays where it is, has the weights after each epoch.
        autocast: a dtype: forward and loss run under `shmtensor.autocast` with it; None: without.
        scaler: an `amp.GradScaler` for the loss; for one rank, or on GPUs.

    Raises (by fit):
        PeerLostError: a rank died; the message has its pid and exit code. The model's weights are
            complete: those of the last step, or of the last snapshot, as the message says.
        TornWeights: a rank died, and the weights are torn, because snapshots are off.
        ProcessRaisedException: a rank failed with an exception; the message has its traceback.

    Copies: none of tensors between processes, if the loader's batches are in shared memory;
    `statistics()` counts them. On GPUs each part of a batch is copied there, the gradients twice a
    step, and weights and state once an epoch.

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
        loss: Callable[[Any, Any], Tensor],
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
    ) -> None:
        if nprocs < 1:
            raise ValueError(f"Trainer: nprocs is not positive: {nprocs}")
        if not hasattr(optimizer, "step_range"):
            raise TypeError(
                f"Trainer: the optimizer has no flat parameters: {type(optimizer).__name__}"
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
        self._counter = Counter()
        self._seconds = 0.0
        self._samples = 0
        self._inline = 0

    # ---------------------------------------------------------------- training
    def fit(
        self,
        train: Iterable[Any],
        epochs: int,
        eval: Iterable[Any] | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> History:
        """Trains up to epoch `epochs`; a trainer that has trained or loaded 3 epochs continues with
        the 4th.

        Args:
            train: a DataLoader, or any iterable of (inputs, targets) that can be iterated once for
                each epoch.
            eval: the same with held-out data, evaluated after every epoch.
            checkpoint: the file in which to save after every epoch.
            on_epoch: called after every epoch with its record.

        Returns: the history of all epochs so far.
        """
        inline = self._inline
        with self._ranks() as ranks:
            is_shown = self.progress and ranks.is_first
            bar = Progress(self._steps(train, epochs), is_shown)
            try:
                for epoch in range(self.epoch + 1, epochs + 1):
                    bar.begin_epoch(epoch, epochs)
                    record = self._run_epoch(ranks, epoch, train, eval, bar)
                    self._inline = inline + ranks.bytes_inline  # the ranks count from 0
                    if checkpoint is not None and ranks.is_first:
                        self.save(checkpoint)
                    if on_epoch is not None and ranks.is_first:
                        on_epoch(record)
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
        ranks: Ranks,
        epoch: int,
        train: Iterable[Any],
        eval: Iterable[Any] | None,
        bar: Progress,
    ) -> Epoch:
        lr = float(self.optimizer.param_groups[0]["lr"])
        seed_rank(self.seed, epoch, 0)  # the loader's shuffling, in this process
        seed_loader(train, self.seed, epoch)
        begin = time.perf_counter()
        steps = ranks.run(train, True, epoch, bar.advance, self.step)
        seconds = time.perf_counter() - begin
        samples, loss, correct = ranks.board.totals()
        if not steps:
            raise ValueError(
                "Trainer.fit: the loader gave no batch: can it be iterated again for each epoch?"
            )
        self.step += steps
        eval_loss = eval_accuracy = None
        if eval is not None:
            ranks.run(eval, False, epoch, lambda steps: None, self.step)
            n, loss_sum, right = ranks.board.totals()
            eval_loss, eval_accuracy = (
                loss_sum / max(n, 1),
                right / max(n, 1) if right >= 0 else None,
            )
        ranks.epoch_done(self.step)
        if self.scheduler is not None:
            self.scheduler.step()
            ranks.set_options(get_options(self.optimizer))
        self._seconds += seconds
        self._samples += samples
        self.epoch = epoch
        accuracy = correct / samples if correct >= 0 else None
        record = Epoch(
            epoch, loss / samples, accuracy, eval_loss, eval_accuracy, lr, samples, seconds
        )
        self.history.epochs.append(record)
        bar.show(loss=record.loss, accuracy=record.accuracy, held_out=record.eval_accuracy)
        return record

    def _ranks(self) -> Ranks:
        in_group = is_in_group()
        if not in_group and self.nprocs == 1:
            return InProcess(self)
        device = self.device_of_model()
        if device.type == "cuda":
            from .gpu_ranks import ranks_on_gpus

            return ranks_on_gpus(self, device, in_group)
        self.model.to(device)
        if self.scaler is not None and self.scaler.is_enabled():
            raise ValueError(
                "Trainer: a GradScaler needs one rank or a GPU, because ranks on the CPU update "
                f"one copy of the weights: {self.nprocs} ranks on {device}, use autocast=bfloat16"
            )
        return InGroup(self) if in_group else InWorkers(self)

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

    def precision(self, device: Device) -> Precision:
        """The dtype of forward and loss on a device, and the scaler."""
        return Precision(device.type, self.autocast, self.scaler)

    def evaluate(self, data: Iterable[Any]) -> dict[str, float]:
        """Mean loss and, for a classifier, accuracy over (inputs, targets) batches, in this
        process.
        """
        board = ProgressBoard.create(1)
        training = self.model.training
        self.model.eval()
        device = next((p.device for p in self.model.parameters()), CPU)
        try:
            replica = Replica(
                self.model, self.loss, FullOptimizer(self.optimizer), board, None, 0, 1,
                device, self.precision(device),
            )  # fmt: skip
            for batch in data:
                on_gpu = device.type == "cuda"
                replica.evaluate(as_tensors(batch) if on_gpu else share(batch, Counter()))
        finally:
            self.model.train(training)
        n, loss, correct = board.totals()
        if not n:
            raise ValueError("Trainer.evaluate: the data gave no batch")
        out = {"loss": loss / n}
        if correct >= 0:
            out["accuracy"] = correct / n
        return out

    # ---------------------------------------------------------------- state
    def statistics(self) -> TrainerStatistics:
        return TrainerStatistics(
            self.step, self._samples, self._seconds, self._counter.nbytes + self._inline
        )

    def state_dict(self) -> dict[str, Any]:
        """The state on which the remaining run depends."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
            "seed": self.seed,
            "history": self.history.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None and state["scheduler"] is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        if self.scaler is not None and state.get("scaler"):
            self.scaler.load_state_dict(state["scaler"])
        self.epoch, self.step, self.seed = state["epoch"], state["step"], state["seed"]
        self.history.load_state_dict(state["history"])

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
