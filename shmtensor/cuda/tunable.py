"""The search for the fastest matrix products, `torch.cuda.tunable`: refused, cuBLAS chooses.

It is off; what changes or reads its settings raises.
"""

from __future__ import annotations

from typing import Any

from .absent import refuse

__all__ = [
    "enable",
    "get_filename",
    "get_max_tuning_duration",
    "get_max_tuning_iterations",
    "get_results",
    "get_rotating_buffer_size",
    "get_validators",
    "is_enabled",
    "mgpu_tune_gemm_in_file",
    "read_file",
    "record_untuned_enable",
    "record_untuned_is_enabled",
    "set_filename",
    "set_max_tuning_duration",
    "set_max_tuning_iterations",
    "set_numerical_check_tolerances",
    "set_rotating_buffer_size",
    "tune_gemm_in_file",
    "tuning_enable",
    "tuning_is_enabled",
    "write_file",
]

REASON = "products are not tuned: CuPy calls cuBLAS, which chooses their kernels"


def enable(val: bool = True) -> None:
    """Turns tuning on or off; False does nothing.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: it is turned on.
    """
    if val:
        refuse("tunable.enable", REASON)


def is_enabled() -> bool:
    """Whether tuned products are used: False."""
    return False


def tuning_enable(val: bool = True) -> None:
    """Turns the search for products on or off; False does nothing.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: it is turned on.
    """
    if val:
        refuse("tunable.tuning_enable", REASON)


def tuning_is_enabled() -> bool:
    """Whether products are searched for: False."""
    return False


def record_untuned_enable(val: bool = True) -> None:
    """Turns the record of untuned products on or off; False does nothing.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: it is turned on.
    """
    if val:
        refuse("tunable.record_untuned_enable", REASON)


def record_untuned_is_enabled() -> bool:
    """Whether untuned products are recorded: False."""
    return False


def set_max_tuning_duration(duration: int) -> None:
    """The milliseconds of a search.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.set_max_tuning_duration", REASON)


def get_max_tuning_duration() -> int:
    """The milliseconds of a search.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.get_max_tuning_duration", REASON)


def set_max_tuning_iterations(iterations: int) -> None:
    """The number of trials of a search.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.set_max_tuning_iterations", REASON)


def get_max_tuning_iterations() -> int:
    """The number of trials of a search.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.get_max_tuning_iterations", REASON)


def set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """The file of results.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.set_filename", REASON)


def get_filename() -> str:
    """The file of results.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.get_filename", REASON)


def get_results() -> Any:
    """The results of searches.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.get_results", REASON)


def get_validators() -> Any:
    """What results depend on.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.get_validators", REASON)


def read_file(filename: str | None = None) -> bool:
    """Reads results.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.read_file", REASON)


def write_file(filename: str | None = None) -> bool:
    """Writes results.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.write_file", REASON)


def tune_gemm_in_file(filename: str) -> None:
    """Searches for the products in a file.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.tune_gemm_in_file", REASON)


def mgpu_tune_gemm_in_file(filename_pattern: str, num_gpus: int) -> None:
    """Searches for the products in files, on several GPUs.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.mgpu_tune_gemm_in_file", REASON)


def set_rotating_buffer_size(buffer_size: int) -> None:
    """The memory that trials go round in, in MiB.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.set_rotating_buffer_size", REASON)


def get_rotating_buffer_size() -> int:
    """The memory that trials go round in, in MiB.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.get_rotating_buffer_size", REASON)


def set_numerical_check_tolerances(
    enable: bool, atol: float | None = None, rtol: float | None = None
) -> None:
    """The tolerance of a result's check.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: products are not tuned.
    """
    refuse("tunable.set_numerical_check_tolerances", REASON)
