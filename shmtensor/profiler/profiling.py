"""Whether this process records the events of a profile, and how Python code records one:

    began = profiling.begin() if profiling.on else 0
    ...
    if began:
        profiling.end(began, "name", profiling.LOAD)

Ops and collectives are recorded in C++ (native/profiler/events.h).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import native

if TYPE_CHECKING:
    from .details import Details

OP, BACKWARD, RANGE, STEP, OPTIMIZER, LOADER_WAIT, COLLECTIVE, LOAD, QUEUE_WAIT = range(
    len(native.PROFILE_KINDS)
)

on = False  # whether this process has the file of a profile; it may be paused

begin = native.profile_begin  # the time, or 0 if nothing is recorded now
end = native.profile_end  # (began, name, kind[, nbytes])


details: Details | None = None  # what the profile of this process notes of ops beyond their times
add_observer: Callable[[Details], None]  # set by autograd/dispatch/observers.py, which calls
remove_observer: Callable[[Details], None]  # enter and leave


def call_op(name: str, function: Callable[..., Any], *operands: Any, **keywords: Any) -> Any:
    """Calls a function that is an op in the profile and no row of the op table."""
    began = begin()
    observer = details
    if observer is not None:
        observer.enter(name, operands)
    result = None
    try:
        result = function(*operands, **keywords)
    finally:
        if observer is not None:
            observer.leave(result)
    if began:
        end(began, name, OP)
    return result


def poll() -> None:
    """Joins a profile that the parent of this process has started, or leaves one that has ended:
    for places where a process comes by often, such as the begin of a batch.
    """
    if native.profile_poll() is not on:
        switch(not on)


def follow(row: int, inc: int) -> None:
    """This process records its events in the profile of its parent, given by its row."""
    if native.profile_follow(row, inc) is not on:
        switch(not on)


def switch(value: bool) -> None:
    """Turns the recording of this process's ops on or off."""
    global on
    on = value
    native.set_modes(native.PROFILED, value)
