"""SWA: stochastic weight averaging, the mean of the weights after the last epochs of a run."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from ...nn import Module
from ...optim.swa_utils import SWALR, AveragedModel, get_swa_multi_avg_fn, update_bn
from ..arguments import check_counts
from .averaged_weights import AveragedWeights
from .schedule import Schedule


class SWA(AveragedWeights):
    """Averages the weights after each epoch from `start_epoch` on, with a constant learning rate
    (Izmailov et al. 2018).

    A checkpoint keeps the average and the SWALR's state.

    Parameters
    ----------
    start_epoch : int
        The first epoch, counted from 1, whose weights are averaged.
    lr : float or list of float, optional
        The learning rate to which an SWALR goes from the beginning of that epoch, or one for each
        parameter group (of the first optimizer, if there are several). From then on the trainer's
        Schedules pause. None: the learning rate is left to them.
    anneal_epochs : int, optional
        Number of epochs that it takes to get there.
    anneal_strategy : str, optional
        "cos" or "linear".
    evaluates : bool, optional
        Whether from `start_epoch` on evaluations use the average, with the present weights as its
        last part; the training's weights are back in the model's memory after it. Statistics of
        batch normalization are those of the training meanwhile.

    Attributes
    ----------
    averaged : AveragedModel or None
        None before the first average. One of a checkpoint that was loaded is there from the next
        average, evaluation or `copy_to` on.

    Raises
    ------
    ValueError
        An argument is out of its range.

    See Also
    --------
    EMA

    Notes
    -----
    Copies: the model for `averaged`; twice more during an evaluation. Source: Izmailov et al.,
    Averaging Weights Leads to Wider Optima and Better Generalization, 2018.

    Examples
    --------
    >>> from shmtensor.trainer import SWA, Trainer
    >>> model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    >>> batches = [(st.randn(8, 2), st.zeros(8, dtype=st.int64)) for _ in range(4)]
    >>> swa = SWA(start_epoch=2, lr=0.05, anneal_epochs=1)
    >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
    >>> options = {"nprocs": 1, "progress": False, "callbacks": [swa]}
    >>> trainer = Trainer(model, sgd, nn.CrossEntropyLoss(), **options)
    >>> history = trainer.fit(batches, epochs=4)
    >>> swa.update_bn(batches)
    >>> swa.copy_to(model)  # its weights are the mean of those after epochs 2, 3 and 4
    """

    def __init__(
        self,
        start_epoch: int,
        lr: Any = None,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        evaluates: bool = True,
    ) -> None:
        check_counts("SWA", start_epoch=start_epoch)
        super().__init__(get_swa_multi_avg_fn(), evaluates)
        self.start_epoch = start_epoch
        self.lr = lr
        self.anneal_epochs = anneal_epochs
        self.anneal_strategy = anneal_strategy
        self.scheduler: SWALR | None = None
        self._loaded_schedule: dict[str, Any] | None = None  # waits for its optimizer

    def update_bn(self, data: Iterable[Any]) -> None:
        """Recomputes the averaged model's statistics of batch normalization, as means over the
        batches. Call it after the run, since each average copies the training's statistics.

        Args:
            data: batches; the first element of a pair is the model's input.

        Raises:
            RuntimeError: there is no average yet.
        """
        if self.averaged is None:
            raise RuntimeError("SWA.update_bn: there is no average yet")
        device = next((p.device for p in self.averaged.parameters()), None)
        update_bn(data, self.averaged, device)

    def on_epoch_begin(self, trainer: Any) -> None:
        if self.lr is None:
            return
        has_begun = trainer.epoch + 1 >= self.start_epoch
        for callback in trainer.callbacks:
            if isinstance(callback, Schedule):
                callback.is_paused = has_begun
        if has_begun and self.scheduler is None:
            self.scheduler = SWALR(
                trainer.optimizer, self.lr, self.anneal_epochs, self.anneal_strategy
            )
            if self._loaded_schedule is not None:
                self.scheduler.load_state_dict(self._loaded_schedule)
                self._loaded_schedule = None

    def on_epoch_end(self, trainer: Any) -> None:
        if trainer.epoch < self.start_epoch:
            return
        self._update(trainer.model)
        if self.scheduler is not None:
            self.scheduler.step()

    def _evaluated(self, model: Module) -> AveragedModel:
        averaged = deepcopy(self._averaged_of(model))
        averaged.update_parameters(model)  # as at the end of this epoch
        return averaged

    def state_dict(self) -> dict[str, Any]:
        scheduler = self.scheduler
        schedule = self._loaded_schedule if scheduler is None else scheduler.state_dict()
        return {**super().state_dict(), "scheduler": schedule}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if state["scheduler"] is None or self.scheduler is None:
            self.scheduler, self._loaded_schedule = None, state["scheduler"]
        else:
            self.scheduler.load_state_dict(state["scheduler"])
