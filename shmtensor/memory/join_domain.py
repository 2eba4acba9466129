"""How a process that was not forked joins the domain of its family.

Forked children are members before they run. A spawned one gets the descriptors in its preparation
data and adopts them ahead of the import of its main module; anything else finds `SHMTENSOR_DOMAIN`
in its environment.
"""

from __future__ import annotations

from typing import TypedDict

from .. import native
from ..native import domain_environment, domain_id

__all__ = ["Preparation", "adopt", "domain_environment", "domain_id", "preparation"]


class Preparation(TypedDict):
    """What a spawned process needs: descriptors, as numbered in that process, and the id."""

    descriptors: tuple[int, int, int]
    id: bytes


def preparation() -> Preparation:
    """Data for a process that is about to be spawned.

    Returns:
        The numbers of this process's three descriptors and the domain's id. Who spawns has to pass
        the descriptors on (`pass_fds`, `spawnv_passfds`: same numbers in the child) and the data to
        `adopt`.
    """
    return {"descriptors": native.domain_fds(), "id": native.domain_id()}


def adopt(data: Preparation) -> None:
    """Joins the domain described by `data`, duplicating its descriptors.

    Raises:
        DomainError: they are not the files of that domain, another layout version, no row is left,
            or this process already belongs to another domain.
    """
    native.domain_join(*data["descriptors"], data["id"])
