"""`torch.__version__` of this library: the version of PyTorch whose names and semantics it has."""

from __future__ import annotations

import re
from typing import Any

VERSION = "2.13.0+shmtensor"


class TorchVersion(str):
    """A version that compares by numbers, as PyTorch's: with a string, or with a tuple or list.

    Example:
        >>> TorchVersion() > "2.4", TorchVersion() >= (1, 10), TorchVersion().split(".")[0]
        (True, True, '2')
    """

    __slots__ = ()

    def __new__(cls, version: str = VERSION) -> TorchVersion:
        return super().__new__(cls, version)

    def __lt__(self, other: Any) -> bool:
        return release_of(self) < release_of(other)

    def __le__(self, other: Any) -> bool:
        return release_of(self) <= release_of(other)

    def __gt__(self, other: Any) -> bool:
        return release_of(self) > release_of(other)

    def __ge__(self, other: Any) -> bool:
        return release_of(self) >= release_of(other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and "+" in other:
            return str.__eq__(self, other)
        return isinstance(other, (str, tuple, list)) and release_of(self) == release_of(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def release_of(version: Any) -> tuple[int, ...]:
    """The numbers of a version, without zeros at the end: 2.13 is 2.13.0."""
    if isinstance(version, str):
        release = re.match(r"[v\s]*([0-9.]*)", version)
        assert release is not None
        parts = [int(part) for part in release[1].split(".") if part]
    else:
        parts = [int(part) for part in version if str(part).isdigit()]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)
