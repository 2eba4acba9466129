"""Layers that apply one function elementwise, or along one dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ...functions import full
from ...tensor import Tensor
from .. import functional as F
from ..parameter import Parameter
from .attention import MultiheadAttention
from .module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _InPlace(Module):
    """A function without parameters that can overwrite its input."""

    _function: ClassVar[Callable[..., Any]]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return self._function(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """Rectified linear unit: max(x, 0).

    Parameters
    ----------
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    See Also
    --------
    LeakyReLU, GELU, functional.relu

    Notes
    -----
    Shape: any, and the result has the same. A NaN stays a NaN; the gradient at 0 is 0.

    Examples
    --------
    >>> nn.ReLU()(st.tensor([-1., 0., 2.]))
    tensor([0., 0., 2.])
    >>> x = st.tensor([-1., 2.])
    >>> nn.ReLU(inplace=True)(x) is x, x
    (True, tensor([0., 2.]))
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return input.relu_() if self.__dict__["inplace"] else input.relu()


class ReLU6(_InPlace):
    """A rectified linear unit with an upper limit: min(max(x, 0), 6).

    Parameters
    ----------
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.ReLU6()(st.tensor([-1., 3., 8.]))
    tensor([0., 3., 6.])
    """

    _function = staticmethod(F.relu6)


class SiLU(_InPlace):
    """x * sigmoid(x), also called swish.

    Parameters
    ----------
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: any, and the result has the same. Hendrycks and Gimpel 2016; Ramachandran et al. 2017.

    Examples
    --------
    >>> nn.SiLU()(st.tensor([-1., 0., 1.]))
    tensor([-0.2689,  0.0000,  0.7311])
    """

    _function = staticmethod(F.silu)


class Mish(_InPlace):
    """x * tanh(softplus(x)).

    Parameters
    ----------
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: any, and the result has the same. Misra 2019.

    Examples
    --------
    >>> nn.Mish()(st.tensor([-1., 0., 1.]))
    tensor([-0.3034,  0.0000,  0.8651])
    """

    _function = staticmethod(F.mish)


class SELU(_InPlace):
    """ELU with the constants of self-normalising networks (Klambauer et al. 2017).

    Parameters
    ----------
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    See Also
    --------
    AlphaDropout

    Notes
    -----
    scale * x where x is positive, else scale * alpha * (exp(x) - 1), with scale = 1.0507 and alpha
    = 1.6733: layers of it keep mean 0 and variance 1. Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.SELU()(st.tensor([-1., 0., 1.]))
    tensor([-1.1113,  0.0000,  1.0507])
    """

    _function = staticmethod(F.selu)


class Hardsigmoid(_InPlace):
    """A sigmoid of three straight lines: relu6(x + 3) / 6.

    Parameters
    ----------
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Hardsigmoid()(st.tensor([-4., 0., 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    _function = staticmethod(F.hardsigmoid)


class Hardswish(_InPlace):
    """x * relu6(x + 3) / 6, a cheaper `SiLU` (Howard et al. 2019).

    Parameters
    ----------
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Hardswish()(st.tensor([-1., 1., 5.]))
    tensor([-0.3333,  0.6667,  5.0000])
    """

    _function = staticmethod(F.hardswish)


class ELU(Module):
    """x where positive, else alpha * (exp(x) - 1).

    Parameters
    ----------
    alpha : float, optional
        The limit on the negative side, with its sign changed.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: any, and the result has the same. Clevert et al. 2015.

    Examples
    --------
    >>> nn.ELU()(st.tensor([-1., 0., 2.]))
    tensor([-0.6321,  0.0000,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(Module):
    """x where positive, else alpha * (exp(x / alpha) - 1), whose slope is continuous for every
    alpha.

    Parameters
    ----------
    alpha : float, optional
        The limit on the negative side, with its sign changed.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: any, and the result has the same. Barron 2017.

    Examples
    --------
    >>> nn.CELU(alpha=2.0)(st.tensor([-2., 0., 2.]))
    tensor([-1.2642,  0.0000,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class LeakyReLU(Module):
    """x where positive, else negative_slope * x.

    Parameters
    ----------
    negative_slope : float, optional
        The slope for negative numbers.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.LeakyReLU(0.5)(st.tensor([-2., 0., 2.]))
    tensor([-1.,  0.,  2.])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        text = f"negative_slope={self.negative_slope}"
        return text + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """x where positive, else x times a slope that is random in training (Xu et al. 2015).

    Parameters
    ----------
    lower, upper : float, optional
        In training each negative element has a slope from [lower, upper); in evaluation the slope
        is the mean of both.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.RReLU(0.25, 0.75).eval()(st.tensor([-2., 2.]))
    tensor([-1.,  2.])
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape; in evaluation the slope is the mean of lower and upper."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        text = f"lower={self.lower}, upper={self.upper}"
        return text + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """x cut off below min_val and above max_val.

    Parameters
    ----------
    min_val, max_val : float, optional
        The limits.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Raises
    ------
    AssertionError
        max_val does not exceed min_val.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Hardtanh(0.0, 2.0)(st.tensor([-1., 1., 3.]))
    tensor([0., 1., 2.])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if max_val <= min_val:
            raise AssertionError(f"Hardtanh: max_val must exceed min_val: {max_val} <= {min_val}")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        text = f"min_val={self.min_val}, max_val={self.max_val}"
        return text + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    """x where it is above a threshold, else a fixed value.

    Parameters
    ----------
    threshold : float
        What an element must exceed to stay.
    value : float
        What replaces the others.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Threshold(1.0, -5.0)(st.tensor([0., 1., 2.]))
    tensor([-5., -5.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        text = f"threshold={self.threshold}, value={self.value}"
        return text + (", inplace=True" if self.inplace else "")


class GELU(Module):
    """x times the normal distribution function of x (Hendrycks and Gimpel 2016).

    Parameters
    ----------
    approximate : str, optional
        "none", or "tanh" for the approximation by tanh.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.GELU()(st.tensor([-1., 0., 1.]))
    tensor([-0.1587,  0.0000,  0.8413])
    >>> nn.GELU(approximate="tanh")(st.tensor([-1., 0., 1.]))
    tensor([-0.1588,  0.0000,  0.8412])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Sigmoid(Module):
    """The logistic function: 1 / (1 + exp(-x)).

    Parameters
    ----------
    *args, **kwargs
        None are taken; a TypeError names what was given.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Sigmoid()(st.tensor([-1., 0., 1.]))
    tensor([0.2689, 0.5000, 0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return input.sigmoid()


class Tanh(Module):
    """The hyperbolic tangent.

    Parameters
    ----------
    *args, **kwargs
        None are taken; a TypeError names what was given.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Tanh()(st.tensor([-1., 0., 1.]))
    tensor([-0.7616,  0.0000,  0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return input.tanh()


class LogSigmoid(Module):
    """log(sigmoid(x)), without overflow.

    Parameters
    ----------
    *args, **kwargs
        None are taken; a TypeError names what was given.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.LogSigmoid()(st.tensor([-100., 0.]))
    tensor([-100.0000,   -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + abs(x)).

    Parameters
    ----------
    *args, **kwargs
        None are taken; a TypeError names what was given.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Softsign()(st.tensor([-1., 0., 3.]))
    tensor([-0.5000,  0.0000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    Parameters
    ----------
    *args, **kwargs
        None are taken; a TypeError names what was given.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Tanhshrink()(st.tensor([-1., 0., 1.]))
    tensor([-0.2384,  0.0000,  0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.tanhshrink(input)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta, a smooth `ReLU`.

    Parameters
    ----------
    beta : float, optional
        How sharp the bend is.
    threshold : float, optional
        Where beta * x exceeds it, the result is x itself.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Softplus()(st.tensor([-1., 0., 30.]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(Module):
    """x moved towards 0 by lambd, and 0 for numbers within.

    Parameters
    ----------
    lambd : float, optional
        How far; not negative.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Softshrink(1.0)(st.tensor([-3., 0.5, 2.]))
    tensor([-2.,  0.,  1.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(Module):
    """x, but 0 from -lambd to lambd.

    Parameters
    ----------
    lambd : float, optional
        The largest absolute value that becomes 0.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Hardshrink(1.0)(st.tensor([-3., 0.5, 2.]))
    tensor([-3.,  0.,  2.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class PReLU(Module):
    """x where positive, else weight * x, with a learned weight (He et al. 2015).

    Parameters
    ----------
    num_parameters : int, optional
        1 for all elements, or the number of channels.
    init : float, optional
        The weight's first value.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(num_parameters,)`.

    Notes
    -----
    Shape: any; with a weight per channel `(N, C, ...)`. The result has the same.

    Examples
    --------
    >>> nn.PReLU()(st.tensor([-2., 2.]))
    tensor([-0.5000,  2.0000], grad_fn=<PreluKernelBackward0>)
    >>> nn.PReLU(3)(st.ones(4, 3, 5)).shape
    Size([4, 3, 5])
    """

    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) with C parameters, or any shape with one."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class GLU(Module):
    """The first half along a dimension times the sigmoid of the second half (Dauphin et al. 2016).

    Parameters
    ----------
    dim : int, optional
        The dimension that is halved; its size is even.

    Notes
    -----
    Shape: `(..., 2 n, ...)` to `(..., n, ...)`.

    Examples
    --------
    >>> nn.GLU()(st.tensor([[2., 4., 0., 0.]]))
    tensor([[1., 2.]])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """(..., 2 n, ...) to (..., n, ...)."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _DimModule(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_DimModule):
    """exp(x) over its sum along a dimension: positive numbers that sum to 1.

    Parameters
    ----------
    dim : int, optional
        The dimension of the sum. None chooses one by the number of dimensions, with a warning.

    See Also
    --------
    LogSoftmax, CrossEntropyLoss

    Notes
    -----
    Shape: any, and the result has the same. `CrossEntropyLoss` takes logits: it needs no Softmax
    before it.

    Examples
    --------
    >>> nn.Softmax(dim=1)(st.tensor([[0., 0.], [100., 100.]]))
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_DimModule):
    """log(softmax(x)) along a dimension, without overflow.

    Parameters
    ----------
    dim : int, optional
        The dimension of the sum. None chooses one by the number of dimensions, with a warning.

    See Also
    --------
    NLLLoss

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.LogSoftmax(dim=1)(st.tensor([[0., 0.], [1000., 1000.]]))
    tensor([[-0.6931, -0.6931],
            [-0.6931, -0.6931]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(_DimModule):
    """softmax(-x) along a dimension: the smallest element has the largest share.

    Parameters
    ----------
    dim : int, optional
        The dimension of the sum. None chooses one by the number of dimensions, with a warning.

    Notes
    -----
    Shape: any, and the result has the same.

    Examples
    --------
    >>> nn.Softmin(dim=0)(st.tensor([0., 0., 1000.]))
    tensor([0.5000, 0.5000, 0.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels of each pixel.

    Parameters
    ----------
    *args, **kwargs
        None are taken; a TypeError names what was given.

    Raises
    ------
    ValueError
        The input has neither 3 nor 4 dimensions.

    Notes
    -----
    Shape: `(N, C, H, W)` or `(C, H, W)`, and the result has the same.

    Examples
    --------
    >>> nn.Softmax2d()(st.zeros(1, 4, 2, 2))[0, :, 0, 0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) or (C, H, W)."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D: got {input.dim()}D")
        return F.softmax(input, -3)
