"""Stores: a few keys and values that processes agree by, by the names of torch.distributed.

| store | where | for |
|---|---|---|
| HashStore | this process | threads, tests |
| FileStore | a file of records, the last of a key counts | processes with one file system |
| TCPStore | the master's memory (tcp_store.py) | processes that know an address |
| PrefixStore | another store, under a prefix | several users of one store |

```
FileStore record   key length u32 | value length u32 (2^32 - 1: deleted) | key | value | CRC-32 u32
```

A process killed while it appends leaves half a record, which the next writer cuts off.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from zlib import crc32

from ...errors import QueueEmptyError, StoreTimeout
from ..group.operands import seconds

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store"]

TIMEOUT = timedelta(seconds=300)
LOOK = 0.01  # seconds between two looks at a file
RECORD = struct.Struct("<II")
CHECK = struct.Struct("<I")
DELETED = 0xFFFFFFFF

Value = bytes | str


def raw(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store(ABC):
    """Keys and values. What waits does so for `timeout`, then raises StoreTimeout, which is a
    TimeoutError.
    """

    timeout: timedelta = TIMEOUT

    @abstractmethod
    def change(
        self, key: str, of: Callable[[bytes | None], bytes | None]
    ) -> tuple[bytes | None, bytes | None]:
        """Replaces a value by `of` it (None: there is none), in one step; returns both."""

    @abstractmethod
    def try_get(self, key: str) -> bytes | None:
        """The value, without waiting; None if there is none."""

    @abstractmethod
    def list_keys(self) -> list[str]:
        """All keys."""

    def await_all(self, keys: Sequence[str], limit: float) -> list[str]:
        """Waits until all keys are there; returns those that are not in time."""
        end = time.monotonic() + limit if limit >= 0 else None
        while missing := [key for key in keys if self.try_get(key) is None]:
            if end is not None and time.monotonic() >= end:
                return missing
            time.sleep(LOOK)
        return []

    def set_timeout(self, timeout: timedelta | float) -> None:
        """How long `get` and `wait` wait."""
        self.timeout = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)

    def set(self, key: str, value: Value) -> None:
        """Gives the key a value."""
        self.change(key, lambda _: raw(value))

    def get(self, key: str) -> bytes:
        """The value; waits until there is one."""
        self.wait([key])
        value = self.try_get(key)
        if value is None:  # deleted meanwhile
            raise KeyError(f"{type(self).__name__}.get: no such key: {key!r}")
        return value

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, 0 at first; returns the sum."""
        _, new = self.change(key, lambda old: str(int(old or b"0") + amount).encode())
        return int(new or b"0")

    def append(self, key: str, value: Value) -> None:
        """Adds to the end of the value."""
        self.change(key, lambda old: (old or b"") + raw(value))

    def compare_set(self, key: str, expected_value: Value, desired_value: Value) -> bytes:
        """Sets the value if it is the expected one, or if there is none and "" is expected.

        Returns: the value afterwards; where there is none, `expected_value`.
        """
        expected = raw(expected_value)

        def of(old: bytes | None) -> bytes | None:
            return raw(desired_value) if (old or b"") == expected else old

        _, new = self.change(key, of)
        return expected if new is None else new

    def wait(self, keys: Sequence[str], timeout: timedelta | float | None = None) -> None:
        """Returns when all keys are there.

        Raises:
            StoreTimeout: they are not in time; it names those that are missing.
        """
        limit = seconds(self.timeout if timeout is None else timeout)
        if missing := self.await_all(list(keys), limit):
            raise StoreTimeout(
                f"{type(self).__name__}.wait: keys have not come: {missing} after {limit:g} s"
            )

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return all(self.try_get(key) is not None for key in keys)

    def delete_key(self, key: str) -> bool:
        """Takes a key away; whether it was there."""
        return self.change(key, lambda _: None)[0] is not None

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self.list_keys())

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Value]) -> None:
        """Sets several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """True: there are append, multi_get, multi_set."""
        return True

    def clone(self) -> Store:
        """The same store, for another thread: this one, as its calls exclude one another."""
        return self

    def barrier(self, key: str, world_size: int, timeout: timedelta | float | None = None) -> None:
        """Returns when so many have called it with this key, once."""
        if self.add(key, 1) >= world_size:
            self.set(f"{key}/all", "1")
        self.wait([f"{key}/all"], timeout)

    # ---------------------------------------------------------------- queues: a key's value is one
    def queue_push(self, key: str, value: Value) -> None:
        """Adds to the end of the queue of that key, which `wait` and `check` know while it holds
        something.
        """
        self.append(key, CHECK.pack(len(raw(value))) + raw(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Takes from the front; waits until there is something.

        Raises:
            QueueEmptyError: there is nothing, and `block` is False.
            StoreTimeout: nothing has come in time.
        """
        end = time.monotonic() + self.timeout.total_seconds()
        while (found := self.take_first(key)) is None:
            if not block:
                raise QueueEmptyError(f"{type(self).__name__}.queue_pop: is empty: {key!r}")
            self.wait([key], max(0.0, end - time.monotonic()))
        return found

    def queue_len(self, key: str) -> int:
        """How much lies in the queue."""
        queue, n = self.try_get(key) or b"", 0
        while queue:
            n, queue = n + 1, queue[CHECK.size + CHECK.unpack_from(queue)[0] :]
        return n

    def take_first(self, key: str) -> bytes | None:
        """Takes from the front of a queue, without waiting; None if it is empty."""
        queue, _ = self.change(key, behind_first)
        if not queue:
            return None
        return queue[CHECK.size : CHECK.size + CHECK.unpack_from(queue)[0]]


def behind_first(queue: bytes | None) -> bytes | None:
    """A queue without its first value; None where nothing is left."""
    if not queue:
        return None
    return queue[CHECK.size + CHECK.unpack_from(queue)[0] :] or None


class HashStore(Store):
    """A store in this process, for its threads.

    >>> from shmtensor.distributed import HashStore
    >>> store = HashStore()
    >>> store.set("step", "3")
    >>> store.get("step"), store.add("count", 2)
    (b'3', 2)
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._values: dict[str, bytes] = {}

    def change(
        self, key: str, of: Callable[[bytes | None], bytes | None]
    ) -> tuple[bytes | None, bytes | None]:
        with self._changed:
            old = self._values.get(key)
            new = of(old)
            if new is None:
                self._values.pop(key, None)
            else:
                self._values[key] = new
            self._changed.notify_all()
        return old, new

    def try_get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def list_keys(self) -> list[str]:
        return list(self._values)

    def await_all(self, keys: Sequence[str], limit: float) -> list[str]:
        with self._changed:
            self._changed.wait_for(
                lambda: all(key in self._values for key in keys), None if limit < 0 else limit
            )
            return [key for key in keys if key not in self._values]


class FileStore(Store):
    """A store in a file that all processes name. The file stays; delete it when all are done.

    Args:
        file_name: made if it is not there.
        world_size: accepted; not needed.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self.path = os.fspath(file_name)
        self._values: dict[str, bytes] = {}
        self._read = 0  # bytes of the file that are in _values
        self._mutex = threading.Lock()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        with self._mutex:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # the kernel lets go when it is closed
                self._catch_up(descriptor)
                yield descriptor
            finally:
                os.close(descriptor)

    def _catch_up(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        if size < self._read:  # another file by that name
            self._values, self._read = {}, 0
        data = os.pread(descriptor, size - self._read, self._read)
        at = 0
        while at + RECORD.size <= len(data):
            n, m = RECORD.unpack_from(data, at)
            end = at + RECORD.size + n + (0 if m == DELETED else m)
            body = data[at:end]
            if end + CHECK.size > len(data) or CHECK.unpack_from(data, end)[0] != crc32(body):
                break
            key = body[RECORD.size : RECORD.size + n].decode()
            if m == DELETED:
                self._values.pop(key, None)
            else:
                self._values[key] = body[RECORD.size + n :]
            at = end + CHECK.size
        self._read += at
        if self._read < size:
            os.ftruncate(descriptor, self._read)

    def change(
        self, key: str, of: Callable[[bytes | None], bytes | None]
    ) -> tuple[bytes | None, bytes | None]:
        with self._locked() as descriptor:
            old = self._values.get(key)
            new = of(old)
            if new != old:
                name = key.encode()
                body = RECORD.pack(len(name), DELETED if new is None else len(new))
                body += name + (new or b"")
                os.pwrite(descriptor, body + CHECK.pack(crc32(body)), self._read)
                self._catch_up(descriptor)
        return old, new

    def try_get(self, key: str) -> bytes | None:
        with self._locked():
            return self._values.get(key)

    def list_keys(self) -> list[str]:
        with self._locked():
            return list(self._values)


class PrefixStore(Store):
    """Another store, where every key has a prefix.

    Attributes:
        prefix, underlying_store: what it was made of.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        self.prefix = prefix
        self.underlying_store = store
        self.timeout = store.timeout

    def set_timeout(self, timeout: timedelta | float) -> None:
        super().set_timeout(timeout)
        self.underlying_store.set_timeout(timeout)

    def _name(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def change(
        self, key: str, of: Callable[[bytes | None], bytes | None]
    ) -> tuple[bytes | None, bytes | None]:
        return self.underlying_store.change(self._name(key), of)

    def try_get(self, key: str) -> bytes | None:
        return self.underlying_store.try_get(self._name(key))

    def list_keys(self) -> list[str]:
        n = len(self.prefix) + 1
        return [
            key[n:] for key in self.underlying_store.list_keys() if key.startswith(self._name(""))
        ]

    def await_all(self, keys: Sequence[str], limit: float) -> list[str]:
        n = len(self.prefix) + 1
        missing = self.underlying_store.await_all([self._name(key) for key in keys], limit)
        return [key[n:] for key in missing]

    # These are one step in a store that is elsewhere, where `change` would be several.
    def set(self, key: str, value: Value) -> None:
        self.underlying_store.set(self._name(key), value)

    def add(self, key: str, amount: int) -> int:
        return self.underlying_store.add(self._name(key), amount)

    def append(self, key: str, value: Value) -> None:
        self.underlying_store.append(self._name(key), value)

    def compare_set(self, key: str, expected_value: Value, desired_value: Value) -> bytes:
        return self.underlying_store.compare_set(self._name(key), expected_value, desired_value)

    def delete_key(self, key: str) -> bool:
        return self.underlying_store.delete_key(self._name(key))

    def take_first(self, key: str) -> bytes | None:
        return self.underlying_store.take_first(self._name(key))

    def __getattr__(self, name: str) -> Any:
        if name in ("host", "port"):
            return getattr(self.underlying_store, name)
        raise AttributeError(f"PrefixStore has no attribute {name!r}")
