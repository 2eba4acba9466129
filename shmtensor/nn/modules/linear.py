"""Layers with a matrix product: Linear, LazyLinear, Bilinear; and Identity."""

from __future__ import annotations

import math
from typing import Any

from ...functions import empty
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import check_sizes

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input unchanged: a layer that takes another's place.

    Parameters
    ----------
    *args, **kwargs
        Any; they are ignored, so that the layer can replace one with arguments.

    Notes
    -----
    Shape: any. Copies: none.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> model[1] = nn.Identity()
    >>> x = st.ones(3)
    >>> nn.Identity(54, unused=True)(x) is x
    True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input itself. Copies: none."""
        return input


class Linear(Module):
    """A dense layer: `input @ weight.T + bias`.

    Parameters
    ----------
    in_features : int
        Size of the input's last dimension.
    out_features : int
        Size of the result's last dimension.
    bias : bool, optional
        Whether a bias is added.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(out_features, in_features)`, drawn uniformly from -1 / sqrt(in_features) to 1 /
        sqrt(in_features).
    bias : Parameter or None
        `(out_features,)`, drawn from the same range.

    Raises
    ------
    RuntimeError
        In the call: the input's last size is not in_features.

    See Also
    --------
    LazyLinear, Bilinear, functional.linear

    Notes
    -----
    Shape: `(..., in_features)` to `(..., out_features)`.

    Examples
    --------
    >>> layer = nn.Linear(3, 2)
    >>> layer(st.ones(4, 3)).shape
    Size([4, 2])
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]
    [('weight', (2, 3)), ('bias', (2,))]
    >>> nn.Linear(3, 2, bias=False)
    Linear(in_features=3, out_features=2, bias=False)
    """

    in_features: int
    out_features: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_sizes(self, in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws both uniformly from +-1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features)."""
        return F.linear(input, *self._weight_and_bias())

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that takes in_features from its first input, and is a plain Linear from then on.

    Parameters
    ----------
    out_features : int
        Size of the result's last dimension.
    bias : bool, optional
        Whether a bias is added.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    See Also
    --------
    Linear

    Notes
    -----
    Until the first call the parameters have no shape: make the optimizer after it.

    Examples
    --------
    >>> layer = nn.LazyLinear(2)
    >>> layer(st.ones(4, 3)).shape
    Size([4, 2])
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws both uniformly from +-1 / sqrt(in_features), if that is known."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Makes the parameters for an input of shape (..., in_features)."""
        in_features = input.shape[-1]
        if self.has_uninitialized_params():
            self.in_features = in_features
            self._materialize(weight=(self.out_features, in_features), bias=(self.out_features,))
            self.reset_parameters()
        elif self.in_features == 0:  # the parameters were loaded
            loaded = self.weight.shape[-1]
            if loaded != in_features:
                raise AssertionError(
                    "LazyLinear: the input does not fit the parameters that were loaded: "
                    f"in_features {in_features} of the input, {loaded} of the weight"
                )
            self.in_features = in_features


class NonDynamicallyQuantizableLinear(Linear):
    """The class of MultiheadAttention's out_proj: a Linear with the class name of PyTorch."""


class Bilinear(Module):
    """A form of two inputs for each output: `x1 @ weight[k] @ x2 + bias[k]`.

    Parameters
    ----------
    in1_features, in2_features : int
        Sizes of the last dimensions of the two inputs.
    out_features : int
        Size of the result's last dimension.
    bias : bool, optional
        Whether a bias is added.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(out_features, in1_features, in2_features)`, drawn uniformly from -1 / sqrt(in1_features)
        to 1 / sqrt(in1_features).
    bias : Parameter or None
        `(out_features,)`, drawn from the same range.

    Notes
    -----
    Shape: `(..., in1_features)` and `(..., in2_features)` to `(..., out_features)`.

    Examples
    --------
    >>> layer = nn.Bilinear(3, 4, 2)
    >>> layer(st.ones(5, 3), st.ones(5, 4)).shape
    Size([5, 2])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_sizes(
            self, in1_features=in1_features, in2_features=in2_features, out_features=out_features
        )
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(empty(*shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws both uniformly from +-1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """(..., in1_features) and (..., in2_features) to (..., out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
