"""How a process that was not forked joins the domain of its parent.

Forked children are members before they run. A spawned child gets the descriptors in its preparation
data and adopts them before it imports its main module. Any other process reads `SHMTENSOR_DOMAIN`
in its environment.
"""

from __future__ import annotations

from typing import TypedDict

from .. import native


class Preparation(TypedDict):
    """What a spawned process needs: the descriptors as numbered in that process, and the id."""

    descriptors: tuple[int, int, int]
    id: bytes


def preparation() -> Preparation:
    """Data for a process that is about to be spawned.

    Returns
    -------
    dict
        "descriptors": the numbers of this process's three descriptors; "id": the domain's id. The
        caller must pass the descriptors to the child under the same numbers (`pass_fds`,
        `spawnv_passfds`), and the dictionary to `adopt`.

    Examples
    --------
    >>> data = st.memory.preparation()
    >>> len(data["descriptors"]), len(data["id"])
    (3, 16)
    """
    return {"descriptors": native.domain_fds(), "id": native.domain_id()}


def adopt(data: Preparation) -> None:
    """Joins the domain described by `data`, duplicating its descriptors.

    Parameters
    ----------
    data : dict
        What `preparation` returned in the process that spawned this one.

    Raises
    ------
    DomainError
        They are not the files of that domain, the layout version differs, the process table is
        full, or this process already belongs to another domain.

    Examples
    --------
    A process that is in the domain already stays there:

    >>> st.memory.adopt(st.memory.preparation())
    """
    native.domain_join(*data["descriptors"], data["id"])
