"""The loss of a rank's part of a batch, by the model and a loss function, or by the program's own
training step; and what its mean is divided by.

| batch | inputs of the model | targets |
|---|---|---|
| (x, y); a tuple or list of any length | all but the last, as arguments | the last |
| a dictionary | all but the targets, by name | "labels", "label", "targets" or "target" |

A loss over part of a batch is the mean over that part. The loss over the whole batch is the sum of
the parts' means, each times its weight, over the sum of the weights. The weight is the number of
samples for most losses; cross entropy counts the targets that are not ignored, or adds their
classes' weights. A function that counts something else returns it: `return loss, n`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from .. import native
from ..amp import autocast
from ..nn import CrossEntropyLoss, NLLLoss, functional
from ..optim.arguments import number
from ..tensor import Tensor
from .progress_board import NAMED

LossFunction = Callable[[Any, Any], Any]
IGNORED = -100  # the default of the functions' ignore_index
NO_CONTEXT = nullcontext()
TARGETS = ("labels", "label", "targets", "target")  # in a dictionary


class Precision(NamedTuple):
    """In which dtype forward and loss run under autocast, if in one, and who scales the loss."""

    device_type: str = "cpu"
    dtype: Any = None
    scaler: Any = None

    def context(self) -> Any:
        """The context of forward and loss."""
        return NO_CONTEXT if self.dtype is None else autocast(self.device_type, self.dtype)


class Steps(NamedTuple):
    """How the program wants the loss of a batch computed, and what follows it.

    Attributes:
        training_step, eval_step: the program's own; None: the model and the loss function.
        on_nonfinite: "raise", "skip" or "warn", if the loss is NaN or infinite.
        keeps_outputs: evaluations keep outputs and targets, for metrics.
    """

    loss: LossFunction | None
    training_step: Callable[..., Any] | None = None
    eval_step: Callable[..., Any] | None = None
    on_nonfinite: str = "raise"
    keeps_outputs: bool = False


class BatchLoss(NamedTuple):
    """What a step has computed of n samples.

    Attributes:
        loss: one element.
        weight: of the mean; None: the losses of parts are added, because this is a sum. On a GPU it
            may be a tensor, which is not read yet.
        outputs, targets: for accuracy and metrics, or None.
        figures: further means over the samples, by name.
    """

    loss: Tensor
    weight: Any
    outputs: Any = None
    targets: Any = None
    figures: dict[str, float] | None = None


# ---------------------------------------------------------------- the model and a loss function
def split(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """The arguments of the model, those by name, and the targets (a dictionary may have none).

    Raises:
        TypeError: the batch is no dictionary, nor a tuple or list of two or more.
    """
    if isinstance(batch, dict):
        name = next((name for name in TARGETS if name in batch), None)
        if name is None:
            return (), batch, None
        return (), {k: v for k, v in batch.items() if k != name}, batch[name]
    if isinstance(batch, (tuple, list)) and len(batch) >= 2:
        return tuple(batch[:-1]), {}, batch[-1]
    raise TypeError(
        "Trainer: a batch has to be a dictionary, or inputs and targets, a tuple or list of two or "
        f"more: got {type(batch).__name__}"
        + (f" of {len(batch)}" if isinstance(batch, (tuple, list)) else "")
        + "; pass training_step for others"
    )


def inputs_of(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the model for a prediction: a batch may have no targets."""
    if isinstance(batch, dict) or (isinstance(batch, (tuple, list)) and len(batch) >= 2):
        return split(batch)[:2]
    return (tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)), {}


def compute_loss(model: Any, loss_function: LossFunction | None, batch: Any, n: int) -> BatchLoss:
    """The loss of n samples by the loss function; None: the model returns it, as "loss" or `.loss`.

    Raises:
        TypeError: the loss is no tensor of one element, nor a pair of that and a number.
    """
    arguments, named, targets = split(batch)
    if loss_function is None:
        outputs = model(**batch) if isinstance(batch, dict) else model(*batch)
        step = with_weight(result_of(outputs), n)
        return step._replace(targets=targets) if step.targets is None else step
    outputs = model(*arguments, **named)
    result = loss_function(outputs, targets)
    if isinstance(result, tuple) and len(result) == 2:
        loss, weight = checked(*result)
    else:
        loss, weight = checked(result, None)
        if getattr(loss_function, "reduction", "mean") != "sum":
            weight = weight_of(loss_function, targets, n)
    return BatchLoss(loss, weight, outputs, targets)


def weight_of(loss_function: LossFunction, targets: Any, n: int) -> Any:
    """The weight of a mean over n samples; on a GPU a tensor, if it depends on the targets."""
    class_weight, ignored = None, IGNORED
    if isinstance(loss_function, (CrossEntropyLoss, NLLLoss)):
        # Module.__getattr__ takes half of this function's time.
        class_weight, ignored = loss_function._buffers["weight"], loss_function.ignore_index
    elif loss_function not in (functional.cross_entropy, functional.nll_loss):
        return n
    if not isinstance(targets, Tensor) or targets.is_floating_point():  # probabilities of classes
        return n
    if class_weight is None and not targets.is_cuda:
        equal = native.count_equal(targets.array, ignored)
        if equal is not None:
            return targets.numel() - equal
    counts = targets != ignored
    if class_weight is not None:
        counts = counts * class_weight.detach()[targets.masked_fill(~counts, 0)]
    return counts.sum() if targets.is_cuda else number(counts.sum())


# ---------------------------------------------------------------- the program's own step
def run_step(step: Callable[..., Any], arguments: tuple[Any, ...], n: int) -> BatchLoss | None:
    """What `training_step` or `eval_step` returns of n samples; None: nothing is to be trained.

    Raises:
        TypeError: it returns something else than a loss, (loss, n), a dictionary, or None.
    """
    result = step(*arguments)
    if result is None:
        return None
    if isinstance(result, tuple) and len(result) == 2:
        loss, weight = checked(*result)
        return BatchLoss(loss, n if weight is None else weight)
    return with_weight(result_of(result), n)


def result_of(result: Any) -> BatchLoss:
    """A dictionary with "loss", an object with `.loss`, or the loss itself; their "logits" are
    outputs."""
    if isinstance(result, Tensor):
        return BatchLoss(checked(result, None)[0], None)
    if not isinstance(result, dict):
        if not hasattr(result, "loss"):
            raise TypeError(f"Trainer: no loss: got {type(result).__name__}")
        result = {"loss": result.loss, "outputs": getattr(result, "logits", None)}
    if "loss" not in result:
        raise TypeError(f'Trainer: no "loss" in what the step returned: {sorted(result)}')
    loss, weight = checked(result["loss"], result.get("n"))
    figures = {
        name: float(value.item() if hasattr(value, "item") else value)
        for name, value in result.items()
        if name not in ("loss", "n", "outputs", "targets", "logits") and is_number(value)
    }
    if len(figures) > NAMED:
        raise ValueError(
            f"Trainer: a step may return {NAMED} figures beside the loss: {sorted(figures)}"
        )
    outputs = result.get("outputs", result.get("logits"))
    return BatchLoss(loss, weight, outputs, result.get("targets"), figures)


def with_weight(result: BatchLoss, n: int) -> BatchLoss:
    return result._replace(weight=n) if result.weight is None else result


def is_number(value: Any) -> bool:
    if isinstance(value, (Tensor, np.ndarray)):
        return math.prod(value.shape) == 1
    return isinstance(value, (int, float, np.number, np.bool_))


def checked(loss: Any, weight: Any) -> tuple[Tensor, float | None]:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(
            "Trainer: the loss has to be a tensor of one element, or a pair of it and the number "
            f"that its mean is divided by: got {shape}"
        )
    if weight is None:
        return loss, None
    return loss, float(weight.item() if isinstance(weight, Tensor) else weight)


# ---------------------------------------------------------------- accuracy
def is_classification(outputs: Any, targets: Any) -> bool:
    """Whether outputs are scores (N, classes), and targets class indices (N)."""
    return (
        isinstance(outputs, Tensor)
        and isinstance(targets, Tensor)
        and outputs.ndim == 2
        and targets.ndim == 1
        and targets.array.dtype.kind in "iu"
    )


def count_correct(outputs: Any, targets: Any) -> Any:
    """How many samples have their highest score at the target, on a GPU as a tensor; -1 if it is
    not a classification."""
    if not is_classification(outputs, targets):
        return -1
    if outputs.is_cuda:
        return (outputs.detach().argmax(1) == targets).sum()
    correct = native.count_correct(outputs.array, targets.array)
    if correct is None:
        correct = int(np.count_nonzero(outputs.array.argmax(1) == targets.array))
    return correct
