"""Learning rates that change over time, by the names of torch.optim.lr_scheduler."""

from .cycle import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from .cycle import CyclicLR as CyclicLR
from .cycle import OneCycleLR as OneCycleLR
from .decay import ConstantLR as ConstantLR
from .decay import CosineAnnealingLR as CosineAnnealingLR
from .decay import ExponentialLR as ExponentialLR
from .decay import LambdaLR as LambdaLR
from .decay import LinearLR as LinearLR
from .decay import MultiplicativeLR as MultiplicativeLR
from .decay import MultiStepLR as MultiStepLR
from .decay import PolynomialLR as PolynomialLR
from .decay import StepLR as StepLR
from .plateau import ReduceLROnPlateau as ReduceLROnPlateau
from .schedule import LRScheduler as LRScheduler
from .sequence import ChainedScheduler as ChainedScheduler
from .sequence import SequentialLR as SequentialLR

_LRScheduler = LRScheduler  # the older name, which subclasses out there use
