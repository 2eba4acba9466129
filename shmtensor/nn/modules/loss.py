"""Losses as modules: the functions of nn.functional with stored arguments.

All are in one file, as in PyTorch: each is short and independent of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ops.loss.cross_entropy import reduction_of_legacy
from ...tensor import Tensor
from .. import functional as F
from .distance import PairwiseDistance
from .linear import Linear
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class _Loss(Module):
    """A loss: `reduction` is "mean", "sum" or "none" (the deprecated flags choose one of them)."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = reduction_of_legacy(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight per class or element, a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """The mean absolute difference of input and target.

    Parameters
    ----------
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    See Also
    --------
    MSELoss, SmoothL1Loss, functional.l1_loss

    Notes
    -----
    abs(input - target). Shape: two tensors of one shape, to `()`.

    Examples
    --------
    >>> nn.L1Loss()(st.tensor([1., 4.]), st.tensor([0., 0.]))
    tensor(2.5000)
    >>> nn.L1Loss(reduction="none")(st.tensor([1., 4.]), st.tensor([0., 0.]))
    tensor([1., 4.])
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The mean squared difference of input and target.

    Parameters
    ----------
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    See Also
    --------
    L1Loss, HuberLoss, functional.mse_loss

    Notes
    -----
    (input - target) ** 2. Shape: two tensors of one shape, to `()`.

    Examples
    --------
    >>> loss = nn.MSELoss()
    >>> prediction = st.tensor([1., 4.], requires_grad=True)
    >>> loss(prediction, st.tensor([0., 0.])).backward()
    >>> prediction.grad
    tensor([1., 4.])
    >>> nn.MSELoss(reduction="sum")(st.tensor([1., 4.]), st.tensor([0., 0.]))
    tensor(17.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared below beta, absolute above (Girshick 2015).

    Parameters
    ----------
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    beta : float, optional
        Where the squared part ends; 0 is `L1Loss`.

    See Also
    --------
    HuberLoss

    Notes
    -----
    d ** 2 / (2 * beta) where d = abs(input - target) is less than beta, else d - beta / 2. Shape:
    two tensors of one shape, to `()`.

    Examples
    --------
    >>> nn.SmoothL1Loss(reduction="none")(st.tensor([0.5, 3.0]), st.zeros(2))
    tensor([0.1250, 2.5000])
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared below delta, delta times absolute above (Huber 1964).

    Parameters
    ----------
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    delta : float, optional
        Where the squared part ends.

    See Also
    --------
    SmoothL1Loss

    Notes
    -----
    d ** 2 / 2 where d = abs(input - target) is at most delta, else delta * (d - delta / 2). Shape:
    two tensors of one shape, to `()`.

    Examples
    --------
    >>> nn.HuberLoss(reduction="none", delta=2.0)(st.tensor([1.0, 3.0]), st.zeros(2))
    tensor([0.5000, 4.0000])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class CrossEntropyLoss(_WeightedLoss):
    """-log softmax(input) at the target: the loss of a classifier, from its logits.

    Parameters
    ----------
    weight : Tensor, optional
        `(C,)`: a weight per class; "mean" divides by the targets' weights.
    size_average : bool, optional
        The older way to name a reduction, see `reduce`.
    ignore_index : int, optional
        Targets of this class are ignored, also by the mean.
    reduce : bool, optional
        With `size_average` it overrides `reduction`: reduce=False is "none", size_average=False is
        "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    label_smoothing : float, optional
        The share of each target that is distributed evenly over all classes, from 0 to 1 (Szegedy
        et al. 2015).

    Attributes
    ----------
    weight : Tensor or None
        A buffer.

    Raises
    ------
    IndexError
        In the call: a target is not a class.
    RuntimeError
        In the call: the shapes do not match.

    See Also
    --------
    NLLLoss, BCEWithLogitsLoss, functional.cross_entropy

    Notes
    -----
    Shape: logits `(N, C)`, `(C,)` or `(N, C, d1, ...)`, with class numbers `(N)`, `()` or `(N, d1,
    ...)` of int64 or uint8, or with probabilities of the input's shape. The call applies
    log_softmax: a Softmax before it is wrong.

    Examples
    --------
    >>> logits = st.tensor([[0., 0.], [100., 0.]])
    >>> nn.CrossEntropyLoss()(logits, st.tensor([1, 0])).round(decimals=4)
    tensor(0.3466)
    >>> nn.CrossEntropyLoss(reduction="none")(logits, st.tensor([1, 1]))
    tensor([  0.6931, 100.0000])
    >>> nn.CrossEntropyLoss(ignore_index=-1)(logits, st.tensor([0, -1]))
    tensor(0.6931)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits (N, C, *) or (C,); target (N, *) or () of class numbers, or like the logits."""
        attributes = self.__dict__
        return F.cross_entropy(
            input,
            target,
            attributes["_buffers"]["weight"],
            ignore_index=attributes["ignore_index"],
            reduction=attributes["reduction"],
            label_smoothing=attributes["label_smoothing"],
        )


class NLLLoss(_WeightedLoss):
    """-input at the target: the cross entropy of log-probabilities.

    Parameters
    ----------
    weight : Tensor, optional
        `(C,)`: a weight per class; "mean" divides by the targets' weights.
    size_average : bool, optional
        The older way to name a reduction, see `reduce`.
    ignore_index : int, optional
        Targets of this class are ignored, also by the mean.
    reduce : bool, optional
        With `size_average` it overrides `reduction`: reduce=False is "none", size_average=False is
        "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    See Also
    --------
    CrossEntropyLoss, LogSoftmax

    Notes
    -----
    Shape: log-probabilities `(N, C)`, `(C,)` or `(N, C, d1, ...)`, with class numbers `(N)`, `()`
    or `(N, d1, ...)` of int64 or uint8.

    Examples
    --------
    >>> nn.NLLLoss()(st.tensor([[-1., -3.], [-2., -4.]]), st.tensor([0, 1]))
    tensor(2.5000)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Log-probabilities (N, C, *) or (C,); target (N, *) or ()."""
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """The older name of `NLLLoss` for images.

    Parameters
    ----------
    weight : Tensor, optional
        `(C,)`: a weight per class.
    size_average : bool, optional
        The older way to name a reduction, see `reduce`.
    ignore_index : int, optional
        Targets of this class are ignored, also by the mean.
    reduce : bool, optional
        With `size_average` it overrides `reduction`.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    See Also
    --------
    NLLLoss

    Examples
    --------
    >>> nn.NLLLoss2d()(-st.ones(1, 3, 2, 2), st.zeros(1, 2, 2, dtype=st.int64))
    tensor(1.)
    """


class LinearCrossEntropyLoss(_WeightedLoss):
    """`CrossEntropyLoss` of the logits of its own linear layer.

    Parameters
    ----------
    in_features : int
        Size of the input's last dimension.
    num_classes : int
        C.
    out_features : tuple of int, optional
        `(d1, ...)`: shape of each sample's targets; the linear layer's weight is `(C * d1 * ...,
        in_features)`.
    bias : bool, optional
        Whether the linear layer has a bias.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    weight : Tensor, optional
        `(C,)`: a weight per class.
    ignore_index : int, optional
        Targets of this class are ignored; by default -100, for class numbers.
    label_smoothing : float, optional
        The share of each target that is distributed evenly over all classes.
    options : LinearCrossEntropyOptions, optional
        How the logits are computed in chunks of rows; by default at once. With `weight`,
        `label_smoothing`, `out_features` or probabilities also at once.

    Raises
    ------
    RuntimeError
        weight has another shape, or label_smoothing is not within 0 and 1.

    See Also
    --------
    CrossEntropyLoss, Linear

    Examples
    --------
    >>> loss = nn.LinearCrossEntropyLoss(8, num_classes=3)
    >>> loss(st.ones(4, 8), st.tensor([0, 1, 2, 0])).shape
    Size([])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"LinearCrossEntropyLoss: expected weight shape to be {(num_classes,)}: "
                f"{tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                "LinearCrossEntropyLoss: expected label_smoothing to be in range [0, 1]: "
                f"{label_smoothing}"
            )
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        rows = num_classes * math.prod(out_features)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(N, in_features) or (in_features,); target of class numbers (N, d1, ...) or (), or of
        probabilities (N, C, d1, ...) or (C,).
        """
        linear, bias = self.linear, self.linear.bias
        shape = (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            linear.weight.reshape(*shape, linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(*shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class CTCLoss(_Loss):
    """Minus the log-probability of all alignments of a sequence of labels (Graves et al. 2006).

    Parameters
    ----------
    blank : int, optional
        The class that stands for no label.
    reduction : str, optional
        "none", "sum", or "mean", which divides each loss by its target's length first.
    zero_infinity : bool, optional
        Whether an infinite loss (a target too long for its input) counts as 0.

    See Also
    --------
    functional.ctc_loss

    Notes
    -----
    The call takes log-probabilities `(T, N, C)`, targets `(N, S)` or concatenated, and the lengths
    of inputs and targets `(N)`.

    Examples
    --------
    >>> log_probs = st.full((4, 1, 3), -1.0986)
    >>> loss = nn.CTCLoss()(log_probs, st.tensor([[1, 2]]), st.tensor([4]), st.tensor([2]))
    >>> loss.shape
    Size([])
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """(T, N, C) or (T, C); targets (N, S) or one after another (sum of lengths,); lengths (N,)
        or ().
        """
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )


class BCELoss(_WeightedLoss):
    """The cross entropy of probabilities of two classes.

    Parameters
    ----------
    weight : Tensor, optional
        Factors of the losses, of a shape that broadcasts.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Raises
    ------
    RuntimeError
        In the call: the input is not within 0 and 1.

    See Also
    --------
    BCEWithLogitsLoss, functional.binary_cross_entropy

    Notes
    -----
    -(y * log(x) + (1 - y) * log(1 - x)), with logarithms of at least -100. Shape: two tensors of
    one shape, to `()`.

    Examples
    --------
    >>> nn.BCELoss()(st.tensor([0.5, 1.0]), st.tensor([1., 1.]))
    tensor(0.3466)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape, both within 0 and 1."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """The cross entropy of two classes from logits, without overflow.

    Parameters
    ----------
    weight : Tensor, optional
        Factors of the losses, of a shape that broadcasts.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.
    pos_weight : Tensor, optional
        Factors of the losses of positive targets, of a shape that broadcasts: more than 1 raises
        recall.

    See Also
    --------
    BCELoss, CrossEntropyLoss, functional.binary_cross_entropy_with_logits

    Notes
    -----
    `BCELoss` of sigmoid(input). Shape: two tensors of one shape, to `()`.

    Examples
    --------
    >>> nn.BCEWithLogitsLoss()(st.tensor([0., 1000.]), st.tensor([1., 1.]))
    tensor(0.3466)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """target * (log target - input), of an input in log-probabilities.

    Parameters
    ----------
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`.
    reduction : str, optional
        "mean" over the elements, their "sum", "batchmean" (the sum over the batch size, which is
        the divergence) or "none".
    log_target : bool, optional
        Whether the target is in log-probabilities, too.

    See Also
    --------
    functional.kl_div

    Notes
    -----
    Shape: two tensors of one shape, to `()`.

    Examples
    --------
    >>> loss = nn.KLDivLoss(reduction="batchmean")
    >>> loss(st.tensor([[0.5, 0.5]]).log(), st.tensor([[0., 1.]]))
    tensor(0.6931)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Minus the log-likelihood of counts under Poisson distributions, up to a constant.

    Parameters
    ----------
    log_input : bool, optional
        Whether the input is the logarithm of the rate.
    full : bool, optional
        Whether Stirling's formula approximates the constant.
    size_average : bool, optional
        The older way to name a reduction, see `reduce`.
    eps : float, optional
        Added to the rate inside the logarithm, if not `log_input`.
    reduce : bool, optional
        With `size_average` it overrides `reduction`.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Notes
    -----
    exp(input) - target * input, or input - target * log(input + eps). Shape: two tensors of one
    shape, to `()`.

    Examples
    --------
    >>> nn.PoissonNLLLoss(log_input=False)(st.tensor([2.]), st.tensor([0.]))
    tensor(2.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape."""
        return F.poisson_nll_loss(
            input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Minus the log-likelihood under normal distributions of given variances (Nix and Weigend
    1994).

    Parameters
    ----------
    full : bool, optional
        Whether the constant log(2 * pi) / 2 is added.
    eps : float, optional
        The least variance; the gradient ignores the limit.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    See Also
    --------
    functional.gaussian_nll_loss

    Notes
    -----
    The call takes input, target and var: (log(var) + (input - target) ** 2 / var) / 2.

    Examples
    --------
    >>> nn.GaussianNLLLoss()(st.tensor([1.]), st.tensor([3.]), st.tensor([1.]))
    tensor(2.)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Three tensors of one shape; var may lack the last dimension or have size 1 there."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class HingeEmbeddingLoss(_Loss):
    """The distance of equals, and how far others are nearer than a margin.

    Parameters
    ----------
    margin : float, optional
        How far others should be.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Notes
    -----
    input where the target is 1, max(0, margin - input) where it is -1. Shape: two tensors of one
    shape, to `()`.

    Examples
    --------
    >>> loss = nn.HingeEmbeddingLoss(reduction="none")
    >>> loss(st.tensor([0.5, 0.25]), st.tensor([1., -1.]))
    tensor([0.5000, 0.7500])
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * input)), for targets 1 and -1.

    Parameters
    ----------
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Notes
    -----
    Shape: two tensors of one shape, to `()`.

    Examples
    --------
    >>> nn.SoftMarginLoss()(st.tensor([0.]), st.tensor([1.]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """How far the first input is from exceeding the second by a margin, where the target is 1.

    Parameters
    ----------
    margin : float, optional
        By how much it should.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Notes
    -----
    max(0, -target * (input1 - input2) + margin); a target of -1 asks for the opposite order. Shape:
    three tensors of one shape, to `()`.

    Examples
    --------
    >>> loss = nn.MarginRankingLoss(margin=1.0)
    >>> loss(st.tensor([3.]), st.tensor([5.]), st.tensor([1.]))
    tensor(3.)
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Three tensors of one shape."""
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class CosineEmbeddingLoss(_Loss):
    """1 - cos of vectors whose target is 1, max(0, cos - margin) of those whose target is -1.

    Parameters
    ----------
    margin : float, optional
        The cosine up to which others are far enough.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Notes
    -----
    Shape: two tensors `(N, D)` and targets `(N)`, or `(D)` and `()`, to `()`.

    Examples
    --------
    >>> loss = nn.CosineEmbeddingLoss()
    >>> loss(st.tensor([[1., 0.]]), st.tensor([[0., 2.]]), st.tensor([1.]))
    tensor(1.)
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Vectors (N, D) or (D,), target (N,) or ()."""
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """How far an anchor is from being nearer to the positive than to the negative by a margin.

    Parameters
    ----------
    margin : float, optional
        By how much, more than 0.
    p : float, optional
        The order of the distance's norm.
    eps : float, optional
        Added to each difference, so that the gradient at 0 is defined.
    swap : bool, optional
        Whether the nearer of anchor and positive is compared with the negative (Balntas et al.
        2016).
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Raises
    ------
    ValueError
        margin is not greater than 0.

    See Also
    --------
    TripletMarginWithDistanceLoss

    Notes
    -----
    max(0, d(anchor, positive) - d(anchor, negative) + margin). Shape: three tensors `(N, D)` or
    `(D)`, to `()`.

    Examples
    --------
    >>> anchor, positive, negative = st.zeros(1, 2), st.zeros(1, 2), st.ones(1, 2)
    >>> nn.TripletMarginLoss(margin=3.0, p=1)(anchor, positive, negative).round()
    tensor(1.)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: margin should be greater than 0: {margin}")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Three tensors (N, D) or (D,)."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` by any distance.

    Parameters
    ----------
    distance_function : callable, optional
        Of two tensors; by default `PairwiseDistance()`.
    margin : float, optional
        By how much the anchor should be nearer to the positive, more than 0.
    swap : bool, optional
        Whether the nearer of anchor and positive is compared with the negative.
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Raises
    ------
    ValueError
        margin is not greater than 0.

    Examples
    --------
    >>> loss = nn.TripletMarginWithDistanceLoss(
    ...     distance_function=lambda x, y: (x - y).abs().amax(-1)
    ... )
    >>> loss(st.zeros(1, 2), st.zeros(1, 2), st.tensor([[0.5, 0.25]]))
    tensor(0.5000)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: margin should be greater than 0: {margin}"
            )
        self.distance_function = distance_function or PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Three tensors (N, *)."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class MultiMarginLoss(_WeightedLoss):
    """The margin loss of samples with one true class.

    Parameters
    ----------
    p : int, optional
        The exponent, 1 or 2.
    margin : float, optional
        By how much the true class should exceed the others.
    weight : Tensor, optional
        `(C,)`: a weight per class.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Raises
    ------
    ValueError
        p is neither 1 nor 2, or weight has not one dimension.

    Notes
    -----
    The mean over the wrong classes c of max(0, margin - input[target] + input[c]) ** p. Shape: `(N,
    C)` or `(C)` with int64 class numbers `(N)` or `()`.

    Examples
    --------
    >>> nn.MultiMarginLoss()(st.tensor([[2., 1.5]]), st.tensor([0]))
    tensor(0.2500)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: only p == 1 and p == 2 are supported: {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: weight must be 1-d: {tuple(weight.shape)}")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(N, C) or (C,), target of class numbers (N,) or ()."""
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class MultiLabelMarginLoss(_Loss):
    """The margin loss of samples with several true classes, as class numbers.

    Parameters
    ----------
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Notes
    -----
    The sum over true classes t and others c of max(0, 1 - input[t] + input[c]) / C. Shape: `(N, C)`
    or `(C)` with int64 class numbers of the same shape, of which those before the first -1 count.

    Examples
    --------
    >>> nn.MultiLabelMarginLoss()(st.tensor([[1., 0.5]]), st.tensor([[0, -1]]))
    tensor(0.2500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(N, C) or (C,), target of class numbers of the same shape, used up to the first -1."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of the cross entropy of sigmoid(input) and a target from 0 to 1.

    Parameters
    ----------
    weight : Tensor, optional
        `(C,)`: a weight per class.
    size_average, reduce : bool, optional
        The older way to name a reduction, which overrides `reduction`: reduce=False is "none",
        size_average=False is "sum", any other choice "mean".
    reduction : str, optional
        "mean" over the elements, their "sum", or "none" for one loss an element.

    Notes
    -----
    Shape: two tensors `(N, C)`, to `()`.

    Examples
    --------
    >>> nn.MultiLabelSoftMarginLoss()(st.tensor([[0., 0.]]), st.tensor([[1., 0.]]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors (N, C) or (C,)."""
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )
