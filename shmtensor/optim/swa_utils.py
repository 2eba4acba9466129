"""Averages of a model's weights over training: stochastic weight averaging, and exponential."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from ..autograd import no_grad
from ..dtypes import int64
from ..functions import zeros
from ..nn import Module
from ..nn.modules.batchnorm import _BatchNorm
from .lr_scheduler.lr_scheduler import LRScheduler, each
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Tensors = Sequence[Any]


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], Any]:
    """The exponential moving average of one tensor.

    Parameters
    ----------
    decay : float, optional
        Weight of the old average.

    Returns
    -------
    callable
        `f(average, current, num_averaged)`.

    Raises
    ------
    ValueError
        decay is not in [0, 1].

    Examples
    --------
    >>> average = st.optim.swa_utils.get_ema_avg_fn(0.5)
    >>> average(st.tensor(1.), st.tensor(3.), 1)
    tensor(2.)
    """
    check_decay(decay)

    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """The mean of all updates, of one tensor.

    Returns
    -------
    callable
        `f(average, current, num_averaged)`.

    Examples
    --------
    >>> average = st.optim.swa_utils.get_swa_avg_fn()
    >>> average(st.tensor(1.), st.tensor(3.), st.tensor(1))
    tensor(2.)
    """

    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Tensors, Tensors, Any], None]:
    """The exponential moving average of several tensors, in place.

    Parameters
    ----------
    decay : float, optional
        Weight of the old average.

    Returns
    -------
    callable
        `f(averages, current, num_averaged)`.

    Raises
    ------
    ValueError
        decay is not in [0, 1].

    Examples
    --------
    >>> averages = [st.tensor([1.])]
    >>> st.optim.swa_utils.get_ema_multi_avg_fn(0.5)(averages, [st.tensor([3.])], 1)
    >>> averages
    [tensor([2.])]
    """
    check_decay(decay)

    def ema_update(ema_param_list: Tensors, current_param_list: Tensors, _: Any) -> None:
        lerp_all(ema_param_list, current_param_list, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[Tensors, Tensors, Any], None]:
    """The mean of all updates of several tensors, in place.

    Returns
    -------
    callable
        `f(averages, current, num_averaged)`.

    Examples
    --------
    >>> averages = [st.tensor([1.])]
    >>> st.optim.swa_utils.get_swa_multi_avg_fn()(averages, [st.tensor([3.])], st.tensor(1))
    >>> averages
    [tensor([2.])]
    """

    def swa_update(
        averaged_param_list: Tensors, current_param_list: Tensors, num_averaged: Any
    ) -> None:
        lerp_all(averaged_param_list, current_param_list, 1 / (float(num_averaged) + 1))

    return swa_update


def check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def lerp_all(averages: Tensors, current: Tensors, weight: float) -> None:
    """Linear interpolation in place; integers are computed in float and truncated."""
    with no_grad():
        for average, new in zip(averages, current, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(new, weight)
            else:
                average.copy_(average + (new - average) * weight)


class AveragedModel(Module):
    """A copy of a model whose weights are averages of the model's.

    Parameters
    ----------
    model : Module
        The model in training.
    device : device, optional
        Of the copy.
    avg_fn : callable, optional
        `f(average, current, num_averaged)` returns the new average of one parameter.
    multi_avg_fn : callable, optional
        `f(averages, current, num_averaged)` updates lists of parameters in place; by default the
        mean of all updates.
    use_buffers : bool, optional
        Whether buffers are averaged, too, rather than copied.

    Attributes
    ----------
    module : Module
        The copy.
    n_averaged : Tensor
        How many weights were averaged.

    Raises
    ------
    AssertionError
        Both functions are given.

    See Also
    --------
    SWALR, update_bn, get_ema_multi_avg_fn

    Notes
    -----
    Izmailov et al. 2018.

    Examples
    --------
    >>> from shmtensor.optim.swa_utils import AveragedModel
    >>> model = nn.Linear(2, 1)
    >>> averaged = AveragedModel(model)
    >>> averaged.update_parameters(model)  # after each step
    >>> averaged.n_averaged.item()
    1
    """

    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Any, Any, Any], Any] | None = None,
        multi_avg_fn: Callable[[Tensors, Tensors, Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError(
                f"Only one of avg_fn and multi_avg_fn should be provided: got {avg_fn}, "
                f"{multi_avg_fn}"
            )
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", zeros((), device=device, dtype=int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Adds the model's present weights to the average.

        Copies: the model's weights at the first call, and its buffers unless they are averaged.
        """
        averages, current = (self._tensors(m) for m in (self.module, model))
        n = self.n_averaged
        with no_grad():
            if int(n) == 0:
                copy_all(averages, current)
            elif self.avg_fn is None:
                update_averages = self.multi_avg_fn or get_swa_multi_avg_fn()
                update_averages(averages, current, n)
            else:
                for average, new in zip(averages, current, strict=True):
                    average.copy_(self.avg_fn(average, new, n))
            if not self.use_buffers:
                copy_all(list(self.module.buffers()), list(model.buffers()))
            n.add_(1)

    def _tensors(self, model: Module) -> list[Any]:
        buffers = model.buffers() if self.use_buffers else ()
        return [p.detach() for p in itertools.chain(model.parameters(), buffers)]


def copy_all(targets: Tensors, sources: Tensors) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.detach().copy_(source.detach())


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recomputes the running statistics of the batch-norm layers, as the mean over the batches.

    Parameters
    ----------
    loader : iterable
        Batches; the first element of a list or a tuple is the model's input.
    model : Module
        The model whose layers are updated.
    device : device, optional
        What the batches are moved to.

    See Also
    --------
    AveragedModel

    Examples
    --------
    >>> model = nn.Sequential(nn.BatchNorm1d(1))
    >>> st.optim.swa_utils.update_bn([st.tensor([[1.], [3.]])], model)
    >>> model[0].running_mean
    tensor([2.])
    """
    layers = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not layers:
        return
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a cumulative average
    with no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    for layer, momentum in layers.items():
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Goes from the present learning rate to a constant one.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    swa_lr : float or list of float
        The constant rate, or one per group.
    anneal_epochs : int, optional
        How many steps it takes to get there.
    anneal_strategy : str, optional
        "cos" or "linear".
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    See Also
    --------
    AveragedModel

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.swa_utils.SWALR(sgd, 0.5, anneal_epochs=1)
    >>> sgd.step()
    >>> schedule.step()
    >>> sgd.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = each("swa_lr", swa_lr, optimizer.param_groups)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, step: int) -> float:
        """The weight of the constant rate at a step."""
        x = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return x if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * x)) / 2

    def _resumed_rates(self) -> list[Any]:
        return self._rates  # the one that the schedule began with is unknown

    def get_lr(self) -> list[Any]:
        """The next rate of each group, from the present one."""
        step = self.last_epoch
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, part = self._part(step - 1), self._part(step)
        rates = []
        for group in self.optimizer.param_groups:
            swa_lr, lr = group["swa_lr"], group["lr"]
            initial_lr = swa_lr if before == 1 else (lr - before * swa_lr) / (1 - before)
            rates.append(swa_lr * part + initial_lr * (1 - part))
        return rates
