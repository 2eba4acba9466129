"""Which rank the program that started this process made of it: what launchers set in the
environment.

| variable of PyTorch | Open MPI | MPICH, Intel MPI | Slurm: `srun` |
|---|---|---|---|
| RANK | OMPI_COMM_WORLD_RANK | PMI_RANK | SLURM_PROCID |
| WORLD_SIZE | OMPI_COMM_WORLD_SIZE | PMI_SIZE | SLURM_STEP_NUM_TASKS or SLURM_NTASKS |
| LOCAL_RANK | OMPI_COMM_WORLD_LOCAL_RANK | MPI_LOCALRANKID | SLURM_LOCALID |
| LOCAL_WORLD_SIZE | OMPI_COMM_WORLD_LOCAL_SIZE | MPI_LOCALNRANKS | SLURM_STEP_TASKS_PER_NODE |
| MASTER_ADDR | | | the first of SLURM_STEP_NODELIST |
| MASTER_PORT | | | a number made of SLURM_JOB_ID and SLURM_STEP_ID |
| (the job) | PMIX_NAMESPACE | the parent's pid | SLURM_JOB_ID and SLURM_STEP_ID |

`python -m shmtensor.run`, `torchrun` and `shmtensor.ray.launch` set PyTorch's variables. They count
first, because these launchers run inside jobs of the others; then MPI's, whose daemons are tasks of
Slurm. Under Slurm PMI_RANK may be set without MPI_LOCALRANKID; then Slurm's variables count.
SLURM_LAUNCH_NODE_IPADDR is not rank 0's host, but that of `srun`, perhaps a login node.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

RESERVED_STEP = 0xFFFFFF00  # Slurm's numbers from here on are batch scripts and interactive shells
FIRST_PORT, N_PORTS = 20_000, 12_000  # below the ports that the kernel gives to clients
MPI = {  # rank, world size, local rank, local world size
    "Open MPI": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
}


@dataclass(frozen=True)
class LaunchEnvironment:
    """A process's place among those that one launcher has started; None or "": it is not known.

    Attributes:
        launcher: "shmtensor.run", "torchrun", "environment" (somebody has set RANK, WORLD_SIZE,
            MASTER_ADDR and MASTER_PORT), "Open MPI", "MPICH" or "Slurm".
        local_rank: the rank on its machine.
        local_world_size: how many ranks its machine has.
        master_addr: the host of rank 0.
        job: the name at which the ranks of a machine meet; "": MASTER_ADDR and MASTER_PORT are.
    """

    launcher: str = ""
    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_world_size: int | None = None
    master_addr: str = ""
    master_port: int | None = None
    job: str = ""

    @property
    def is_launched(self) -> bool:
        """Whether the process is one of several ranks."""
        return bool(self.launcher) and (self.world_size or 0) > 1


def launch_environment(
    rank: int | None = None, world_size: int | None = None, env: Mapping[str, str] | None = None
) -> LaunchEnvironment:
    """What the environment says. PyTorch's variables count; what they do not say is a launcher's of
    the table, unless its rank or world size differs.

    Args:
        rank, world_size: count instead of RANK and WORLD_SIZE.
        env: by default that of this process.
    """
    env = os.environ if env is None else env
    rank = number(env, "RANK") if rank is None else rank
    world_size = number(env, "WORLD_SIZE") if world_size is None else world_size
    others = (
        each
        for each in launchers(env)
        if rank in (None, each.rank) and world_size in (None, each.world_size)
    )
    found = next(others, LaunchEnvironment())
    local_rank, local_size = number(env, "LOCAL_RANK"), number(env, "LOCAL_WORLD_SIZE")
    master_port = number(env, "MASTER_PORT")
    return LaunchEnvironment(
        launcher_of_torch_variables(env) or found.launcher,
        found.rank if rank is None else rank,
        found.world_size if world_size is None else world_size,
        found.local_rank if local_rank is None else local_rank,
        found.local_world_size if local_size is None else local_size,
        env.get("MASTER_ADDR") or found.master_addr,
        found.master_port if master_port is None else master_port,
        found.job if master_port is None else "",
    )


def launcher_of_torch_variables(env: Mapping[str, str]) -> str:
    """The launcher that has set RANK and WORLD_SIZE; "": there is none."""
    if number(env, "RANK") is None or number(env, "WORLD_SIZE") is None:
        return ""
    if "SHMTENSOR_LAUNCHER" in env:
        return "shmtensor.run"
    if "TORCHELASTIC_RUN_ID" in env:
        return "torchrun"
    return "environment" if env.get("MASTER_ADDR") and env.get("MASTER_PORT") else ""


def launchers(env: Mapping[str, str]) -> Iterator[LaunchEnvironment]:
    """What MPI and Slurm have set, in the order in which they count."""
    for name, variables in MPI.items():
        rank, world_size, local_rank, local_size = (number(env, each) for each in variables)
        if rank is not None and world_size is not None and local_rank is not None:
            job = f"{name} {env.get('PMIX_NAMESPACE') or os.getppid()}"
            yield LaunchEnvironment(name, rank, world_size, local_rank, local_size, job=job)
    rank, node, step = (
        number(env, each) for each in ("SLURM_PROCID", "SLURM_NODEID", "SLURM_STEP_ID")
    )
    world_size = number(env, "SLURM_STEP_NUM_TASKS") or number(env, "SLURM_NTASKS")
    if rank is not None and world_size is not None and step is not None and step < RESERVED_STEP:
        job = f"{env.get('SLURM_JOB_ID', '')}.{step}"
        yield LaunchEnvironment(
            "Slurm",
            rank,
            world_size,
            number(env, "SLURM_LOCALID"),
            tasks_of_node(env.get("SLURM_STEP_TASKS_PER_NODE", ""), node),
            first_host(env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")),
            FIRST_PORT + zlib.crc32(job.encode()) % N_PORTS,
            f"Slurm {job}",
        )


def tasks_of_node(text: str, node: int | None) -> int | None:
    """The tasks of a node, by its number, of Slurm's list for all nodes: 2(x3),1 is 2, 2, 2, 1."""
    for tasks, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        if node is None or node < int(times or 1):
            return None if node is None else int(tasks)
        node -= int(times or 1)
    return None


def first_host(nodes: str) -> str:
    """The first host of Slurm's list: that of gpu[07-09,12],login is gpu07."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)
    return re.sub(r"\[([^],-]*)[^]]*\]", r"\1", first[0]) if first else ""


def number(env: Mapping[str, str], name: str) -> int | None:
    """The value of a variable; None: it is not set, or not the digits of a number."""
    text = env.get(name, "").strip()
    return int(text) if text.isdecimal() else None
