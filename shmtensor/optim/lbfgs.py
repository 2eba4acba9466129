"""LBFGS: quasi-Newton steps from the last gradients, with a line search or without."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..autograd import enable_grad, no_grad
from ..autograd import table as ops
from .arguments import check_rate
from .line_search import Point, strong_wolfe
from .optimizer import Optimizer

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Limited-memory BFGS (Nocedal 1980), after Schmidt's minFunc, as in PyTorch.

    It has one parameter group. A step takes up to `max_iter` iterations and evaluates the closure
    about as often. The state holds `history_size` pairs of vectors as long as all parameters
    together.

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or one group of them.
    lr : float or Tensor, optional
        The length of an iteration's step; the line search starts there.
    max_iter : int, optional
        Iterations a step.
    max_eval : int, optional
        Evaluations of the closure a step; by default max_iter * 5 // 4.
    tolerance_grad : float, optional
        A step ends where no element of the gradient is larger.
    tolerance_change : float, optional
        A step ends where neither the loss nor a parameter changes by more.
    history_size : int, optional
        Number of iterations used to estimate the curvature.
    line_search_fn : str, optional
        None or "strong_wolfe".

    Raises
    ------
    ValueError
        There are several groups.
    TypeError
        In a step: there is no closure.
    RuntimeError
        In a step: another line search.

    Examples
    --------
    >>> p = st.tensor([0.0, 0.0], requires_grad=True)
    >>> optimizer = st.optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((p - st.tensor([1.0, -2.0])) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> loss = optimizer.step(closure)
    >>> p.detach().round(decimals=3)
    tensor([ 1., -2.])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError(
                "LBFGS doesn't support per-parameter options (parameter groups): got "
                f"{len(self.param_groups)} groups"
            )

    # ---------------------------------------------------------------- all parameters as one vector
    def _gradient(self) -> Any:
        parts = []
        for p in self.param_groups[0]["params"]:
            g = ops.zeros_like(p) if p.grad is None else p.grad
            g = g.to_dense() if g.is_sparse else g
            parts.append(as_real(g).reshape(-1))
        return ops.cat(parts).detach()

    def _move(self, direction: Any, length: Any) -> None:
        start = 0
        for p in self.param_groups[0]["params"]:
            x = as_real(p.detach())
            part = direction[start : start + x.numel()]
            x.add_(part.reshape(x.shape), alpha=float(length))
            start += x.numel()

    # ---------------------------------------------------------------- stepping
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Moves the parameters up to max_iter times.

        Copies: the parameters where there is a line search, and the gradients.

        Args:
            closure: computes the loss anew, and its gradients. It is required.

        Returns: what closure returned first.

        Raises: RuntimeError, line_search_fn is unknown.
        """
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        evaluate: Callable[[], Any] = enable_grad()(closure)
        with no_grad():
            return self._iterate(evaluate)

    def _iterate(self, evaluate: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        tolerance_grad, tolerance_change = group["tolerance_grad"], group["tolerance_change"]
        search = group["line_search_fn"]
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = evaluate()
        loss, evaluations = float(first), 1
        state["func_evals"] += 1
        g = self._gradient()
        if largest(g) <= tolerance_grad:
            return first
        for n_iter in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = state["d"] = self._direction(state, g, group["history_size"])
            before = state["prev_loss"] = loss
            state["prev_flat_grad"] = g
            t = state["t"] = float(group["lr"])
            if state["n_iter"] == 1:
                t = state["t"] = min(1.0, 1.0 / float(g.abs().sum())) * t
            slope = float(g.dot(d))
            if slope > -tolerance_change:
                break
            calls = 0
            if search is not None:
                if search != "strong_wolfe":
                    raise RuntimeError(f"only 'strong_wolfe' is supported: got {search!r}")
                start = Point(0.0, loss, g, slope)
                max_ls = group["max_eval"] - evaluations
                end, calls = strong_wolfe(self._along(evaluate, d), start, t, largest(d), max_ls)
                t, loss, g = end.t, end.loss, end.g
                state["t"] = t
                self._move(d, t)
            else:
                self._move(d, t)
                if n_iter != group["max_iter"]:
                    loss = float(evaluate())
                    g, calls = self._gradient(), 1
            evaluations += calls
            state["func_evals"] += calls
            if (
                evaluations >= group["max_eval"]
                or largest(g) <= tolerance_grad
                or largest(d) * abs(t) <= tolerance_change
                or abs(loss - before) < tolerance_change
            ):
                break
        return first

    def _along(self, evaluate: Callable[[], Any], d: Any) -> Callable[[float], Point]:
        """The loss as a function of the distance from here in direction d."""
        parameters = [p.detach() for p in self.param_groups[0]["params"]]
        saved = [p.clone() for p in parameters]

        def evaluate_at(t: float) -> Point:
            self._move(d, t)
            loss = float(evaluate())
            g = self._gradient()
            for p, x in zip(parameters, saved, strict=True):
                p.copy_(x)
            return Point(t, loss, g, float(g.dot(d)))

        return evaluate_at

    def _direction(self, state: dict[str, Any], g: Any, history_size: int) -> Any:
        """The negative gradient times the estimated inverse Hessian: the two-loop recursion."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -g
        differences, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = g - state["prev_flat_grad"], state["d"] * state["t"]
        product = y.dot(s)
        if float(product) > 1e-10:
            if len(differences) == history_size:
                for history in (differences, steps, inverses):
                    history.pop(0)
            differences.append(y)
            steps.append(s)
            inverses.append(1.0 / product)
            state["H_diag"] = product / y.dot(y)
        weights = state["al"] = [None] * history_size
        out = -g
        for i in reversed(range(len(steps))):
            weights[i] = steps[i].dot(out) * inverses[i]
            out.add_(differences[i], alpha=-float(weights[i]))
        out = out * state["H_diag"]
        for i in range(len(steps)):
            weight = weights[i] - differences[i].dot(out) * inverses[i]
            out.add_(steps[i], alpha=float(weight))
        return out


def as_real(x: Any) -> Any:
    """Complex numbers as two real ones."""
    return ops.view_as_real(x) if x.is_complex() else x


def largest(x: Any) -> float:
    """The largest absolute value."""
    return float(x.abs().max())
