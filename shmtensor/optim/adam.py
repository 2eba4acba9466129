"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import native
from . import reference_updates as rules
from .flat.flat_optimizer import FlatOptimizer
from .flat.flat_parameters import Array
from .optimizer import Group

__all__ = ["Adam", "AdamW"]


class Adam(FlatOptimizer):
    """First and second moments of the gradient (Kingma, Ba 2014).

    Args:
        params: tensors, (name, tensor) pairs, or groups of them.
        lr: the step's length.
        betas: how slowly both averages follow.
        eps: added to the denominator.
        weight_decay: times the parameter, added to the gradient.
        amsgrad: use the largest second moment so far (Reddi et al. 2018).
        maximize: go uphill.
        decoupled_weight_decay: take weight_decay from the parameter instead, as AdamW.
        foreach, capturable, differentiable, fused: accepted; it is one kernel call anyway.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        if not weight_decay >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if differentiable:
            raise NotImplementedError(
                f"{type(self).__name__}: differentiable steps are not supported: the update is "
                "in place, hint: write the update in tensor operations"
            )
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _names(self, group: Group) -> list[str]:
        return WITH_MAXIMUM if group["amsgrad"] else WITHOUT_MAXIMUM

    def _update(self, group: Group, p: Array, g: Array, state: dict[str, Array], step: int) -> None:
        beta1, beta2 = group["betas"]
        kernel = (
            getattr(native, "adam_", rules.adam_)
            if p.ndim == 1 and p.dtype.char in "fd"
            else rules.adam_
        )
        kernel(
            p,
            g,
            state["exp_avg"],
            state["exp_avg_sq"],
            state["max_exp_avg_sq"] if group["amsgrad"] else None,
            step,
            float(group["lr"]),
            float(beta1),
            float(beta2),
            group["eps"],
            group["weight_decay"],
            group["decoupled_weight_decay"],
            group["maximize"],
        )


WITHOUT_MAXIMUM = ["exp_avg", "exp_avg_sq"]
WITH_MAXIMUM = [*WITHOUT_MAXIMUM, "max_exp_avg_sq"]


class AdamW(Adam):
    """Adam with the weight decay taken from the parameter itself (Loshchilov, Hutter 2017)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
