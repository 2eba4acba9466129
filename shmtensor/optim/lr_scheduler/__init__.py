"""Learning rates that change over time, by the names of torch.optim.lr_scheduler."""

from .cyclic_onecycle import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from .cyclic_onecycle import CyclicLR as CyclicLR
from .cyclic_onecycle import OneCycleLR as OneCycleLR
from .lr_scheduler import LRScheduler as LRScheduler
from .reduce_on_plateau import ReduceLROnPlateau as ReduceLROnPlateau
from .sequential_chained import ChainedScheduler as ChainedScheduler
from .sequential_chained import SequentialLR as SequentialLR
from .step_cosine_decay import ConstantLR as ConstantLR
from .step_cosine_decay import CosineAnnealingLR as CosineAnnealingLR
from .step_cosine_decay import ExponentialLR as ExponentialLR
from .step_cosine_decay import LambdaLR as LambdaLR
from .step_cosine_decay import LinearLR as LinearLR
from .step_cosine_decay import MultiplicativeLR as MultiplicativeLR
from .step_cosine_decay import MultiStepLR as MultiStepLR
from .step_cosine_decay import PolynomialLR as PolynomialLR
from .step_cosine_decay import StepLR as StepLR

_LRScheduler = LRScheduler  # the older name, which users' subclasses use
