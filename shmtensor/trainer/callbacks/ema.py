"""EMA: an exponential moving average of the weights."""

from __future__ import annotations

from typing import Any

from ...optim.swa_utils import get_ema_multi_avg_fn
from ..arguments import check_counts
from .averaged_weights import AveragedWeights


class EMA(AveragedWeights):
    """Keeps an exponential moving average of the weights.

    Each step costs one more barrier, because weights have to be complete. A checkpoint keeps the
    average, in its state of this callback; its "model" has the training's weights.

    Parameters
    ----------
    decay : float, optional
        Weight of the old average, in [0, 1].
    every : int, optional
        Number of steps between two averages.
    start : int, optional
        The first step that is averaged; its weights are the first average.
    evaluates : bool, optional
        Whether evaluations use the average, once there is one; the training's weights are back in
        the model's memory after it. Buffers are those at the last average.

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
    SWA

    Notes
    -----
    Copies: the model for `averaged`; its weights and buffers once more during an evaluation.

    Examples
    --------
    >>> from shmtensor.trainer import Trainer, EMA
    >>> model = nn.Linear(2, 2)
    >>> batches = [(st.randn(8, 2), st.zeros(8, dtype=st.int64)) for _ in range(4)]
    >>> sgd = st.optim.SGD(model.parameters(), lr=0.1)
    >>> options = {"nprocs": 1, "progress": False}
    >>> ema = EMA(decay=0.9)
    >>> trainer = Trainer(model, sgd, nn.CrossEntropyLoss(), callbacks=[ema], **options)
    >>> history = trainer.fit(batches, epochs=2)
    >>> ema.copy_to(model)  # its weights are the average now
    """

    reads_weights = True

    def __init__(
        self, decay: float = 0.999, every: int = 1, start: int = 0, evaluates: bool = True
    ) -> None:
        check_counts("EMA", every=every)
        super().__init__(get_ema_multi_avg_fn(decay), evaluates)
        self.decay = decay
        self.every = every
        self.start = start

    def on_step(self, trainer: Any) -> None:
        steps = trainer.step - self.start
        if steps >= 0 and steps % self.every == 0:
            self._update(trainer.model)
