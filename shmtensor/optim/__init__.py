"""Optimizers and learning-rate schedules, by the names of torch.optim."""

from . import lr_scheduler as lr_scheduler
from .adagrad import Adagrad as Adagrad
from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .optimizer import Optimizer as Optimizer
from .sgd import SGD as SGD
from .sparse_adam import SparseAdam as SparseAdam
