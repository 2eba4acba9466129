"""Learning rates that change over time, by the names of torch.optim.lr_scheduler."""

from .cyclic import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from .cyclic import CyclicLR as CyclicLR
from .cyclic import OneCycleLR as OneCycleLR
from .decay import ConstantLR as ConstantLR
from .decay import CosineAnnealingLR as CosineAnnealingLR
from .decay import ExponentialLR as ExponentialLR
from .decay import LambdaLR as LambdaLR
from .decay import LinearLR as LinearLR
from .decay import MultiplicativeLR as MultiplicativeLR
from .decay import MultiStepLR as MultiStepLR
from .decay import PolynomialLR as PolynomialLR
from .decay import StepLR as StepLR
from .lr_scheduler import LRScheduler as LRScheduler
from .reduce_on_plateau import ReduceLROnPlateau as ReduceLROnPlateau
from .sequential_chained import ChainedScheduler as ChainedScheduler
from .sequential_chained import SequentialLR as SequentialLR

_LRScheduler = LRScheduler  # the older name, which users' subclasses use
