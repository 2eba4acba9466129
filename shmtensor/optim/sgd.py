"""SGD: gradient descent, with momentum or without."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..ops.table.sparse_gradient import add_slices_at
from ..tensor import Tensor
from .arguments import as_numbers, check_not_negative, check_rate, require_numbers
from .flat.flat_optimizer import FlatOptimizer
from .flat.flat_parameters import Array
from .optimizer import Group

if TYPE_CHECKING:
    from ..sparse import SparseTensor

__all__ = ["SGD"]


class SGD(FlatOptimizer):
    """Gradient descent, with momentum if asked (Sutskever et al. 2013).

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    lr : float or Tensor, optional
        The step's length, the learning rate.
    momentum : float, optional
        Share of the previous step that is added to this one.
    dampening : float, optional
        Share of the gradient that does not enter the momentum.
    weight_decay : float, optional
        Times the parameter, added to the gradient: L2 regularisation.
    nesterov : bool, optional
        Whether to use Nesterov momentum; it needs momentum and no dampening.
    maximize : bool, optional
        Whether to go uphill.
    foreach, fused : bool, optional
        Accepted; a step is one kernel call for all parameters anyway. `fused` with one of the
        others is refused, as in PyTorch.
    differentiable : bool, optional
        Whether the step is computed in tensor operations that record history.

    Raises
    ------
    ValueError
        A hyperparameter is out of its range, or nesterov without momentum.

    See Also
    --------
    Adam, lr_scheduler.StepLR

    Notes
    -----
    Sparse gradients: without momentum the cost of a step is in proportion to their stored values;
    with it the buffer is dense (PyTorch's is sparse; the values are the same). They exclude
    weight_decay, as in PyTorch.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> optimizer = st.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    >>> x, y = st.ones(8, 2), st.zeros(8, 1)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     loss = F.mse_loss(model(x), y)
    ...     loss.backward()
    ...     optimizer.step()
    >>> groups = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5}]
    >>> [group["lr"] for group in st.optim.SGD(groups, lr=0.1).param_groups]
    [0.1, 0.5]
    """

    counts = False
    rule = "sgd_"
    takes_found_inf = True
    states = ("momentum_buffer",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        require_numbers(lr=lr)
        if isinstance(lr, Tensor) or lr < 0.0:  # NaN is accepted, as in PyTorch
            check_rate(lr)
        check_not_negative(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                "Nesterov momentum requires a momentum and zero dampening: got momentum "
                f"{momentum}, dampening {dampening}"
            )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _names(self, group: Group) -> tuple[str, ...]:
        return self.states if group["momentum"] else ()

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        return (
            group["lr"],
            group["momentum"],
            group["dampening"],
            group["weight_decay"],
            group["nesterov"],
            group["maximize"],
            step == 1,
        )

    def takes_sparse(self, group: Group) -> bool:
        if group["weight_decay"]:
            raise RuntimeError(
                "SGD: add(sparse, dense) is not supported: weight_decay does not go with sparse "
                f"gradients: {group['weight_decay']}"
            )
        return True

    def _update_sparse(
        self, group: Group, p: Array, g: SparseTensor, state: dict[str, Array], step: int
    ) -> None:
        if group["momentum"]:
            flat = {name: array.reshape(-1) for name, array in state.items()}
            dense = g.to_dense().detach().array.reshape(-1)
            new = p.reshape(-1)  # a copy where p is strided
            self._update(as_numbers(group), new, dense, flat, step, {})
            p[...] = new.reshape(p.shape)
            return
        lr = float(group["lr"]) if group["maximize"] else -float(group["lr"])
        numbers = g.numbers.detach().array
        add_slices_at(p, g.places.array, numbers * numbers.dtype.type(lr))
