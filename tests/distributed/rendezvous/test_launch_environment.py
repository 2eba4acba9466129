"""What launchers set in the environment, and ranks that know each other only by it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import suppress

import pytest

from shmtensor import distributed as dist
from shmtensor.distributed.rendezvous.hosts import address_of, spans_hosts
from shmtensor.distributed.rendezvous.launch_environment import first_host, launch_environment

from ..backends.test_mpi import MPIRUN, mpirun_command
from ..run_ranks import SECRET
from .strangers import Stranger, end_all, values

TORCH = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
MASTER = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-host-7@1",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "3", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "3"}
SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "6",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "3",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1(x2)",
    "SLURM_STEP_NODELIST": "gpu[07-09,12]",
    "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.9",
}
BATCH = str(0xFFFFFFFB)  # the step of a batch script
INTERACTIVE = str(0xFFFFFFFA)  # the step of the shell that salloc starts
SHM = {"SHMTENSOR_LAUNCHER": "7"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none"}


@pytest.mark.parametrize(
    ("env", "launcher", "expected", "address"),
    [
        ({}, "", (None, None, None, None), ("", None)),
        # PyTorch's variables; without a launcher's they are a rank's only with an address
        (TORCH, "", (2, 4, 0, 2), ("", None)),
        (TORCH | MASTER, "environment", (2, 4, 0, 2), ("10.0.0.1", 29500)),
        (TORCH | MASTER | TORCHRUN, "torchrun", (2, 4, 0, 2), ("10.0.0.1", 29500)),
        (TORCH | SHM, "shmtensor.run", (2, 4, 0, 2), ("", None)),
        (MASTER, "", (None, None, None, None), ("10.0.0.1", 29500)),
        # MPI
        (OPEN_MPI, "Open MPI", (3, 4, 1, 2), ("", None)),
        (MPICH, "MPICH", (1, 3, 1, 3), ("", None)),
        (OPEN_MPI | MASTER, "Open MPI", (3, 4, 1, 2), ("10.0.0.1", 29500)),
        # Slurm; MPI's daemons are tasks of it, and PMI_RANK alone is that of `srun --mpi=pmi2`
        (SLURM, "Slurm", (5, 6, 0, 1), ("gpu07", 26_573)),
        (SLURM | {"SLURM_NODEID": "1"}, "Slurm", (5, 6, 0, 2), ("gpu07", 26_573)),
        (SLURM | {"SLURM_STEP_ID": "1"}, "Slurm", (5, 6, 0, 1), ("gpu07", 29_531)),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "9"}, "Slurm", (5, 9, 0, 1), ("gpu07", 26_573)),
        (SLURM | {"PMI_RANK": "5", "PMI_SIZE": "6"}, "Slurm", (5, 6, 0, 1), ("gpu07", 26_573)),
        (SLURM | OPEN_MPI, "Open MPI", (3, 4, 1, 2), ("", None)),
        (SLURM | MPICH, "MPICH", (1, 3, 1, 3), ("", None)),
        (SLURM | {"MASTER_ADDR": "gpu01"}, "Slurm", (5, 6, 0, 1), ("gpu01", 26_573)),
        (SLURM | {"SLURM_STEP_ID": BATCH}, "", (None, None, None, None), ("", None)),
        (SLURM | {"SLURM_STEP_ID": INTERACTIVE}, "", (None, None, None, None), ("", None)),
        (SLURM | {"SLURM_STEP_ID": ""}, "", (None, None, None, None), ("", None)),
        # a launcher inside a job: the outer one's places are not the rank's
        (SLURM | TORCH | MASTER | TORCHRUN, "torchrun", (2, 4, 0, 2), ("10.0.0.1", 29500)),
        (SLURM | {"RANK": "2", "WORLD_SIZE": "4"} | SHM, "shmtensor.run", (2, 4, None, None),
         ("", None)),
        # a script that has set some of PyTorch's variables by itself
        (SLURM | {"RANK": "5", "WORLD_SIZE": "6"}, "Slurm", (5, 6, 0, 1), ("gpu07", 26_573)),
        (OPEN_MPI | {"RANK": "x", "LOCAL_RANK": "7"}, "Open MPI", (3, 4, 7, 2), ("", None)),
        (OPEN_MPI | {"RANK": "0"}, "", (0, None, None, None), ("", None)),
    ],
)  # fmt: skip
def test_what_each_launcher_says(
    env: dict[str, str],
    launcher: str,
    expected: tuple[int | None, ...],
    address: tuple[str, int | None],
) -> None:
    launch = launch_environment(env=env)
    assert launch.launcher == launcher
    assert (launch.rank, launch.world_size, launch.local_rank, launch.local_world_size) == expected
    assert (launch.master_addr, launch.master_port) == address
    assert launch.is_launched == bool(launcher)


@pytest.mark.parametrize(
    "env",
    [
        OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        MPICH | {"PMI_RANK": "0", "PMI_SIZE": "1"},
        SLURM | {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
        TORCH | MASTER | {"RANK": "0", "WORLD_SIZE": "1"},
    ],
)
def test_a_job_of_one_task_is_no_launched_rank(env: dict[str, str]) -> None:
    """But init_process_group() makes it a group of one."""
    launch = launch_environment(env=env)
    assert (launch.is_launched, launch.rank, launch.world_size) == (False, 0, 1)


@pytest.mark.parametrize("env", [OPEN_MPI, MPICH, SLURM, TORCH | MASTER | TORCHRUN])
def test_a_world_size_of_1_makes_a_task_independent(env: dict[str, str]) -> None:
    assert launch_environment(env=env).is_launched
    assert not launch_environment(env=env | {"WORLD_SIZE": "1"}).is_launched


def test_arguments_count_instead_of_the_environment() -> None:
    launch = launch_environment(0, 2, OPEN_MPI)
    assert (launch.rank, launch.world_size) == (0, 2)
    assert (launch.local_world_size, launch.job) == (None, "")


def test_the_job_names_the_ranks_of_a_machine() -> None:
    assert launch_environment(env=OPEN_MPI).job == "Open MPI prterun-host-7@1"
    assert launch_environment(env=MPICH).job == f"MPICH {os.getppid()}"
    assert launch_environment(env=SLURM).job == "Slurm 4711.0"
    for env in ({}, TORCH | MASTER, OPEN_MPI | MASTER):
        assert launch_environment(env=env).job == ""


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("gpu[07-09,12],login", "gpu07"),
        ("a-1,b-[2-3]", "a-1"),
        ("rack[3,5]n[10-11].example", "rack3n10.example"),
        ("localhost", "localhost"),
        ("", ""),
    ],
)
def test_the_first_host_of_slurms_list(nodes: str, host: str) -> None:
    assert first_host(nodes) == host


def set_environment(monkeypatch: pytest.MonkeyPatch, env: dict[str, str]) -> None:
    for name in (*TORCH, *MASTER):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)


def test_several_hosts_are_known_by_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch, SLURM)
    assert spans_hosts(6, None)
    assert not spans_hosts(2, None)  # not the launcher's ranks
    assert address_of(None) == ("gpu07", 26_573)
    set_environment(monkeypatch, OPEN_MPI)  # counts before Slurm
    assert spans_hosts(4, None)
    assert not spans_hosts(4, "a name")
    with pytest.raises(ValueError, match=r"need an address: .*, set MASTER_ADDR \(rank 0's host\)"):
        address_of(None)
    assert dist.get_node_local_rank(5) == 1


# ---------------------------------------------------------------- programs
NONE = {"RANK": "", "WORLD_SIZE": "", "MASTER_ADDR": "", "MASTER_PORT": ""}
IN_MEMORY = {"sums": [True, True], "domains": 1, "staged": 0, "name": "Group"}


def launched(local_rank: int) -> dict[str, object]:
    """What the case `launched` of strangers.py prints on one machine."""
    return {**IN_MEMORY, "is_launched": True, "local_rank": local_rank}


def ranks_of(launcher: str, job: str) -> list[Stranger]:
    """Two processes with nothing but a launcher's variables."""
    if launcher == "Slurm":
        env = {"SLURM_JOB_ID": job, "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"}
        env |= {"SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "2"}
        names = "SLURM_PROCID", "SLURM_LOCALID"
    else:
        env = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        env |= {"PMIX_NAMESPACE": job}
        names = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"
    return [
        Stranger(r, 2, 1, "launched", **{**NONE, **env, **dict.fromkeys(names, str(r))})
        for r in range(2)
    ]


@pytest.mark.parametrize("launcher", ["Open MPI", "Slurm"])
def test_ranks_share_memory_with_nothing_but_the_launchers_variables(launcher: str) -> None:
    """Two jobs on one machine at the same time are two groups."""
    one, two = ranks_of(launcher, f"{os.getpid()}1"), ranks_of(launcher, f"{os.getpid()}2")
    assert values(end_all([*one, *two])) == [launched(0), launched(1)] * 2


def test_without_a_jobs_name_the_parents_pid_is_one() -> None:
    assert values(end_all(ranks_of("Open MPI", ""))) == [launched(0), launched(1)]


def ports() -> int:
    """A port that is free, as is the next one."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as server, suppress(OSError, OverflowError):
            port = int(server.getsockname()[1])
            socket.create_server(("127.0.0.1", port + 1)).close()
            return port


def test_under_torchrun_on_several_hosts_the_port_behind_its_own_is_used() -> None:
    env = {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    env |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "SHMTENSOR_SECRET": SECRET}
    env |= {"SHMTENSOR_RANKS_PER_NODE": "1"}
    port = ports()
    with socket.create_server(("127.0.0.1", port)):  # torchrun's own store
        records = end_all([Stranger(r, 2, port, "launched", **env) for r in range(2)])
    expected = {**launched(0), "name": "Engine"}
    assert [{**value, "staged": 0} for value in values(records)] == [expected] * 2


def run(*command: str) -> list[dict[str, object]]:
    """What two ranks print that a launcher has started."""
    names = (*TORCH, *MASTER, "SHMTENSOR_DOMAIN", "SHMTENSOR_SECRET")
    env = {name: value for name, value in os.environ.items() if name not in names}
    result = subprocess.run(
        [*command, "-m", Stranger.__module__, "launched"],
        env={**env, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 2, (result.returncode, result.stdout, result.stderr)
    return sorted(values([json.loads(each) for each in lines]), key=lambda v: str(v["local_rank"]))


@pytest.mark.parametrize(
    "module", ["shmtensor.run", pytest.param("torch.distributed.run", marks=pytest.mark.torch)]
)
def test_our_launcher_and_torchrun_start_the_same_script(module: str) -> None:
    assert run(sys.executable, "-m", module, "--nproc-per-node", "2") == [launched(0), launched(1)]


@pytest.mark.skipif(MPIRUN is None, reason="needs mpirun")
def test_mpirun_starts_the_same_script() -> None:
    assert run(*mpirun_command(2), sys.executable) == [launched(0), launched(1)]
