"""What the driver's management library (NVML) says of a GPU: load, heat, power, processes.

It is read through the package nvidia-ml-py (`import pynvml`), which is imported at the first call.
"""

from __future__ import annotations

import importlib
from typing import Any

from .absent import cupy_for, current_or
from .devices import get_device_properties

__all__ = [
    "clock_rate",
    "device_memory_used",
    "list_gpu_processes",
    "memory_usage",
    "power_draw",
    "temperature",
    "utilization",
]

SENSOR, SM_CLOCK = 0, 1  # NVML_TEMPERATURE_GPU, NVML_CLOCK_SM
PACKAGE = "the package nvidia-ml-py is needed, hint: pip install nvidia-ml-py"


def library_and_handle(where: str, device: Any) -> tuple[Any, Any]:
    """The module pynvml, and its handle of a GPU, found by the GPU's UUID: NVML's numbers do not
    follow CUDA_VISIBLE_DEVICES.

    Raises:
        DeviceMissing: the GPU is not there.
        ModuleNotFoundError: nvidia-ml-py is not installed.
        RuntimeError: NVML does not find the driver.
    """
    index = current_or(where, device)
    try:
        nvml = importlib.import_module("pynvml")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"cuda.{where}: {PACKAGE}", name="pynvml") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError_DriverNotLoaded as error:
        raise RuntimeError(f"cuda.{where}: NVML finds no driver: {error}") from error
    return nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{get_device_properties(index).uuid}")


def device_memory_used(device: Any = None) -> int:
    """Bytes of a GPU's memory that all processes use, as `nvidia-smi` says.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    DeviceMissing
        The GPU is not there.
    ModuleNotFoundError
        nvidia-ml-py is not installed.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> if st.cuda.is_available() and find_spec("pynvml"):
    ...     assert st.cuda.device_memory_used() >= 0
    """
    nvml, handle = library_and_handle("device_memory_used", device)
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)


def memory_usage(device: Any = None) -> int:
    """The percentage of time in which a GPU's memory was read or written, over NVML's last sample.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        0 to 100.

    Raises
    ------
    DeviceMissing
        The GPU is not there.
    ModuleNotFoundError
        nvidia-ml-py is not installed.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> if st.cuda.is_available() and find_spec("pynvml"):
    ...     assert st.cuda.memory_usage() >= 0
    """
    nvml, handle = library_and_handle("memory_usage", device)
    return int(nvml.nvmlDeviceGetUtilizationRates(handle).memory)


def utilization(device: Any = None) -> int:
    """The percentage of time in which a GPU ran a kernel, over NVML's last sample.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        0 to 100.

    Raises
    ------
    DeviceMissing
        The GPU is not there.
    ModuleNotFoundError
        nvidia-ml-py is not installed.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> if st.cuda.is_available() and find_spec("pynvml"):
    ...     assert st.cuda.utilization() >= 0
    """
    nvml, handle = library_and_handle("utilization", device)
    return int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def temperature(device: Any = None) -> int:
    """The temperature of a GPU in degrees Celsius.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        Degrees.

    Raises
    ------
    DeviceMissing
        The GPU is not there.
    ModuleNotFoundError
        nvidia-ml-py is not installed.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> if st.cuda.is_available() and find_spec("pynvml"):
    ...     assert st.cuda.temperature() >= 0
    """
    nvml, handle = library_and_handle("temperature", device)
    return int(nvml.nvmlDeviceGetTemperature(handle, SENSOR))


def power_draw(device: Any = None) -> int:
    """The power that a GPU draws, in milliwatts.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        Milliwatts.

    Raises
    ------
    DeviceMissing
        The GPU is not there.
    ModuleNotFoundError
        nvidia-ml-py is not installed.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> if st.cuda.is_available() and find_spec("pynvml"):
    ...     assert st.cuda.power_draw() >= 0
    """
    nvml, handle = library_and_handle("power_draw", device)
    return int(nvml.nvmlDeviceGetPowerUsage(handle))


def clock_rate(device: Any = None) -> int:
    """The clock of a GPU's processors, in MHz.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    int
        MHz.

    Raises
    ------
    DeviceMissing
        The GPU is not there.
    ModuleNotFoundError
        nvidia-ml-py is not installed.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> if st.cuda.is_available() and find_spec("pynvml"):
    ...     assert st.cuda.clock_rate() >= 0
    """
    nvml, handle = library_and_handle("clock_rate", device)
    return int(nvml.nvmlDeviceGetClockInfo(handle, SM_CLOCK))


def list_gpu_processes(device: Any = None) -> str:
    """The processes that use a GPU, and their memory, as a text.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    str
        Without nvidia-ml-py it says that it is missing.

    Raises
    ------
    DeviceMissing
        The GPU is not there.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     assert len(st.cuda.list_gpu_processes()) > 0
    """
    cupy_for("list_gpu_processes")
    try:
        nvml, handle = library_and_handle("list_gpu_processes", device)
    except ModuleNotFoundError as error:
        return str(error)
    lines = [f"GPU:{current_or('list_gpu_processes', device)}"]
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    for each in processes:
        mib = (each.usedGpuMemory or 0) / (1024 * 1024)  # None where NVML may not see it
        lines.append(f"process {each.pid:>10d} uses {mib:>12.3f} MB GPU memory")
    return "\n".join(lines if processes else [*lines, "no processes are running"])
