"""What a report of a defect needs of the machine: `python -m shmtensor.utils.collect_env`."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from ..version import __version__

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]

PACKAGES = ("numpy", "posix_ipc", "cloudpickle", "scipy-openblas32", "cupy-cuda12x", "cupy-cuda13x")
OTHERS = ("torch", "jax", "scipy", "pandas", "mpi4py", "ray")


class SystemEnv(NamedTuple):
    """Versions and machine, as `get_env_info` finds them."""

    shmtensor_version: str
    python_version: str
    os: str
    libc_version: str
    cpu_info: str
    pip_packages: dict[str, str]
    configuration: str
    doctor: str


def get_env_info() -> SystemEnv:
    """The versions of the library and of what it uses, the machine, and the doctor's findings.

    Returns
    -------
    SystemEnv
        A named tuple of texts.

    Examples
    --------
    >>> from shmtensor.utils.collect_env import get_env_info
    >>> get_env_info().shmtensor_version == st.__version__
    True
    """
    from ..__config__ import show
    from ..cli.doctor.report import examine, text

    versions = {name: version for name in PACKAGES + OTHERS if (version := version_of(name))}
    return SystemEnv(
        __version__,
        sys.version.replace("\n", " "),
        platform.platform(),
        "-".join(platform.libc_ver()),
        processor(),
        versions,
        show(),
        "\n".join(line for finding in examine() for line in text(finding, 100)),
    )


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    count = sum(line.startswith("processor") for line in lines)
    return f"{count} x {names[0] if names else platform.machine()}"


def get_pretty_env_info() -> str:
    """`get_env_info` as a text for a report.

    Returns
    -------
    str
        A line for each fact, then the doctor's findings.

    Examples
    --------
    >>> from shmtensor.utils.collect_env import get_pretty_env_info
    >>> get_pretty_env_info().startswith("shmtensor: ")
    True
    """
    found = get_env_info()
    packages = ", ".join(f"{name} {version}" for name, version in found.pip_packages.items())
    return "\n".join(
        [
            f"shmtensor: {found.shmtensor_version}",
            f"Python: {found.python_version}",
            f"system: {found.os}, {found.libc_version}",
            f"processor: {found.cpu_info}",
            f"packages: {packages}",
            found.configuration.rstrip(),
            "",
            found.doctor.rstrip(),
        ]
    )


def main() -> None:
    """Prints `get_pretty_env_info()`.

    Examples
    --------
    >>> from shmtensor.utils.collect_env import main
    >>> main()
    shmtensor: ...
    """
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
