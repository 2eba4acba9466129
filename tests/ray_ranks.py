"""A program for tests/test_ray.py: a cluster of two nodes on this machine, with two CPUs and one,
and what `shmtensor.ray.launch` does on it, as a line of JSON.

python -m tests.ray_ranks
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import shmtensor as st
import shmtensor.ray
from shmtensor import distributed as dist
from shmtensor.distributed.rendezvous.launch_environment import launch_environment
from shmtensor.errors import ProcessException


def train(how: str) -> dict[str, Any]:
    """What a rank knows of itself, and a sum over the ranks; rank 1 fails, if `how` says so."""
    is_launched = launch_environment().is_launched
    dist.init_process_group(timeout=60)
    x = st.full((50_000,), dist.get_rank() + 1.0)
    dist.all_reduce(x)
    if dist.get_rank() == 1 and how == "raise":
        raise KeyError("of the second rank")
    if dist.get_rank() == 1 and how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    group: Any = dist.group.WORLD
    names = "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"
    return {
        "numbers": [int(os.environ[name]) for name in names],
        "transport": "TCP" if group.spans_nodes else group.statistics().bytes_staged,
        "is_launched": is_launched,
        "x": x[:2],
    }


def failure(num_nodes: int, n: int, how: str) -> list[Any]:
    """The error of a run whose rank 1 fails."""
    try:
        st.ray.launch(train, num_nodes, n, (how,))
    except ProcessException as error:
        return [type(error).__name__, error.error_index, str(error)]
    return []


def main() -> None:
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        results = [st.ray.launch(train, *shape, ("",)) for shape in ((1, 2), (2, 1))]
        record: dict[str, Any] = {
            "results": [[{**r, "x": r["x"].tolist()} for r in ranks] for ranks in results],
            "raised": failure(1, 2, "raise"),
            "killed": failure(2, 1, "kill"),
        }
        try:
            st.ray.launch(train, 3, 1, timeout=0.1)
        except TimeoutError as error:
            record["no place"] = str(error)
    finally:
        ray.shutdown()
        cluster.shutdown()
    print(json.dumps(record))


if __name__ == "__main__":
    main()
