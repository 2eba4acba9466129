"""Data-parallel training on the processes of one machine or several, with one copy of the weights
on each.
"""

from .callbacks import EMA as EMA
from .callbacks import SWA as SWA
from .callbacks import Callback as Callback
from .callbacks import CSVLogger as CSVLogger
from .callbacks import EarlyStopping as EarlyStopping
from .callbacks import LossCurve as LossCurve
from .callbacks import ModelCheckpoint as ModelCheckpoint
from .callbacks import ProgressBar as ProgressBar
from .callbacks import Schedule as Schedule
from .callbacks import TensorBoardLogger as TensorBoardLogger
from .history import Epoch as Epoch
from .history import History as History
from .history import TrainerStatistics as TrainerStatistics
from .trainer import Trainer as Trainer
