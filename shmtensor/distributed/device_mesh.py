"""DeviceMesh: the ranks of a group as a grid, with a group for each of its lines.

```
init_device_mesh("cpu", (2, 3), mesh_dim_names=("replica", "shard"))

             shard ->
 replica   0  1  2        rank 4: get_group("shard") is of 3 4 5, get_group("replica") of 1 4,
    |      3  4  5                get_coordinate() is [1, 1]
```
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd import wrap
from ..device import as_device
from .group.init_process_group import get_rank, get_world_size, new_group
from .group.process_group import ProcessGroup
from .group.world import GroupMember

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of ranks. All ranks construct it, also those that are not in it.

    Args:
        device_type: "cpu".
        mesh: int (...,): the ranks, each one once.
        mesh_dim_names: a name for each dimension of the mesh.

    Attributes:
        mesh: int64 tensor (...,): the ranks.

    Raises:
        ValueError: a rank is there twice or not in the world, or the names do not fit the mesh.

    Copies: the ranks.
    """

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: tuple[str, ...] | None = None
    ) -> None:
        as_device(device_type)
        ranks = np.array(getattr(mesh, "array", mesh), np.int64)
        self._set_mesh(device_type, ranks, mesh_dim_names)
        if len(np.unique(ranks)) != ranks.size or not np.isin(ranks, range(get_world_size())).all():
            raise ValueError(
                f"DeviceMesh: each of the {get_world_size()} ranks may be in the mesh once: "
                f"{ranks.tolist()}"
            )
        self._groups: list[ProcessGroup | None] = []
        for dim in range(ranks.ndim):
            line_group: ProcessGroup | None = None
            for line in np.moveaxis(ranks, dim, -1).reshape(-1, ranks.shape[dim]).tolist():
                group = new_group(line)
                if group is not GroupMember.NON_GROUP_MEMBER:
                    line_group = group
            self._groups.append(line_group)

    @classmethod
    def from_group(
        cls,
        group: ProcessGroup | list[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
    ) -> DeviceMesh:
        """A mesh over existing groups. It creates no groups, and is not a collective.

        Args:
            group: the group of the only dimension, or this rank's group along each one.
            mesh: the ranks; None: those of the only group.

        Raises:
            ValueError: a rank is not in its line of the mesh, no mesh for several groups.
        """
        groups = list(group) if isinstance(group, (list, tuple)) else [group]
        if mesh is None and len(groups) != 1:
            raise ValueError(f"DeviceMesh.from_group: {len(groups)} groups need a mesh")
        ranks = np.array(
            getattr(mesh, "array", groups[0].ranks if mesh is None else mesh), np.int64
        )
        as_device(device_type)
        result = cls.__new__(cls)
        result._set_mesh(device_type, ranks, mesh_dim_names)
        result._groups = list(groups)
        at = result.get_coordinate()
        for dim, each in enumerate(groups):
            index: Any = None if at is None else (*at[:dim], slice(None), *at[dim + 1 :])
            line = None if index is None else ranks[index].tolist()
            if len(groups) != ranks.ndim or line != each.ranks:
                raise ValueError(
                    f"DeviceMesh.from_group: dimension {dim} of {ranks.tolist()} is not the group "
                    f"of the ranks {each.ranks}"
                )
        return result

    def _set_mesh(self, device_type: str, ranks: Any, names: tuple[str, ...] | None) -> None:
        if names is not None and (len(set(names)) != len(names) or len(names) != ranks.ndim):
            raise ValueError(
                f"DeviceMesh: each dimension needs a different name: {names} for a mesh of shape "
                f"{ranks.shape}"
            )
        self.device_type = device_type
        self.mesh = wrap(ranks)
        self.mesh_dim_names = None if names is None else tuple(names)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self.mesh.array.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of ranks along each dimension."""
        return tuple(self.mesh.array.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of ranks along a dimension; None: of all ranks."""
        return int(self.mesh.array.size) if mesh_dim is None else self.shape[mesh_dim]

    def _dim(self, mesh_dim: int | str | None, where: str) -> int:
        if mesh_dim is None:
            if self.ndim == 1:
                return 0
            raise RuntimeError(f"{where}: which dimension? The mesh has {self.ndim}: {self.shape}")
        if isinstance(mesh_dim, int) and -self.ndim <= mesh_dim < self.ndim:
            return mesh_dim % self.ndim
        if mesh_dim in (self.mesh_dim_names or ()):
            return (self.mesh_dim_names or ()).index(str(mesh_dim))
        raise KeyError(
            f"{where}: no such dimension: {mesh_dim!r} of {self.mesh_dim_names or self.shape}"
        )

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of the ranks on this rank's line along a dimension.

        Raises:
            RuntimeError: this rank is not in the mesh; several dimensions, and none named.
            KeyError: no such dimension.
        """
        group = self._groups[self._dim(mesh_dim, "DeviceMesh.get_group")]
        if group is None:
            raise RuntimeError(
                f"DeviceMesh.get_group: rank {get_rank()} is not in {self.mesh.tolist()}"
            )
        return group

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of this rank along all dimensions."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_coordinate(self) -> list[int] | None:
        """This rank's indices in the mesh; None: it is not in it."""
        matches = np.argwhere(self.mesh.array == get_rank())
        return [int(i) for i in matches[0]] if len(matches) else None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This rank's index along a dimension."""
        return self.get_group(mesh_dim).rank()

    def get_rank(self) -> int:
        """This process's rank in the world."""
        return get_rank()

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The submesh over the named dimensions that contains this rank, with the same groups.

        Raises:
            KeyError: no such names, or in another order than the mesh has them.
        """
        dim_names = (names,) if isinstance(names, str) else tuple(names)
        dims = [self._dim(name, "DeviceMesh[...]") for name in dim_names]
        if dims != sorted(set(dims)):
            raise KeyError(
                f"DeviceMesh[...]: {dim_names} is not the order of {self.mesh_dim_names}"
            )
        coordinate = self.get_coordinate()
        if coordinate is None:
            raise RuntimeError(f"DeviceMesh[...]: rank {get_rank()} is not in the mesh")
        index = tuple(slice(None) if i in dims else c for i, c in enumerate(coordinate))
        submesh = DeviceMesh.__new__(DeviceMesh)
        submesh._set_mesh(self.device_type, self.mesh.array[index].copy(), dim_names)
        submesh._groups = [self._groups[dim] for dim in dims]
        return submesh

    def __eq__(self, other: object) -> bool:
        """Whether both have the same ranks at the same indices, and the same names."""
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        ranks = self.mesh.array
        return self.device_type, ranks.shape, tuple(ranks.reshape(-1).tolist()), self.mesh_dim_names

    def __repr__(self) -> str:
        names = f", mesh_dim_names={self.mesh_dim_names}" if self.mesh_dim_names else ""
        return f"DeviceMesh({self.device_type!r}, {self.mesh.tolist()}{names})"


def init_device_mesh(
    device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: tuple[str, ...] | None = None
) -> DeviceMesh:
    """All ranks as a grid of that shape, in row-major order. All ranks call it.

    Args:
        device_type: "cpu".
        mesh_shape: the number of ranks along each dimension.
        mesh_dim_names: a name for each dimension.

    Raises:
        ValueError: the shape does not fit the number of ranks.
    """
    n = int(np.prod(mesh_shape))
    if n != get_world_size():
        raise ValueError(
            f"init_device_mesh: the shape is of {n} ranks, there are {get_world_size()}: "
            f"{tuple(mesh_shape)}"
        )
    return DeviceMesh(device_type, np.arange(n).reshape(mesh_shape), mesh_dim_names=mesh_dim_names)


def group_along(mesh: DeviceMesh, group: ProcessGroup | None) -> ProcessGroup:
    """The group of DistributedDataParallel's device_mesh, which has one dimension.

    Raises:
        RuntimeError: it has more dimensions, or a group is given, too.
    """
    where = "DistributedDataParallel"
    if group is not None:
        raise RuntimeError(f"{where}: takes process_group or device_mesh, not both: {mesh}")
    if mesh.ndim != 1:
        raise RuntimeError(
            f"{where}: device_mesh has one dimension, this one {mesh.ndim}: {mesh}, mesh[name]?"
        )
    return mesh.get_group(0)
