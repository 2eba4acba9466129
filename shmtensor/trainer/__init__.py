"""Data-parallel training on the processes of one machine, with one copy of the weights."""

from .history import Epoch as Epoch
from .history import History as History
from .history import TrainerStatistics as TrainerStatistics
from .trainer import Trainer as Trainer
