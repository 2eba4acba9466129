"""DeviceMesh: ranks in a grid, with groups along its lines."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor import nn
from shmtensor.distributed.device_mesh import DeviceMesh, init_device_mesh

from .run_ranks import run, values


def grid() -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
    x = st.full((3,), float(dist.get_rank()))
    dist.all_reduce(x, group=mesh.get_group("shard"))
    y = st.full((3,), float(dist.get_rank()))
    dist.all_reduce(y, group=mesh.get_group(0))
    part = mesh["shard"]
    return {
        "coordinate": mesh.get_coordinate(),
        "local": [mesh.get_local_rank("replica"), mesh.get_local_rank(-1)],
        "sums": [x[0].item(), y[0].item()],
        "part": [part.mesh.tolist(), part.mesh_dim_names, part.get_group() is mesh.get_group(1)],
        "sizes": [mesh.size(), mesh.size(1), mesh.ndim, mesh.shape, mesh.get_rank()],
        "all": mesh["replica", "shard"].mesh.tolist(),
        "groups": [g.size() for g in mesh.get_all_groups()],
    }


def test_groups_follow_the_axes() -> None:
    results = values(run(grid, 4))
    assert [f["coordinate"] for f in results] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert [f["local"] for f in results] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert [f["sums"] for f in results] == [[1, 2], [1, 4], [5, 2], [5, 4]]
    assert [f["part"][0] for f in results] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert all(f["part"][1:] == [("shard",), True] for f in results)
    assert [f["sizes"] for f in results] == [[4, 2, 2, (2, 2), rank] for rank in range(4)]
    assert all(f["all"] == [[0, 1], [2, 3]] and f["groups"] == [2, 2] for f in results)


def outside() -> Any:
    mesh = DeviceMesh("cpu", [1])
    if dist.get_rank() == 1:
        return mesh.get_group().size()
    assert mesh.get_coordinate() is None
    with pytest.raises(RuntimeError, match=r"rank 0 is not in \[1\]"):
        mesh.get_group()
    return None


def test_a_rank_that_is_not_in_the_mesh() -> None:
    assert values(run(outside, 2)) == [None, 1]


def averaged_along_a_line() -> float:
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
    model = dist.DistributedDataParallel(nn.Linear(1, 1), device_mesh=mesh["replica"])
    model(st.full((1, 1), float(dist.get_rank()))).sum().backward()
    with pytest.raises(RuntimeError, match="has one dimension, this one 2"):
        dist.DistributedDataParallel(nn.Linear(1, 1), device_mesh=mesh)
    with pytest.raises(RuntimeError, match="not both"):
        group = mesh.get_group("shard")
        dist.DistributedDataParallel(
            nn.Linear(1, 1), process_group=group, device_mesh=mesh["replica"]
        )
    return float(model.module.weight.grad.item())


def test_gradients_are_averaged_along_the_mesh_that_is_given() -> None:
    assert values(run(averaged_along_a_line, 4)) == [1.0, 2.0, 1.0, 2.0]


def over_groups() -> list[Any]:
    rank = dist.get_rank()
    line = dist.DeviceMesh.from_group(dist.group.WORLD, "cpu", mesh_dim_names=("all",))
    single, _ = dist.new_subgroups(1)
    grid = dist.DeviceMesh.from_group([dist.group.WORLD, single], "cpu", [[0], [1]])
    assert grid.get_coordinate() == [rank, 0]
    assert grid.get_group(1) is single
    assert grid == dist.init_device_mesh("cpu", (2, 1)) != dist.init_device_mesh("cpu", (1, 2))
    assert len({grid, dist.init_device_mesh("cpu", (2, 1))}) == 1
    with pytest.raises(ValueError, match=r"dimension 0 of \[1, 0\] is not the group"):
        dist.DeviceMesh.from_group(dist.group.WORLD, "cpu", [1, 0])
    with pytest.raises(ValueError, match="2 groups need a mesh"):
        dist.DeviceMesh.from_group([dist.group.WORLD, single], "cpu")
    return [line["all"].size(), line.mesh.tolist()]


def test_a_mesh_over_existing_groups() -> None:
    assert values(run(over_groups, 2)) == [[2, [0, 1]]] * 2


def test_wrong_use() -> None:
    dist.init_process_group(rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match=r"of 6 ranks, there are 1: \(2, 3\)"):
            dist.init_device_mesh("cpu", (2, 3))
        with pytest.raises(ValueError, match=r"the 1 ranks may be in the mesh once: \[0, 0\]"):
            dist.DeviceMesh("cpu", [0, 0])
        with pytest.raises(ValueError, match=r"each dimension needs a different name"):
            dist.DeviceMesh("cpu", [[0]], mesh_dim_names=("a", "a"))
        mesh = dist.DeviceMesh("cpu", [[0]], mesh_dim_names=("a", "b"))
        with pytest.raises(KeyError, match="no such dimension: 'c'"):
            mesh.get_group("c")
        with pytest.raises(RuntimeError, match="which dimension"):
            mesh.get_group()
        with pytest.raises(KeyError, match="not the order"):
            mesh["b", "a"]
        assert repr(mesh) == "DeviceMesh('cpu', [[0]], mesh_dim_names=('a', 'b'))"
    finally:
        dist.destroy_process_group()
