"""Backends: what carries a group's collectives, by name.

| name | means |
|---|---|
| shm | shared memory within a machine, TCP between machines (tcp/); the default |
| gloo | the same as shm: PyTorch's scripts name it for the CPU |
| mpi | several machines: MPI between nodes, shared memory within (mpi/); needs mpi4py |
| nccl | GPUs of one machine, a rank each, by NCCL (nccl/); needs CuPy |
| any other | as `Backend.register_backend` defines it |
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, ClassVar

__all__ = [
    "Backend",
    "get_default_backend_for_device",
    "is_backend_available",
    "is_gloo_available",
    "is_mpi_available",
    "is_nccl_available",
    "is_ucc_available",
    "is_xccl_available",
    "supports_complex",
]

Maker = Callable[..., Any]


class Backend(str):
    """The name of a backend, in lower case; `cpu:gloo,cuda:nccl` is that of the CPU.

    Parameters
    ----------
    name : str
        "shm", "gloo" (the same), "mpi", "nccl", or one that was registered.

    Raises
    ------
    ValueError
        There is no such backend.

    Examples
    --------
    >>> from shmtensor.distributed import Backend
    >>> Backend("GLOO") == "gloo", Backend("GLOO").engine()
    (True, 'shm')
    """

    UNDEFINED = "undefined"
    SHM = "shm"
    GLOO = "gloo"
    MPI = "mpi"
    NCCL = "nccl"
    UCC = "ucc"  # names to compare with: there are no such backends
    XCCL = "xccl"
    backend_list: ClassVar[list[str]] = [SHM, GLOO, MPI, NCCL]
    makers: ClassVar[dict[str, Maker]] = {}

    def __new__(cls, name: str) -> Backend:
        """The backend of that name."""
        if not isinstance(name, str):
            raise ValueError(f"Backend: the name is not a str: {name!r}")
        lower = name.lower()
        if ":" in lower:
            devices = dict(part.split(":", 1) for part in lower.split(","))
            lower = devices.get("cpu", lower)
        if lower not in cls.backend_list:
            raise ValueError(
                f"Backend: unknown backend: {name!r}, there are {', '.join(cls.backend_list)}"
            )
        return str.__new__(cls, lower)

    @classmethod
    def register_backend(
        cls, name: str, func: Maker, extended_api: bool = False, devices: Any = None
    ) -> None:
        """Adds a backend.

        Args:
            func: `func(store, rank, size, timeout)` returns an engine: an object with the methods
                of `shmtensor.native.Group`; timeout is in seconds, negative for none.

        Raises:
            ValueError: the name is taken.
        """
        lower = name.lower()
        if lower in cls.backend_list:
            raise ValueError(f"register_backend: the name is taken: {name!r}")
        cls.backend_list.append(lower)
        cls.makers[lower] = func

    def maker(self) -> Maker | None:
        """The function that makes its engines, if it is a registered backend."""
        return self.makers.get(str(self))

    def engine(self) -> str:
        """The name of its transport: gloo is shm."""
        return str(self) if self.maker() or self in (self.MPI, self.NCCL) else self.SHM

    def make_engine(self, control: Any, timeout: float, rank: int) -> Any:
        """The engine of a group whose ranks share memory: `control` itself, or an NCCL engine on
        top of it. All ranks of the group call it; `rank` is this process's in the default group.
        """
        if self.engine() != self.NCCL:
            return control
        from ..backends.nccl.init_communicator import init_engine

        return init_engine(control, timeout, rank)


def is_gloo_available() -> bool:
    """True: the name means the same as shm.

    Returns
    -------
    bool

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.is_gloo_available()
    True
    """
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed.

    Returns
    -------
    bool

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> type(dist.is_mpi_available())
    <class 'bool'>
    """
    return find_spec("mpi4py") is not None


def is_nccl_available() -> bool:
    """Whether CuPy, NCCL and a GPU are available. Imports CuPy.

    Returns
    -------
    bool

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> type(dist.is_nccl_available())
    <class 'bool'>
    """
    from ..backends.nccl.cupy_nccl import is_usable

    return is_usable()


def is_ucc_available() -> bool:
    """False: there is no such backend.

    Returns
    -------
    bool

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.is_ucc_available()
    False
    """
    return False


def is_xccl_available() -> bool:
    """False: there is no such backend.

    Returns
    -------
    bool

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.is_xccl_available()
    False
    """
    return False


def is_backend_available(backend: str) -> bool:
    """Whether a backend of that name can be used here.

    Parameters
    ----------
    backend : str
        The name.

    Returns
    -------
    bool

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.is_backend_available("shm")
    True
    """
    name = backend.lower()
    if name in (Backend.MPI, Backend.NCCL):
        return is_mpi_available() if name == Backend.MPI else is_nccl_available()
    return name in Backend.backend_list


def get_default_backend_for_device(device: Any) -> str:
    """The backend for tensors on a device.

    Parameters
    ----------
    device : device
        The device.

    Returns
    -------
    str
        "shm" for the CPU; for a GPU "nccl" where it can be used, else "shm".

    Raises
    ------
    ValueError
        There is none, because there are no such tensors.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.get_default_backend_for_device("cpu")
    'shm'
    """
    kind = getattr(device, "type", str(device)).split(":")[0]
    if kind not in ("cpu", "cuda"):
        raise ValueError(
            f"get_default_backend_for_device: tensors are on the CPU or CUDA devices: {device!r}"
        )
    return Backend.NCCL if kind == "cuda" and is_nccl_available() else Backend.SHM


def supports_complex(reduceOp: Any) -> bool:
    """Whether the operation reduces complex numbers. They have no order, so MIN and MAX do not.

    Parameters
    ----------
    reduceOp : ReduceOp
        The operation.

    Returns
    -------
    bool

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.supports_complex(dist.ReduceOp.SUM), dist.supports_complex(dist.ReduceOp.MAX)
    (True, False)
    """
    from ..collectives.reference import ReduceOp

    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.PREMUL_SUM)
