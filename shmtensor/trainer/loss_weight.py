"""What the mean of a loss is divided by: samples, or what the loss counts.

A loss over part of a batch is the mean over that part. The loss over the whole batch is the sum of
the parts' means, each times its weight, over the sum of the weights. The weight is the number of
samples for most losses; cross entropy counts the targets that are not ignored, or adds their
classes' weights. A function that counts something else returns it: `return loss, n`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..nn import CrossEntropyLoss, NLLLoss, functional
from ..tensor import Tensor

LossFunction = Callable[[Any, Any], Any]
IGNORED = -100  # the default of the functions' ignore_index


def loss_and_weight(
    loss_function: LossFunction, outputs: Any, targets: Any, n: int
) -> tuple[Tensor, float | None]:
    """The loss of n samples and its weight; None: the losses of parts are added, because this is a
    sum.

    Raises:
        TypeError: the loss is no tensor of one element, nor a pair of that and a number.
    """
    result = loss_function(outputs, targets)
    if isinstance(result, tuple) and len(result) == 2:
        loss, weight = result
        weight = float(weight.item() if isinstance(weight, Tensor) else weight)
    else:
        loss, weight = result, None
        if getattr(loss_function, "reduction", "mean") != "sum":
            weight = weight_of(loss_function, targets, n)
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(
            "Trainer: the loss has to be a tensor of one element, or a pair of it and the number "
            f"that its mean is divided by: got {shape}"
        )
    return loss, weight


def weight_of(loss_function: LossFunction, targets: Any, n: int) -> float:
    """The weight of a mean over n samples."""
    class_weight, ignored = None, IGNORED
    if isinstance(loss_function, (CrossEntropyLoss, NLLLoss)):
        class_weight, ignored = loss_function.weight, loss_function.ignore_index
    elif loss_function not in (functional.cross_entropy, functional.nll_loss):
        return n
    if not isinstance(targets, Tensor) or targets.is_floating_point():  # probabilities of classes
        return n
    counted = targets[targets != ignored]
    if class_weight is None:
        return counted.numel()
    return float(class_weight.detach()[counted].sum().item())
