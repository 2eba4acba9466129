"""Data-parallel training on the processes of one machine or several, with one copy of the weights
on each.
"""

from .history import Epoch as Epoch
from .history import History as History
from .history import TrainerStatistics as TrainerStatistics
from .trainer import Trainer as Trainer
