"""Callbacks of a Trainer: schedules, averages of weights, checkpoints, logs, early stopping."""

from .callback import Callback as Callback
from .csv_logger import CSVLogger as CSVLogger
from .early_stopping import EarlyStopping as EarlyStopping
from .ema import EMA as EMA
from .loss_curve import LossCurve as LossCurve
from .model_checkpoint import FileCheckpoint as FileCheckpoint
from .model_checkpoint import ModelCheckpoint as ModelCheckpoint
from .progress_bar import ProgressBar as ProgressBar
from .schedule import Schedule as Schedule
from .swa import SWA as SWA
from .tensorboard_logger import TensorBoardLogger as TensorBoardLogger
