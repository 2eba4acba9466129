"""SparseAdam: Adam for the stored values of sparse gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from .. import native
from ..autograd import wrap
from ..cuda_arrays import array_module
from .arguments import check_betas
from .flat.flat_optimizer import rules_for
from .flat.flat_parameters import on_device, zeros_beside
from .optimizer import Group, Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam at the stored values of sparse gradients only: moments elsewhere neither decay nor act.

    Parameters
    ----------
    params : iterable
        Dense parameters, (name, parameter) pairs, or groups of them; their gradients are sparse.
    lr : float or Tensor, optional
        The step's length, the learning rate.
    betas : (float, float), optional
        Decay of both averages.
    eps : float, optional
        Added to the denominator, as in PyTorch before the correction for the first steps.
    maximize : bool, optional
        Whether to go uphill.

    Raises
    ------
    ValueError
        A hyperparameter is out of its range.
    RuntimeError
        In a step: a gradient is dense.

    See Also
    --------
    Adam, nn.Embedding

    Notes
    -----
    Kingma and Ba 2014. The cost of a step is in proportion to the stored values.

    Examples
    --------
    >>> table = nn.Embedding(1000, 4, sparse=True)
    >>> optimizer = st.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> before = table.weight.detach().clone()
    >>> table(st.tensor([3, 7])).sum().backward()
    >>> optimizer.step()
    >>> (table.weight.detach() != before).any(1).nonzero().flatten()
    tensor([3, 7])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the rows that have a gradient.

        Copies: these rows of the parameter and its moments, twice.

        Args:
            closure: computes the loss anew, and its gradients.

        Returns: what closure returned.

        Raises:
            RuntimeError: a gradient is dense.
        """
        loss = self._evaluate(closure)
        pairs = [(g, p) for g in self.param_groups for p in g["params"] if p.grad is not None]
        for _, p in pairs:
            if not p.grad.is_sparse:
                raise RuntimeError(
                    "SparseAdam does not support dense gradients, please consider Adam instead: "
                    f"the gradient of a parameter of shape {tuple(p.shape)} is dense"
                )
        for group, p in pairs:
            with on_device(p.array):
                self._update(group, p)
        return loss

    def _update(self, group: Group, p: Any) -> None:
        state = self.state[p]
        if not state:
            state["step"] = 0
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = wrap(zeros_beside(p.array, p.array.shape))
        state["step"] += 1
        g = p.grad.coalesce()
        if not g._nnz():
            return
        arrays = (p.array, state["exp_avg"].array, state["exp_avg_sq"].array)
        index = tuple(g.places.array)
        values = [x[index] for x in arrays]
        xp = array_module(p.array)
        flat = [
            xp.ascontiguousarray(x).reshape(-1) for x in (values[0], g.numbers.array, *values[1:])
        ]
        beta1, beta2 = (float(beta) for beta in group["betas"])
        step = int(state["step"])
        eps = group["eps"] / math.sqrt(1 - beta2**step)  # the rule adds it after the correction
        lr, uphill = float(group["lr"]), group["maximize"]
        rules_for(flat[0]).adam_(*flat, None, step, lr, beta1, beta2, eps, 0.0, False, uphill)
        new = (flat[0], *flat[2:])
        for x, rows, old in zip(arrays, new, values, strict=True):
            x[index] = rows.reshape(old.shape)
        native.wrote(p)
