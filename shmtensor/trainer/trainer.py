"""Trainer: data-parallel training on the processes of one machine or several, with one copy of
weights and optimizer state on each.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from .. import native
from ..autograd import enable_grad, no_grad
from ..device import Device
from ..distributed.group.process_group import ProcessGroup
from ..errors import CollectiveTimeout, TornWeights
from ..nn import Module
from ..tensor import Tensor
from . import arguments as checks
from . import checkpoint as checkpoints
from .auto import choose_nprocs
from .batch_loss import LossFunction, Steps, inputs_of
from .batches import as_tensors, concatenate, on_device, on_host
from .callbacks import Callback, Schedule
from .description import as_html, as_text
from .history import Epoch, Figures, History, TrainerStatistics
from .lead import Lead
from .nodes import local_size, ranks_of
from .plan import Plan, calling, ordered_callbacks, schedules, seed_epoch, states_kept
from .rank_step import interrupts_deferred
from .ranks import Ranks
from .run import serve
from .setup import (
    adopt,
    common_samples,
    device_of,
    hand_over,
    home_of,
    launched_group,
    make_setup,
    start_children,
)
from .weights import Clip


class Trainer:
    """Trains a model on several processes that share its weights, its optimizer's state, and the
    batches.

    The process that calls `fit` is rank 0, and starts `nprocs - 1` children. Each rank computes the
    gradients of its part of every batch, reduces one shard of all gradients, and updates that shard
    of the weights. The result is that of one process on the same batches, up to the rounding of a
    sum over ranks, and the same bits in every run with the same seed and number of ranks. Callbacks
    run on rank 0, and the model that the program has is rank 0's: attributes that its forward sets,
    and calls of its hooks, are those for rank 0's samples. Under `python -m shmtensor.run` the
    launched processes are the ranks: each calls `fit`, and rank 0's model, callbacks and order of
    samples are used.

    What differs from one process: dropout draws other random numbers on each rank, and without
    `sync_batchnorm` `BatchNorm` normalizes each rank's part of the batch by itself.

    On GPUs several processes cannot update one copy of the weights in place. So there each rank has
    its own, and all gradients are reduced in every rank, as by DistributedDataParallel.

    A batch is (inputs, targets); a tuple or list of any length, whose last is the targets and whose
    others are the model's arguments; or a dictionary, whose "labels", "label", "targets" or
    "target" are the targets and whose others are the model's arguments by name. NumPy's arrays and
    PyTorch's tensors become tensors. Other batches need a `training_step`.

    Parameters
    ----------
    model : Module
        Its parameters are updated in place.
    optimizer : Optimizer or list of Optimizer
        Of `shmtensor.optim`, over the model's parameters. One with hooks or a `step` of its own is
        called by rank 0 alone, with the sums of all ranks' gradients. Of a list of optimizers over
        different parameters (as for a GAN) each batch makes a step of each, in order, and
        `training_step` gets the number of the optimizer.
    loss : callable, optional
        Called with (outputs, targets); returns the mean over the batch (or with `reduction` "sum"
        the sum). The mean of a batch is put together from those of its parts: by the number of
        samples; for `CrossEntropyLoss`, `NLLLoss` and their functions by the targets that count,
        with their classes' weights. A function whose mean is over something else returns `(loss,
        n)`, where n is what it is divided by. None: the model gets the whole batch, and returns a
        dictionary with "loss" or an object with `.loss`.
    nprocs : int or str, optional
        Number of ranks. "auto" measures a few steps of a copy of the model on one process and on
        ranks, takes the faster and says so in one line; afterwards this attribute is the number.
        Runs on different numbers of ranks differ by rounding; where the same bits matter, pass a
        number.
    training_step : callable, optional
        `training_step(model, batch)` returns the loss, or `(loss, n)`, or a dictionary with "loss"
        and optionally "n", "outputs", "targets", and up to eight numbers that become figures (means
        over the samples). With several optimizers it is called with (model, batch, i) for optimizer
        i, and may return None to leave out its step.
    eval_step : callable, optional
        The same for evaluations, without gradients; as in training if None.
    metrics : mapping or sequence of callable, optional
        Functions by name, or a list of them, called with (outputs, targets) of the whole held-out
        data; their results are figures of each evaluation.
    callbacks : sequence of Callback, optional
        Of `shmtensor.trainer.Callback`; checkpoints are called after the others.
    scheduler : LRScheduler, Schedule or list, optional
        Of `shmtensor.optim.lr_scheduler`, stepped after every epoch; `ReduceLROnPlateau` by the
        loss of the held-out data. Or a `Schedule`, or a list.
    accumulate : int, optional
        How many batches make a step. The gradient is that of all their samples together: of a mean
        over tokens, too.
    clip_grad_norm : float, optional
        Limits the gradients' common norm, as `clip_grad_norm_`.
    clip_grad_value : float, optional
        Limits each element, as `clip_grad_value_`.
    on_nonfinite : str, optional
        If the loss of a step is NaN or infinite: "raise", "skip" the update, or "warn". With a
        GradScaler it is the scaler that leaves out steps. On a GPU "raise" and "skip" wait for each
        loss; with "warn" or a scaler one rank reads 64 losses at once.
    sync_batchnorm : bool, optional
        Whether, in training, `BatchNorm` layers take mean and variance from the samples of all
        ranks, as in one process; each layer costs two small all_reduce calls a batch. The layers
        themselves do not change. Without it, the running statistics are rank 0's: those of its part
        of each batch.
    seed : int, optional
        Of shuffling, dropout and other random numbers.
    start_method : str, optional
        "fork", "forkserver", "spawn", or None for the running Python's default.
    timeout : float, optional
        Seconds that a rank waits for the others in a step; None is no limit. Under the launcher the
        process group's timeout counts instead.
    snapshots : bool or int, optional
        Whether to keep a copy of the weights, and restore it if a death leaves them torn. True:
        taken after each epoch, and within it as often as 2 % of the time allow; an integer: and
        after so many steps. Under the launcher there are none: a death ends the run.
    progress : bool, optional
        Whether to show a progress bar on standard error, or lines if that is no terminal.
    device : str or device, optional
        Where to train: "cpu"; "cuda:1": all ranks on that GPU; "cuda": rank 0 on the first GPU,
        rank 1 on the second, and so on, again from the first if there are more ranks; None: where
        the model is. With one rank the model moves there. Several ranks on GPUs are started by
        "spawn" (or "forkserver"); the model is where it was after `fit`.
    autocast : dtype, optional
        Forward and loss run under `shmtensor.autocast` with it.
    scaler : GradScaler, optional
        For the loss.
    check_parameters : bool, optional
        Whether to refuse a model with parameters that no optimizer has.

    Attributes
    ----------
    step, epoch : int
        Optimizer steps, and complete epochs.
    position : int
        Updates (a step has one for each optimizer) of the present epoch.
    history : History
        A record for each epoch.
    should_stop : bool
        Set it to True to end `fit` after this step.
    choice : str
        How `nprocs` was found, in a sentence; or "".

    Raises
    ------
    PeerLostError
        In fit: a rank died; the message has its pid and exit code. The model's weights are
        complete: those of the last step, or of the last snapshot, as the message says.
    TornWeights
        In fit: a rank died, and the weights are torn, because snapshots are off.
    CollectiveTimeout
        In fit: a rank has waited for another one for longer than `timeout`.
    ProcessRaisedException
        In fit: a rank failed with an exception; the message has its traceback.
    FloatingPointError
        In fit: the loss is NaN or infinite; the message has step and rank.
    ValueError
        In fit: the optimizers lack parameters of the model, or the data gave no batch.
    TypeError
        In fit: a batch is of another kind, the loss no tensor of one element, or a gradient is
        sparse and there are several ranks; or `sync_batchnorm` finds a subclass of BatchNorm with a
        forward of its own.

    See Also
    --------
    ModelCheckpoint, EarlyStopping, nn.parallel.DistributedDataParallel

    Notes
    -----
    Copies: none of tensors between processes, if batches are in shared memory or the ranks load
    their own (a DataLoader of a map-style data set with the default collation); `statistics()`
    counts them. On GPUs each part of a batch is copied there, and the gradients twice a step.

    Examples
    --------
    >>> from shmtensor.trainer import Trainer
    >>> model = nn.Linear(2, 2)
    >>> batches = [(st.randn(8, 2), st.zeros(8, dtype=st.int64)) for _ in range(4)]
    >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
    >>> trainer = Trainer(model, sgd, nn.CrossEntropyLoss(), nprocs=1, progress=False)
    >>> history = trainer.fit(batches, epochs=2)
    >>> len(history), trainer.step, history["loss"][1] < history["loss"][0]
    (2, 8, True)
    """

    def __init__(
        self,
        model: Module,
        optimizer: Any,
        loss: LossFunction | None = None,
        *,
        nprocs: int | str = "auto",
        training_step: Callable[..., Any] | None = None,
        eval_step: Callable[..., Any] | None = None,
        metrics: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]] = (),
        callbacks: Sequence[Callback] = (),
        scheduler: Any = None,
        accumulate: int = 1,
        clip_grad_norm: float | None = None,
        clip_grad_value: float | None = None,
        on_nonfinite: str = "raise",
        sync_batchnorm: bool = False,
        seed: int = 0,
        start_method: str | None = None,
        timeout: float | None = 600.0,
        snapshots: bool | int = True,
        progress: bool = True,
        device: Any = None,
        autocast: Any = None,
        scaler: Any = None,
        check_parameters: bool = True,
    ) -> None:
        if nprocs != "auto" and (not isinstance(nprocs, int) or nprocs < 1):
            raise ValueError(f'Trainer: nprocs is not positive, nor "auto": {nprocs!r}')
        checks.check_counts("Trainer", accumulate=accumulate)
        checks.check_amounts(
            "Trainer", clip_grad_norm=clip_grad_norm, clip_grad_value=clip_grad_value,
            timeout=timeout, snapshots=snapshots,
        )  # fmt: skip
        if on_nonfinite not in ("raise", "skip", "warn"):
            raise ValueError(
                f'Trainer: on_nonfinite is not "raise", "skip" or "warn": {on_nonfinite!r}'
            )
        optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        checks.check_optimizers(optimizers)
        if len(optimizers) > 1 and training_step is None:
            raise ValueError(f"Trainer: {len(optimizers)} optimizers need a training_step")
        if not isinstance(metrics, Mapping):
            metrics = {getattr(f, "__name__", type(f).__name__): f for f in metrics}
        checks.check_functions(loss=loss, training_step=training_step, eval_step=eval_step)
        checks.check_functions(**{f"metrics[{name!r}]": f for name, f in metrics.items()})
        self.model = model
        self.optimizers = optimizers
        self.metrics = dict(metrics)
        self.steps = Steps(loss, training_step, eval_step, on_nonfinite, bool(self.metrics))
        self.nprocs: Any = nprocs
        self.callbacks = [*schedules(scheduler), *callbacks]
        for callback in self.callbacks:
            if not isinstance(callback, Callback):
                raise TypeError(f"Trainer: not a Callback: {callback!r}")
        self.accumulate = accumulate
        self.clip = Clip(clip_grad_norm, clip_grad_value)
        self.sync_batchnorm = sync_batchnorm
        self.seed = seed
        self.start_method = start_method
        self.timeout = -1.0 if timeout is None else float(timeout)
        self.snapshots = snapshots
        self.progress = progress
        self.device = None if device is None else Device(device)
        self.autocast = autocast
        self.scaler = scaler
        self.check_parameters = check_parameters
        self.history = History()
        self.epoch = 0
        self.step = 0
        self.position = 0
        self.epochs: int | None = None
        self.total_steps: int | None = None
        self.should_stop = False
        self.choice = ""
        self._figures = Figures()  # of the present epoch
        self._eval_figures: dict[str, float] = {}
        self._logged: dict[str, float] = {}
        # Of the present epoch: when it began to train, or None; seconds before; rate at its begin.
        self._began: float | None = None
        self._seconds, self._lr = 0.0, 0.0
        self._last_lr = 0.0  # of the last step
        self._statistics = TrainerStatistics()

    __repr__, _repr_html_ = as_text, as_html

    @property
    def optimizer(self) -> Any:
        """The optimizer, or the first of several."""
        return self.optimizers[0]

    @property
    def scheduler(self) -> Any:
        """The scheduler that was passed, or a list of several; may be set."""
        each = [c.scheduler for c in self.callbacks if isinstance(c, Schedule)]
        return each[0] if len(each) == 1 else each or None

    @scheduler.setter
    def scheduler(self, scheduler: Any) -> None:
        others = [c for c in self.callbacks if not isinstance(c, Schedule)]
        self.callbacks = [*schedules(scheduler), *others]

    @property
    def loss(self) -> Any:
        """The loss function."""
        return self.steps.loss

    # ---------------------------------------------------------------- training
    def fit(
        self,
        train: Iterable[Any],
        epochs: int | None = None,
        eval: Iterable[Any] | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
        on_step: Callable[[int], None] | None = None,
        eval_every: int | None = None,
        max_steps: int | None = None,
        max_time: float | None = None,
        limit_train_batches: int | None = None,
        limit_eval_batches: int | None = None,
        max_restarts: int = 0,
    ) -> History:
        """Trains up to epoch `epochs`; a trainer that has trained or loaded 3 epochs continues
        with the 4th, and one that has ended in the middle of an epoch continues there.

        Parameters
        ----------
        train : DataLoader or iterable
            Batches; they can be iterated once for each epoch.
        epochs : int, optional
            The number of the last epoch; None: `max_steps` or `max_time` ends the run.
        eval : iterable, optional
            Held-out data, evaluated after every epoch.
        checkpoint : path, optional
            The file in which to save after every epoch; `callbacks.ModelCheckpoint` keeps several.
        on_epoch : callable, optional
            Called after every epoch with its record. It may change options of the optimizer, add
            groups, freeze or replace parameters; so may `on_step`.
        on_step : callable, optional
            Called after every step with its number; weights are complete meanwhile. Costs one more
            barrier a step.
        eval_every : int, optional
            Whether to evaluate after so many steps, too.
        max_steps : int, optional
            The number of the last step.
        max_time : float, optional
            Seconds of training, with evaluations, after which this call ends.
        limit_train_batches, limit_eval_batches : int, optional
            For a trial: how many batches of an epoch, and of an evaluation, are used.
        max_restarts : int, optional
            How many times ranks that have died are started again. The run goes on from the last
            step, or from the snapshot if the death left the weights torn, and ends with the bits of
            an undisturbed one.

        Returns
        -------
        History
            All epochs so far. An epoch that was ended early has a record of its steps, which is
            replaced when the epoch goes on.

        Raises
        ------
        PeerLostError, TornWeights, CollectiveTimeout, ...
            See the class.

        See Also
        --------
        evaluate, predict

        Examples
        --------
        >>> from shmtensor.trainer import Trainer
        >>> model = nn.Linear(2, 1)
        >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
        >>> trainer = Trainer(model, sgd, nn.MSELoss(), nprocs=1, progress=False)
        >>> batches = [(st.ones(8, 2), st.ones(8, 1))]
        >>> history = trainer.fit(batches, epochs=3, eval=batches)
        >>> history = trainer.fit(batches, epochs=5)  # two more
        >>> trainer.epoch
        5
        """
        if epochs is None and max_steps is None and max_time is None:
            raise ValueError("Trainer.fit: pass epochs, max_steps or max_time: all are None")
        checks.check_counts(
            "Trainer.fit", epochs=epochs, max_steps=max_steps, eval_every=eval_every,
            limit_train_batches=limit_train_batches, limit_eval_batches=limit_eval_batches,
        )  # fmt: skip
        checks.check_amounts("Trainer.fit", max_time=max_time, max_restarts=max_restarts)
        checks.check_batches("Trainer.fit", train)
        if eval is not None:
            checks.check_batches("Trainer.fit", eval)
            self._check_evaluation("Trainer.fit")
        callbacks = ordered_callbacks(self, on_step, on_epoch, checkpoint)
        plan = Plan(
            train, math.inf if epochs is None else epochs, eval, eval_every,
            math.inf if max_steps is None else max_steps,
            math.inf, limit_train_batches, limit_eval_batches, callbacks,
        )  # fmt: skip
        self.should_stop, self.epochs = False, epochs
        self.total_steps = self._last_step(plan)
        with self._run(plan, max_restarts) as run:
            if run is None:  # another launched rank, which has done what rank 0 did
                return self.history
            if max_time is not None:
                plan = plan._replace(deadline=time.monotonic() + max_time)
            while self.epoch < plan.epochs and not self._is_over(plan):
                if not self._run_epoch(run, plan):
                    break
        return self.history

    def _run_epoch(self, run: Lead, plan: Plan) -> bool:
        """Returns whether the epoch is complete."""
        epoch, optimizers = self.epoch + 1, len(self.optimizers)
        if not self.position:
            self._figures = Figures()
            self._seconds, self._lr = 0.0, float(self.optimizer.param_groups[0]["lr"])
        seed_epoch(plan.train, self.seed, epoch)
        for callback in plan.callbacks:
            callback.on_epoch_begin(self)
        run.check_setup(self._updates())
        first = self._updates() - self.position
        waits, samples = run.waits, self._figures.samples
        began = self._began = time.perf_counter()
        listeners = [c for c in plan.callbacks if type(c).on_step is not Callback.on_step]
        looks_always = any(c.reads_weights for c in listeners)
        every = plan.eval_every if plan.eval is not None else None

        def looks(updates: int) -> bool:
            step, rest = divmod(updates, optimizers)
            return not rest and (looks_always or (every is not None and step % every == 0))

        def after(updates: int) -> bool:
            self.position = updates - first
            if updates % optimizers:
                return False
            self.step = updates // optimizers
            self._last_lr = self.optimizer.param_groups[0]["lr"]
            for callback in listeners:
                callback.on_step(self)
            if listeners:
                run.check_setup(updates)
            if every is not None and self.step % every == 0:
                self._evaluate(run, plan)
            return self._is_over(plan)

        figures = run.run_pass(
            plan.train, True, epoch, first, start=self.position, limit=plan.limit_train_batches,
            figures=self._figures, looks=looks if looks_always or every else None, after=after,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        self._began, self._seconds = None, self._seconds + seconds
        if not self.position:
            raise ValueError(
                "Trainer.fit: the loader gave no batch: can it be iterated again for each epoch?"
            )
        of_data, of_ranks = (now - then for now, then in zip(run.waits, waits, strict=True))
        self._statistics.add(seconds, figures.samples - samples, of_data, of_ranks)
        expected = plan.updates_of_epoch(self.accumulate, optimizers)
        is_complete = not self._is_over(plan) or self.position == expected
        if is_complete and plan.eval is not None:
            self._evaluate(run, plan)
        record = self._record(epoch)
        if self.history.epochs and self.history.epochs[-1].epoch == epoch:
            self.history.epochs.pop()
        self.history.epochs.append(record)
        if is_complete:
            self.epoch, self.position = epoch, 0
            for callback in plan.callbacks:
                callback.on_epoch_end(self)
            run.take_snapshot(self._updates())
        return is_complete

    def _evaluate(self, run: Lead, plan: Plan) -> None:
        """An evaluation on the held-out data by all ranks."""
        assert plan.eval is not None
        self._eval_figures = {}  # if it fails
        for callback in plan.callbacks:
            callback.on_eval_begin(self)
        run.check_setup(self._updates())
        try:
            figures = run.run_pass(
                plan.eval, False, self.epoch + 1, self._updates(), limit=plan.limit_eval_batches
            )
            means = self._eval_means(run, figures, "Trainer.fit")
            self._eval_figures = {f"eval_{name}": value for name, value in means.items()}
        finally:
            for callback in plan.callbacks:
                callback.on_eval_end(self)
        if run.depth:  # the epoch goes on
            run.set_mode(True)

    def _check_evaluation(self, where: str) -> None:
        if len(self.optimizers) > 1 and self.steps.eval_step is None:
            raise ValueError(f"{where}: to evaluate with several optimizers pass an eval_step")

    def _eval_means(self, run: Lead, figures: Figures, where: str) -> dict[str, float]:
        if not figures.samples:
            raise ValueError(
                f"{where}: the held-out data gave no batch: can it be iterated again each time?"
            )
        means = figures.means()
        if self.metrics:
            kept = [x for batch in zip(*run.all_kept, strict=True) for x in batch if x is not None]
            outputs, targets = concatenate(kept)
            if outputs is None:
                raise TypeError(
                    f"{where}: metrics need outputs: the step has to return a dictionary of "
                    '"loss", "outputs" and "targets"'
                )
            with no_grad():
                for name, metric in self.metrics.items():
                    means[name] = float(metric(outputs, targets))
        return means

    def _record(self, epoch: int) -> Epoch:
        means, held_out = self._figures.means(), self._eval_figures
        known = ("loss", "accuracy", "eval_loss", "eval_accuracy")
        all_figures = {**means, **held_out, **self._logged}
        others = {k: v for k, v in all_figures.items() if k not in known}
        return Epoch(
            epoch, means["loss"], means.get("accuracy"), held_out.get("eval_loss"),
            held_out.get("eval_accuracy"), self._lr, self._figures.samples, self._seconds, others,
        )  # fmt: skip

    def _updates(self) -> int:
        """How many updates there were: of each optimizer one in a step."""
        optimizers = len(self.optimizers)
        return self.step * optimizers + self.position % optimizers

    def _is_over(self, plan: Plan) -> bool:
        return (
            self.should_stop
            or self.step >= plan.max_steps
            or (plan.deadline < math.inf and time.monotonic() >= plan.deadline)
        )

    def _last_step(self, plan: Plan) -> int | None:
        """The number of the last step, or None if it is not known."""
        updates = plan.updates_of_epoch(self.accumulate, 1)
        last = plan.max_steps
        if updates is not None and plan.epochs < math.inf:
            left = (plan.epochs - self.epoch) * updates - self.position // len(self.optimizers)
            last = min(last, self.step + left)
        return int(last) if last < math.inf else None

    @property
    def figures(self) -> dict[str, float]:
        """The means of this epoch so far, the last step's learning rate of the first group, samples
        per second of this epoch, the means of the last evaluation, and what `log` was given."""
        out = self._figures.means() if self._figures.samples else {}
        out["lr"] = float(self._last_lr)
        seconds = self._seconds_of_epoch()
        out["samples_per_second"] = self._figures.samples / seconds if seconds else 0.0
        return {**out, **self._eval_figures, **self._logged}

    def _seconds_of_epoch(self) -> float:
        running = 0.0 if self._began is None else time.perf_counter() - self._began
        return self._seconds + running

    def log(self, name: str, value: Any) -> None:
        """Adds a figure of the program's own, for callbacks, logs, checkpoints and history."""
        self._logged[name] = float(value)

    # ---------------------------------------------------------------- ranks
    @contextmanager
    def _run(self, plan: Plan, max_restarts: int) -> Iterator[Lead | None]:
        """Starts the ranks, and ends them; leaves the program's random states, threads, grad mode
        and the model's mode as they were. None: this rank is not rank 0, and rank 0's run is over.
        """
        group = launched_group()
        data = [plan.train] if plan.eval is None else [plan.train, plan.eval]
        if self.check_parameters:
            checks.check_parameters(self.model, self.optimizers)
        device, home = device_of(self), home_of(self.model)
        training, threads = self.model.training, native.get_num_threads()
        with states_kept(), enable_grad():
            try:
                if group is not None and group.rank():
                    self._serve(group, data, device)
                    yield None
                    return
                with calling(plan.callbacks, self):
                    if group is None:
                        if self.nprocs == "auto":
                            self.nprocs, self.choice = choose_nprocs(self, plan, device)
                        start: Any = partial(start_children, self, self.nprocs, data, device, serve)
                    else:
                        start = partial(hand_over, self, group, data, device)
                    ranks = self.nprocs if group is None else group.size()
                    if ranks > 1:
                        native.share_threads(ranks if group is None else local_size(group))
                    limits = (max_restarts, self.snapshots) if group is None else (0, False)
                    lead = Lead(
                        data, start, self._updates(), *limits, self._progress, self._go_back
                    )
                    with self._lead(lead):
                        yield lead
            finally:
                interrupts_deferred.restore()
                self.model.train(training)
                native.set_num_threads(threads)
                if device.type == "cuda" and self.nprocs != 1:
                    self.model.to(home)

    @contextmanager
    def _lead(self, lead: Lead) -> Iterator[None]:
        """Ends the other ranks, and makes the weights complete."""
        is_alone = lead.size == 1 or lead.ranks.children is not None
        try:
            lead.take_snapshot(self._updates())
            yield
            lead.stop(self._progress())
        except BaseException as error:
            with interrupts_deferred:  # a second Ctrl-C must not leave the weights torn
                if lead.ranks.is_lost:  # between two passes
                    updates, failure = lead.failure()
                    self._set_updates(updates)
                    raise failure from None
                if not isinstance(error, TornWeights):
                    lead.ranks.close(error)
                    if is_alone:
                        updates, state = lead.recover()
                        self._set_updates(updates)
                        if isinstance(error, CollectiveTimeout):
                            raise CollectiveTimeout(f"Trainer: {error}; {state}") from None
            raise
        finally:
            lead.ranks.close()
            lead.close()
            self._statistics.end(lead, self.step)

    def _set_updates(self, updates: int) -> None:
        self.position += updates - self._updates()
        self.step = updates // len(self.optimizers)

    def _serve(self, group: ProcessGroup, data: list[Any], device: Device) -> None:
        """On another rank of a process group: its part of rank 0's run, which may set the ranks up
        several times."""
        ranks, progress = ranks_of(group), None
        native.share_threads(ranks.local_size)
        try:
            while progress is None:
                samples = common_samples(ranks, data)
                progress = serve(ranks, adopt(self, ranks, samples, device))
        except BaseException as error:
            ranks.close(error)
            raise
        self._load_progress(progress)

    # ---------------------------------------------------------------- without training
    def evaluate(self, data: Iterable[Any]) -> dict[str, float]:
        """Mean loss, for a classifier accuracy, and the metrics over batches, in this process.

        Parameters
        ----------
        data : iterable
            Batches as for `fit`.

        Returns
        -------
        dict
            Figures by name.

        Raises
        ------
        ValueError
            The data gave no batch, or there are several optimizers and no eval_step.

        Examples
        --------
        >>> from shmtensor.trainer import Trainer
        >>> model = nn.Linear(2, 1)
        >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
        >>> trainer = Trainer(model, sgd, nn.MSELoss(), nprocs=1, progress=False)
        >>> list(trainer.evaluate([(st.ones(8, 2), st.ones(8, 1))]))
        ['loss']
        """
        checks.check_batches("Trainer.evaluate", data)
        self._check_evaluation("Trainer.evaluate")
        training = self.model.training
        try:
            with states_kept():
                setup = make_setup(self, home_of(self.model), 1, [], 0)
                lead = Lead([], lambda updates: (setup, Ranks()), 0)
                figures = lead.run_pass(data, False, self.epoch, 0)
                return self._eval_means(lead, figures, "Trainer.evaluate")
        finally:
            self.model.train(training)

    def predict(self, data: Iterable[Any]) -> Any:
        """The model's outputs for all batches, in order, put together along the first dimension,
        on the CPU; without gradients, in evaluation mode, in this process.

        Parameters
        ----------
        data : iterable
            Batches as for `fit`, whose targets are left out, or inputs alone: a tensor, a tuple of
            one, or a dictionary.

        Returns
        -------
        any
            As the model returns them. Copies: one of the outputs.

        Raises
        ------
        TypeError
            The data is one tensor instead of batches.
        ValueError
            The data gave no batch.

        Examples
        --------
        >>> from shmtensor.trainer import Trainer
        >>> model = nn.Linear(2, 1)
        >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
        >>> trainer = Trainer(model, sgd, nn.MSELoss(), nprocs=1, progress=False)
        >>> trainer.predict([st.ones(8, 2), st.ones(4, 2)]).shape
        Size([12, 1])
        """
        if isinstance(data, (Tensor, np.ndarray)):
            raise TypeError(
                f"Trainer.predict: the data has to be batches: got one of shape {data.shape}, pass "
                "[x]"
            )
        training, device, outputs = self.model.training, home_of(self.model), []
        self.model.eval()
        try:
            with no_grad(), make_setup(self, device, 1, [], 0).precision.context():
                for batch in data:
                    arguments, named = inputs_of(on_device(as_tensors(batch), device))
                    outputs.append(on_host(self.model(*arguments, **named)))
        finally:
            self.model.train(training)
        if not outputs:
            raise ValueError("Trainer.predict: the data gave no batch")
        return concatenate(outputs)

    # ---------------------------------------------------------------- state
    def statistics(self) -> TrainerStatistics:
        """Steps, samples, seconds, and what bounds a step, of this trainer's runs."""
        return deepcopy(self._statistics)

    def _progress(self) -> dict[str, Any]:
        """What remains of a run beside weights and the optimizers' state."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "position": self.position,
            "figures": (self._figures if self.position else Figures()).state_dict(),
            "lr": self._lr if self.position else float(self.optimizer.param_groups[0]["lr"]),
            "seconds": self._seconds_of_epoch(),
            "eval_figures": dict(self._eval_figures),
            "logged": dict(self._logged),
            "seed": self.seed,
            "nprocs": self.nprocs,
            "history": self.history.state_dict(),
            "callbacks": [(type(c).__name__, deepcopy(c.state_dict())) for c in self.callbacks],
        }

    def _load_progress(self, state: dict[str, Any]) -> None:
        self.epoch, self.step, self.seed = state["epoch"], state["step"], state["seed"]
        self.position = state["position"]
        self._figures.load_state_dict(state["figures"])
        self._lr, self._seconds, self._began = state["lr"], state["seconds"], None
        self._eval_figures, self._logged = {**state["eval_figures"]}, {**state.get("logged", {})}
        if self.nprocs == "auto":
            self.nprocs = state["nprocs"]
        self.history = History()  # what fit has returned stays as it is
        self.history.load_state_dict(state["history"])
        for callback, saved in checkpoints.paired(self.callbacks, state["callbacks"]):
            callback.load_state_dict(saved)

    def _go_back(self, progress: dict[str, Any]) -> None:
        """After a death: the snapshot's progress. The time has passed nonetheless."""
        time_of_epoch = self._seconds, self._began
        self._load_progress(progress)
        self._seconds, self._began = time_of_epoch
        self.should_stop = False

    def state_dict(self) -> dict[str, Any]:
        """The state on which the remaining run depends."""
        return {
            "model": self.model.state_dict(),
            "optimizers": [each.state_dict() for each in self.optimizers],
            "optimizer_types": [type(each).__name__ for each in self.optimizers],
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            **self._progress(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state, whole or not at all.

        Parameters
        ----------
        state : dict
            What `state_dict` returned.

        Raises
        ------
        ValueError
            The state is of another model, other optimizers, groups, or another scheduler; then
            nothing has changed, nor after any other error.

        See Also
        --------
        load

        Notes
        -----
        Copies: one of the present state, until the other one is there.

        Examples
        --------
        >>> from shmtensor.trainer import Trainer
        >>> model = nn.Linear(2, 1)
        >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
        >>> trainer = Trainer(model, sgd, nn.MSELoss(), nprocs=1, progress=False)
        >>> trainer.load_state_dict(trainer.state_dict())
        """
        checkpoints.check(self, state)
        with checkpoints.whole_or_not_at_all(self):
            self._load_state(state)

    def _load_state(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        if self.scaler is not None and state.get("scaler"):
            self.scaler.load_state_dict(state["scaler"])
        self._load_progress(state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint, atomically. Training that resumes from it gives the same bits as
        uninterrupted training, also in the middle of an epoch.

        Parameters
        ----------
        path : path
            The file; its folder has to exist.

        See Also
        --------
        load, callbacks.ModelCheckpoint

        Examples
        --------
        >>> from shmtensor.trainer import Trainer
        >>> model = nn.Linear(2, 1)
        >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
        >>> trainer = Trainer(model, sgd, nn.MSELoss(), nprocs=1, progress=False)
        >>> history = trainer.fit([(st.ones(8, 2), st.ones(8, 1))], epochs=3)
        >>> trainer.save("run.ckpt")
        >>> other = Trainer(model, sgd, nn.MSELoss(), nprocs=1, progress=False)
        >>> other.load("run.ckpt")
        >>> other.epoch
        3
        """
        checkpoints.write(path, self.state_dict())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Restores a checkpoint, also one from another device; whole or not at all.

        Parameters
        ----------
        path : path
            What `save` or a ModelCheckpoint has written.

        Raises
        ------
        ValueError
            As `load_state_dict`.

        See Also
        --------
        save

        Examples
        --------
        >>> from shmtensor.trainer import Trainer
        >>> model = nn.Linear(2, 1)
        >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
        >>> trainer = Trainer(model, sgd, nn.MSELoss(), nprocs=1, progress=False)
        >>> trainer.save("run.ckpt")
        >>> trainer.load("run.ckpt")
        """
        self.load_state_dict(checkpoints.read(path))
