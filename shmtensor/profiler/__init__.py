"""Where the time and the memory of a run go, in all its processes: `torch.profiler` by name."""

from typing import TYPE_CHECKING

from ..absent_names import missing as _missing

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

if TYPE_CHECKING:
    from .profiler import ProfilerAction as ProfilerAction
    from .profiler import ProfilerActivity as ProfilerActivity
    from .profiler import profile as profile
    from .profiler import schedule as schedule
    from .profiler import supported_activities as supported_activities
    from .profiler import tensorboard_trace_handler as tensorboard_trace_handler
    from .ranges import record_function as record_function
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:  # imported on first access: ops import `profiling` from here
            raise _missing(__name__, name)
        from importlib import import_module

        file = "ranges" if name == "record_function" else "profiler"
        value = getattr(import_module(f"{__name__}.{file}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
