"""Functions of values, with inverse and Jacobian: `torch.distributions.transforms`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...absent_names import missing as _missing
from .composed import CatTransform as CatTransform
from .composed import ComposeTransform as ComposeTransform
from .composed import IndependentTransform as IndependentTransform
from .composed import StackTransform as StackTransform
from .composed import identity_transform as identity_transform
from .elementwise import AbsTransform as AbsTransform
from .elementwise import AffineTransform as AffineTransform
from .elementwise import CumulativeDistributionTransform as CumulativeDistributionTransform
from .elementwise import ExpTransform as ExpTransform
from .elementwise import PowerTransform as PowerTransform
from .elementwise import SigmoidTransform as SigmoidTransform
from .elementwise import SoftplusTransform as SoftplusTransform
from .elementwise import TanhTransform as TanhTransform
from .of_events import CorrCholeskyTransform as CorrCholeskyTransform
from .of_events import LowerCholeskyTransform as LowerCholeskyTransform
from .of_events import PositiveDefiniteTransform as PositiveDefiniteTransform
from .of_events import ReshapeTransform as ReshapeTransform
from .of_events import SoftmaxTransform as SoftmaxTransform
from .of_events import StickBreakingTransform as StickBreakingTransform
from .transform import Transform as Transform

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


if not TYPE_CHECKING:  # with it a checker would take any name for one of the module's

    def __getattr__(name: str) -> Any:
        raise _missing(__name__, name)
