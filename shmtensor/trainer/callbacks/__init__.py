"""Callbacks of a Trainer: schedules, averages of weights, checkpoints, logs, early stopping."""

from .callback import Callback as Callback
