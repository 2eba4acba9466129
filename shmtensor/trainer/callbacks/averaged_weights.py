"""AveragedWeights: the base of EMA and SWA, an average of the weights that evaluations may use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...nn import Module
from ...optim.swa_utils import AveragedModel, copy_all
from .callback import Callback

Average = Callable[[Any, Any, Any], None]


class AveragedWeights(Callback):
    """Keeps an average of a model's weights in this process, beside the model.

    Args:
        average: updates lists of tensors in place, as AveragedModel's `multi_avg_fn`.
        evaluates: evaluations use the average, once there is one: its values are copied into the
            model's memory before an evaluation, and the training's weights back after it.

    Attributes:
        averaged: the AveragedModel, or None before the first average. One of a checkpoint that was
            loaded is there from the next average, evaluation or `copy_to` on.

    Copies: the model for `averaged`; its weights and buffers once more during an evaluation.
    """

    def __init__(self, average: Average, evaluates: bool) -> None:
        self.evaluates = evaluates
        self.averaged: AveragedModel | None = None
        self._average = average
        self._loaded: dict[str, Any] | None = None  # a state that waits for its model
        self._training_values: list[Any] | None = None  # while the model has the average's

    def copy_to(self, model: Module) -> None:
        """Copies the averaged weights and the buffers into a model, in place.

        Raises:
            RuntimeError: there is no average yet.
        """
        if not self._has_average():
            raise RuntimeError(f"{type(self).__name__}.copy_to: there is no average yet")
        copy_all(tensors_of(model), tensors_of(self._averaged_of(model).module))

    def on_eval_begin(self, trainer: Any) -> None:
        if self.evaluates and self._training_values is None and self._has_average():
            values = tensors_of(self._evaluated(trainer.model).module)
            self._training_values = [x.clone() for x in tensors_of(trainer.model)]
            copy_all(tensors_of(trainer.model), values)

    def on_eval_end(self, trainer: Any) -> None:
        if self._training_values is not None:
            copy_all(tensors_of(trainer.model), self._training_values)
            self._training_values = None

    def on_fit_end(self, trainer: Any) -> None:
        self.on_eval_end(trainer)  # an interrupt may have ended the evaluation

    def state_dict(self) -> dict[str, Any]:
        averaged = self._loaded if self.averaged is None else self.averaged.state_dict()
        return {"averaged": averaged}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["averaged"] is None or self.averaged is None:
            self.averaged, self._loaded = None, state["averaged"]
        else:
            self.averaged.load_state_dict(state["averaged"])

    def _update(self, model: Module) -> None:
        self._averaged_of(model).update_parameters(model)

    def _evaluated(self, model: Module) -> AveragedModel:
        """The average that an evaluation uses."""
        return self._averaged_of(model)

    def _has_average(self) -> bool:
        return self.averaged is not None or self._loaded is not None

    def _averaged_of(self, model: Module) -> AveragedModel:
        """The averaged model, on the model's device."""
        if self.averaged is None:
            averaged = AveragedModel(model, multi_avg_fn=self._average)
            for p in averaged.parameters():
                p.grad = None
            if self._loaded is not None:
                averaged.load_state_dict(self._loaded)
            self.averaged, self._loaded = averaged, None
        device, before = (
            next((p.device for p in m.parameters()), None) for m in (model, self.averaged)
        )
        if device != before:  # the model has moved
            self.averaged.to(device)
        return self.averaged


def tensors_of(model: Module) -> list[Any]:
    """A model's parameters and buffers, without gradients, in its memory."""
    return [x.detach() for x in (*model.parameters(), *model.buffers())]
