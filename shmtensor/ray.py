"""Starts a function as the ranks of one or several nodes of a Ray cluster: `shmtensor.ray.launch`.

```
driver   reserves the CPUs of each node (a placement group), starts an actor for each rank
   |       RANK  WORLD_SIZE  LOCAL_RANK  MASTER_ADDR  MASTER_PORT  SHMTENSOR_SECRET
   v
actor    calls train; init_process_group() in it finds the others: in shared memory, or by TCP
```
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from .distributed.group.init_process_group import destroy_process_group
from .errors import PeerLostError, ProcessException, ProcessExitedException, ProcessRaisedException
from .multiprocessing.exit_on_exception import notify_exit_listeners

__all__ = ["launch"]

WIND_DOWN = 5.0  # seconds from the first failure, in which its cause may still be seen


def import_ray() -> Any:
    """The package ray."""
    try:
        import ray
        import ray.util.placement_group
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise RuntimeError(
            f"shmtensor.ray: needs Ray: {error}: pip install 'shmtensor[ray]'"
        ) from error
    return ray


class Rank:
    """An actor that is one rank; its process ends with it."""

    def place(self) -> tuple[str, str, int, int]:
        """The id of its node, the node's address, a port that is free there, and its pid."""
        ray = import_ray()
        with socket.create_server(("", 0)) as free:
            port = free.getsockname()[1]
        node = ray.get_runtime_context().get_node_id()
        return node, ray.util.get_node_ip_address(), port, os.getpid()

    def run(self, env: dict[str, str], train: Callable[..., Any], args: Sequence[Any]) -> Any:
        """The result of `train(*args)` in this environment. Tensors are copied by pickle."""
        os.environ.update(env)
        try:
            result = train(*args)
            destroy_process_group()
        except BaseException as error:
            notify_exit_listeners(error)  # the other ranks' waits end, and name this one
            raise
        return result


def launch(
    train: Callable[..., Any],
    num_nodes: int = 1,
    nproc_per_node: int = 1,
    args: Sequence[Any] = (),
    *,
    num_cpus: float = 1,
    num_gpus: float = 0,
    timeout: float = 300.0,
) -> list[Any]:
    """Runs `train(*args)` on `num_nodes * nproc_per_node` ranks of a Ray cluster: of the one that
    `ray.init` has connected this process to, else of a local one.

    Each rank is a process with the environment of a launcher, so `init_process_group()` and
    `Trainer.fit` in `train` need no argument. The ranks of a node share memory. Nodes communicate
    by TCP, with a secret that is made for each call. Function, arguments and results travel by Ray.

    Args:
        num_cpus, num_gpus: which each rank reserves. It sees only its own GPUs.
        timeout: seconds to wait until Ray has reserved them.

    Returns:
        The return value of each rank. Copies: all tensors, from the ranks to this process.

    Raises:
        ProcessRaisedException: a rank raised; the message has the first one's traceback.
        ProcessExitedException: a rank or its node has died; the message names both.
        TimeoutError: the cluster has no free place for so many ranks.
        RuntimeError: Ray is not installed.
    """
    if num_nodes < 1 or nproc_per_node < 1:
        raise ValueError(f"launch: there is nothing to run: {num_nodes} x {nproc_per_node} ranks")
    ray = import_ray()
    bundle = {"CPU": num_cpus * nproc_per_node, "GPU": num_gpus * nproc_per_node}
    bundle = {name: amount for name, amount in bundle.items() if amount}
    group = ray.util.placement_group([bundle] * num_nodes, strategy="STRICT_SPREAD")
    actors: list[Any] = []
    try:
        if not group.wait(timeout):
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            raise TimeoutError(
                f"launch: the cluster has no place for {num_nodes} nodes with {bundle} each: "
                f"not within {timeout} s, its nodes have {nodes}, also what others use of them"
            )
        for rank in range(num_nodes * nproc_per_node):
            strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=rank // nproc_per_node
            )
            actor = ray.remote(Rank).options(
                num_cpus=num_cpus, num_gpus=num_gpus, scheduling_strategy=strategy
            )
            actors.append(actor.remote())
        return run_ranks(ray, actors, nproc_per_node, train, args)
    finally:
        for each in actors:
            ray.kill(each)
        ray.util.remove_placement_group(group)


def run_ranks(
    ray: Any, actors: list[Any], n_local: int, train: Callable[..., Any], args: Sequence[Any]
) -> list[Any]:
    """The results of all ranks.

    Args:
        n_local: ranks of a node; those of one node follow one another.
    """
    places: dict[int, tuple[str, str, int, int]] = {}
    wait_for(ray, {rank: actor.place.remote() for rank, actor in enumerate(actors)}, places, {})
    master_addr = places[0][1] if len(actors) > n_local else "127.0.0.1"
    env = {
        "WORLD_SIZE": str(len(actors)),
        "LOCAL_WORLD_SIZE": str(n_local),
        "GROUP_WORLD_SIZE": str(len(actors) // n_local),
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": str(places[0][2]),
        "SHMTENSOR_SECRET": secrets.token_hex(16),
    }
    calls = {}
    for rank, actor in enumerate(actors):
        node, local_rank = divmod(rank, n_local)
        ranks = {"RANK": rank, "LOCAL_RANK": local_rank, "GROUP_RANK": node}
        own = {name: str(number) for name, number in ranks.items()}
        calls[rank] = actor.run.remote({**env, **own}, train, args)
    results: dict[int, Any] = {}
    wait_for(ray, calls, results, places)
    return [results[rank] for rank in range(len(actors))]


def wait_for(
    ray: Any,
    calls: dict[int, Any],
    results: dict[int, Any],
    places: dict[int, tuple[str, str, int, int]],
) -> None:
    """Adds each rank's result to `results`.

    Raises:
        ProcessException: for the rank that failed first. If it failed because it lost another, that
            one's failure counts, if Ray tells it within 5 s.
    """
    ranks = {call: rank for rank, call in calls.items()}
    pending, failures, deadline = list(ranks), dict[int, Exception](), 0.0
    while pending:
        remaining = max(0.0, deadline - time.monotonic()) if failures else None
        done, pending = ray.wait(pending, timeout=remaining)
        for call in done:
            rank = ranks[call]
            try:
                results[rank] = ray.get(call)
            except ray.exceptions.RayError as error:
                failures[rank] = error
                deadline = deadline or time.monotonic() + WIND_DOWN
        causes = [rank for rank in failures if not is_consequence(failures[rank])]
        if causes or (failures and not done) or (failures and not pending):
            first = causes[0] if causes else next(iter(failures))
            raise error_of(ray, first, failures[first], places.get(first)) from None


def is_consequence(error: Any) -> bool:
    """Whether a rank failed because it lost another one."""
    return isinstance(getattr(error, "cause", error), PeerLostError)


def error_of(
    ray: Any, rank: int, error: Any, place: tuple[str, str, int, int] | None
) -> ProcessException:
    """The exception for a rank that failed."""
    node, host, _, pid = place or ("unknown", "unknown", 0, 0)
    who = f"rank {rank} on {host} (pid {pid}, node {node})"
    if isinstance(error, ray.exceptions.RayTaskError):
        kind = type(error.cause).__name__
        return ProcessRaisedException(f"launch: {who} raised {kind}:\n\n{error}", rank, pid)
    if isinstance(error, ray.exceptions.RayActorError):
        return ProcessExitedException(f"launch: {who} has died: {error}", rank, pid)
    return ProcessException(f"launch: {who} has failed: {type(error).__name__}: {error}", rank, pid)
