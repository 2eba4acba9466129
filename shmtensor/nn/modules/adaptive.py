"""AdaptiveLogSoftmaxWithLoss: a softmax over many classes in which rare classes cost less."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ...functions import cat
from ...tensor import Tensor
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


# The layer's result, by PyTorch's name.
class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of classes sorted by frequency, in clusters (Grave et al. 2016).

    ```
    head    a number for each of the first cutoffs[0] classes, and for each cluster tail    cluster
    i: classes cutoffs[i] up to cutoffs[i + 1] - 1, from in_features
            // div_value ** (i + 1) features
    log p(class of cluster i) = log p(cluster i in head) + log p(class within the cluster)
    ```

    Parameters
    ----------
    in_features : int
        Size of the input's last dimension.
    n_classes : int
        How many classes there are; the most frequent ones come first.
    cutoffs : sequence of int
        The first class of each cluster, increasing.
    div_value : float, optional
        The features of the previous cluster over those of the next.
    head_bias : bool, optional
        Whether the head has a bias.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Raises
    ------
    ValueError
        The cutoffs do not increase from at least 1 to at most n_classes - 1.

    Notes
    -----
    The call takes `(N, in_features)` and class numbers `(N)`, and returns the log-probabilities
    `(N)` of the targets and their negative mean. `log_prob` computes all, `predict` the likeliest
    class.

    Examples
    --------
    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs=[5, 10])
    >>> x = st.randn(3, 16)
    >>> output, loss = layer(x, st.tensor([0, 7, 19]))
    >>> output.shape, loss.shape, layer.log_prob(x).shape
    (Size([3]), Size([]), Size([3, 20]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        limits = [0, *cutoffs, n_classes]
        if len(limits) == 2:
            raise ValueError("AdaptiveLogSoftmaxWithLoss: cutoffs is empty: at least 1 is needed")
        rising = all(low < high for low, high in pairwise(limits))
        if not rising or any(int(c) != c for c in limits):
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs should be unique, positive integers in "
                f"increasing order, each from 1 to n_classes - 1 = {n_classes - 1}: {cutoffs}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = limits[1:]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        factory = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **factory)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            features = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, features, bias=False, **factory),
                    Linear(features, size, bias=False, **factory),
                )
            )

    def reset_parameters(self) -> None:
        """New random weights in head and tail."""
        self.head.reset_parameters()
        for project, classify in self.tail:
            project.reset_parameters()
            classify.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> _ASMoutput:
        """(N, in_features) and class numbers (N,), or (in_features,) and ().

        Returns: `output`, the log-probability of each target in target's shape, and `loss`, minus
            their mean.

        Raises: RuntimeError if the shapes do not fit or a class is out of range.
        """
        self._check(input, target)
        if target.dim() == 0:
            output, loss = self.forward(input.unsqueeze(0), target.unsqueeze(0))
            return _ASMoutput(output.squeeze(0), loss)
        column = target.clone()  # the column of the head for each sample
        output = input.new_zeros(target.shape[0])
        for i, layer in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel():
                log_probs = F.log_softmax(layer(input.index_select(0, rows)), dim=1)
                class_index = (target.index_select(0, rows) - low).unsqueeze(1)
                output = output.index_copy(0, rows, log_probs.gather(1, class_index).squeeze(1))
                column.index_fill_(0, rows, self.shortlist_size + i)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, column.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output, (-output).mean())

    def _check(self, input: Tensor, target: Tensor) -> None:
        shapes = f"input {tuple(input.shape)}, target {tuple(target.shape)}"
        problem = None
        if target.dim() > 1:
            problem = f"0D or 1D target tensor expected: {shapes}"
        elif target.dim() == 1 and input.shape[0] != target.shape[0]:
            problem = f"input and target should have the same size in the batch dimension: {shapes}"
        elif input.dim() != target.dim() + 1:
            problem = f"a {target.dim()}D target expects a {target.dim() + 1}D input: {shapes}"
        elif target.numel():
            low, high = int(target.min()), int(target.max())
            if low < 0 or high >= self.n_classes:
                problem = (
                    f"target values should be in [0, {self.n_classes - 1}]: they are in "
                    f"[{low}, {high}]"
                )
        if problem is not None:
            raise RuntimeError(f"AdaptiveLogSoftmaxWithLoss: {problem}")

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes: (N, in_features) to (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, layer in enumerate(self.tail):
            cluster = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(cluster + F.log_softmax(layer(input), dim=1))
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each sample: (N, in_features) to (N,).

        A cluster is computed only for the samples whose best entry of the head is a cluster.
        """
        head = self.head(input)
        best = head.argmax(dim=1)
        unsure = (best >= self.shortlist_size).nonzero().squeeze(1)
        if unsure.numel():
            classes = self.log_prob(input.index_select(0, unsure)).argmax(dim=1)
            best = best.index_copy(0, unsure, classes)
        return best
