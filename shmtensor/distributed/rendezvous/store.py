"""Stores: a few keys and values that processes share, by the names of torch.distributed.

| store | where | for |
|---|---|---|
| HashStore | this process | threads, tests |
| FileStore | a file of records; a key's last record is valid | processes with one file system |
| TCPStore | the master's memory (tcp_store.py) | processes that know its address |
| PrefixStore | another store, under a prefix | several users of one store |

```
FileStore file     FIRST | record | record | ...
record             key length u32 | value length u32 (2^32 - 1: deleted) | key | value | CRC-32 u32
```

FIRST is a record that deletes a key that never was: a file that has data and does not begin with it
is no store, and is not changed. Who writes holds a lock (flock); readers need none, because records
are only appended. A process killed while it appends leaves half a record, which readers ignore and
the next writer cuts off.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from io import FileIO
from typing import Any
from zlib import crc32

from ...errors import QueueEmptyError, StoreTimeout
from ...memory.symbolic_links import resolve
from ..group.operands import seconds

TIMEOUT = timedelta(seconds=300)
POLL_SECONDS = 0.01  # between two reads of a file
RECORD = struct.Struct("<II")
U32 = struct.Struct("<I")
DELETED = 0xFFFFFFFF

Value = bytes | str


def raw(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store(ABC):
    """The base of the stores: keys and values that processes share to find each other.

    Raises
    ------
    StoreTimeout
        A method that waits: after `timeout`; it is a TimeoutError.
    KeyError
        `get`: the key has been deleted meanwhile.

    See Also
    --------
    HashStore, FileStore, TCPStore, PrefixStore

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> store = dist.HashStore()
    >>> store.set("step", "3")
    >>> isinstance(store, dist.Store), store.get("step")
    (True, b'3')
    """

    timeout: timedelta = TIMEOUT

    @abstractmethod
    def change(
        self, key: str, update: Callable[[bytes | None], bytes | None]
    ) -> tuple[bytes | None, bytes | None]:
        """Replaces a value by `update(value)` in one step (None: no value); returns both."""

    @abstractmethod
    def try_get(self, key: str) -> bytes | None:
        """The value, without waiting; None if there is none."""

    @abstractmethod
    def list_keys(self) -> list[str]:
        """All keys."""

    def await_all(self, keys: Sequence[str], limit: float) -> list[str]:
        """Waits until all keys have values; returns the keys that are missing after the limit."""
        end = time.monotonic() + limit if limit >= 0 else None
        while missing := [key for key in keys if self.try_get(key) is None]:
            if end is not None and time.monotonic() >= end:
                return missing
            time.sleep(POLL_SECONDS)
        return []

    def set_timeout(self, timeout: timedelta | float) -> None:
        """Sets how long `get` and `wait` wait."""
        self.timeout = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)

    def set(self, key: str, value: Value) -> None:
        """Sets the key's value."""
        self.change(key, lambda _: raw(value))

    def get(self, key: str) -> bytes:
        """The value; waits until there is one."""
        self.wait([key])
        value = self.try_get(key)
        if value is None:  # deleted in the meantime
            raise KeyError(f"{type(self).__name__}.get: no such key: {key!r}")
        return value

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, which is 0 at first; returns the sum."""
        _, new = self.change(key, lambda old: str(int(old or b"0") + amount).encode())
        return int(new or b"0")

    def append(self, key: str, value: Value) -> None:
        """Appends to the value."""
        self.change(key, lambda old: (old or b"") + raw(value))

    def compare_set(self, key: str, expected_value: Value, desired_value: Value) -> bytes:
        """Sets the value if it is the expected one, or if there is none and "" is expected.

        Returns: the value afterwards; where there is none, `expected_value`.
        """
        expected = raw(expected_value)

        def update(old: bytes | None) -> bytes | None:
            return raw(desired_value) if (old or b"") == expected else old

        _, new = self.change(key, update)
        return expected if new is None else new

    def wait(self, keys: Sequence[str], timeout: timedelta | float | None = None) -> None:
        """Returns when all keys have values.

        Parameters
        ----------
        keys : sequence of str
            Which.
        timeout : timedelta or float, optional
            Seconds; those of the store if None.

        Raises
        ------
        StoreTimeout
            Some have none in time; it names them.
        """
        limit = seconds(self.timeout if timeout is None else timeout)
        if missing := self.await_all(list(keys), limit):
            raise StoreTimeout(
                f"{type(self).__name__}.wait: keys have not come: {missing} after {limit:g} s"
            )

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys have values."""
        return all(self.try_get(key) is not None for key in keys)

    def delete_key(self, key: str) -> bool:
        """Deletes a key; returns whether it existed."""
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
        """True: append, multi_get and multi_set exist."""
        return True

    def clone(self) -> Store:
        """The store for another thread: this object, because its methods are thread-safe."""
        return self

    def barrier(self, key: str, world_size: int, timeout: timedelta | float | None = None) -> None:
        """Returns when `world_size` callers have called it with this key; works once for a key."""
        if self.add(key, 1) >= world_size:
            self.set(f"{key}/all", "1")
        self.wait([f"{key}/all"], timeout)

    # ---------------------------------------------------------------- queues: the value of a key
    def queue_push(self, key: str, value: Value) -> None:
        """Appends to the queue of that key. For `wait` and `check` the key exists while its queue
        is not empty.
        """
        self.append(key, U32.pack(len(raw(value))) + raw(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Removes the first value of a queue, and waits until there is one.

        Parameters
        ----------
        key : str
            Which queue.
        block : bool, optional
            Whether to wait.

        Returns
        -------
        bytes
            The value.

        Raises
        ------
        QueueEmptyError
            The queue is empty, and `block` is False.
        StoreTimeout
            No value came in time.
        """
        end = time.monotonic() + self.timeout.total_seconds()
        while (value := self.take_first(key)) is None:
            if not block:
                raise QueueEmptyError(f"{type(self).__name__}.queue_pop: is empty: {key!r}")
            self.wait([key], max(0.0, end - time.monotonic()))
        return value

    def queue_len(self, key: str) -> int:
        """The number of values in the queue."""
        queue, n, at = self.try_get(key) or b"", 0, 0
        while at < len(queue):
            n, at = n + 1, end_of_value(queue, at)
        return n

    def take_first(self, key: str) -> bytes | None:
        """Removes and returns the first value of a queue; None, without waiting, if it is empty."""
        queue, _ = self.change(key, without_first)
        return queue[U32.size : end_of_value(queue, 0)] if queue else None


def end_of_value(queue: bytes, at: int) -> int:
    """Where the value that begins at a byte of a queue ends. Raises: ValueError: it is no queue."""
    start = at + U32.size
    end = start + U32.unpack_from(queue, at)[0] if start <= len(queue) else start
    if end > len(queue):
        raise ValueError(f"queue_pop: the value is not a queue: {queue[:40]!r}")
    return end


def without_first(queue: bytes | None) -> bytes | None:
    """A queue without its first value; None if it is empty then."""
    return (queue[end_of_value(queue, 0) :] or None) if queue else None


class HashStore(Store):
    """A store in this process, for its threads.

    See Also
    --------
    FileStore, TCPStore

    Examples
    --------
    >>> from shmtensor.distributed import HashStore
    >>> store = HashStore()
    >>> store.set("step", "3")
    >>> store.get("step"), store.add("count", 2)
    (b'3', 2)
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._values: dict[str, bytes] = {}

    def change(
        self, key: str, update: Callable[[bytes | None], bytes | None]
    ) -> tuple[bytes | None, bytes | None]:
        with self._condition:
            old = self._values.get(key)
            new = update(old)
            if new is None:
                self._values.pop(key, None)
            else:
                self._values[key] = new
            self._condition.notify_all()
        return old, new

    def try_get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def list_keys(self) -> list[str]:
        return list(self._values)

    def await_all(self, keys: Sequence[str], limit: float) -> list[str]:
        with self._condition:
            self._condition.wait_for(
                lambda: all(key in self._values for key in keys), None if limit < 0 else limit
            )
            return [key for key in keys if key not in self._values]


def record(key: str, value: bytes | None) -> bytes:
    """A record of a FileStore's file; None: the key is deleted."""
    name = key.encode()
    body = RECORD.pack(len(name), DELETED if value is None else len(value)) + name + (value or b"")
    return body + U32.pack(crc32(body))


FIRST = record("FileStore", None)


class FileStore(Store):
    """A store in a file that all processes name. The file remains; delete it when all are done.

    Parameters
    ----------
    file_name : str
        Created if it does not exist. It may be empty. A symbolic link of another user in a folder
        like /tmp is not followed.
    world_size : int, optional
        Accepted; has no effect.

    Raises
    ------
    PermissionError
        Each method: the file, or a link to it, is another user's.
    StoreTimeout
        Each method: another process holds the file's lock; who only reads does not need it.
    ValueError
        Each method: the file is no store. It is not changed.

    Examples
    --------
    >>> from shmtensor.distributed import FileStore
    >>> FileStore("ranks").set("address", "here")
    >>> FileStore("ranks").get("address")
    b'here'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self.path = os.fspath(file_name)
        self._values: dict[str, bytes] = {}
        self._inode = (0, 0)  # device and number of the file whose values these are
        self._n_read = 0  # bytes of that file that are in _values
        self._last = b""  # the last record among them
        self._mutex = threading.Lock()

    @contextmanager
    def _open(self, is_writer: bool = False) -> Iterator[FileIO]:
        """The file, whose new records have been read; a writer has its lock."""
        with open(self.path, "r+b", buffering=0, opener=open_own) as file:
            if is_writer:
                self._lock(file)
            with self._mutex:
                self._read_new_records(file)
                yield file

    def _lock(self, file: FileIO) -> None:  # closing the file unlocks it
        limit, pause = self.timeout.total_seconds(), 0.0005
        end = time.monotonic() + limit
        while True:
            try:
                return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise StoreTimeout(
                        f"FileStore: another process holds the lock of the file: {self.path!r} "
                        f"after {limit:g} s"
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, POLL_SECONDS)

    def _read_new_records(self, file: FileIO) -> None:
        status = os.fstat(file.fileno())
        inode = (status.st_dev, status.st_ino)
        file.seek(self._n_read - len(self._last))
        if inode != self._inode or file.read(len(self._last)) != self._last:  # another file
            self._values, self._inode, self._n_read, self._last = {}, inode, 0, b""
        if self._n_read == 0:
            file.seek(0)
            if not FIRST.startswith(file.read(len(FIRST))):
                raise ValueError(
                    f"FileStore: the file is no store: {self.path!r} has {status.st_size} bytes "
                    "and no valid first record; name another file, or delete it"
                )
        file.seek(self._n_read)
        data, at, last = file.read(), 0, self._last
        while at + RECORD.size <= len(data):
            n, m = RECORD.unpack_from(data, at)
            end = at + RECORD.size + n + (0 if m == DELETED else m)
            body = data[at:end]
            if end + U32.size > len(data) or U32.unpack_from(data, end)[0] != crc32(body):
                break
            key = body[RECORD.size : RECORD.size + n].decode()
            if m == DELETED:
                self._values.pop(key, None)
            else:
                self._values[key] = body[RECORD.size + n :]
            at, last = end + U32.size, data[at : end + U32.size]
        self._n_read, self._last = self._n_read + at, last

    def change(
        self, key: str, update: Callable[[bytes | None], bytes | None]
    ) -> tuple[bytes | None, bytes | None]:
        with self._open(is_writer=True) as file:
            old = self._values.get(key)
            new = update(old)
            if new != old:
                file.truncate(self._n_read)  # without half a record
                file.seek(self._n_read)
                data = record(key, new) if self._n_read else FIRST + record(key, new)
                while data:  # a write is short if the disk is full; the next one raises
                    data = data[file.write(data) :]
                self._read_new_records(file)
        return old, new

    def try_get(self, key: str) -> bytes | None:
        with self._open():
            return self._values.get(key)

    def list_keys(self) -> list[str]:
        with self._open():
            return list(self._values)


def open_own(path: str, flags: int) -> int:
    """A descriptor of a regular file of this user, which is created if it does not exist.

    Raises: PermissionError: the file, or a link to it, is another user's. ValueError: no file.
    """
    name = resolve(path, "FileStore")
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(name, flags)
    except FileNotFoundError:
        descriptor = os.open(name, flags | os.O_CREAT, 0o600)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"FileStore: no regular file: {path!r}: {stat.filemode(status.st_mode)}")
    raise PermissionError(
        errno.EACCES,
        f"FileStore: the file is another user's: uid {status.st_uid}, not {os.geteuid()}",
        path,
    )


class PrefixStore(Store):
    """Another store, where every key has a prefix.

    Parameters
    ----------
    prefix : str
        What precedes each key, before a "/".
    store : Store
        The other store.

    Attributes
    ----------
    prefix, underlying_store : str, Store
        The arguments.

    Examples
    --------
    >>> from shmtensor.distributed import HashStore, PrefixStore
    >>> store = HashStore()
    >>> PrefixStore("group0", store).set("size", "4")
    >>> store.get("group0/size")
    b'4'
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
        self, key: str, update: Callable[[bytes | None], bytes | None]
    ) -> tuple[bytes | None, bytes | None]:
        return self.underlying_store.change(self._name(key), update)

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

    # Not by `change`: a TCPStore does each of these in one request.
    def set(self, key: str, value: Value) -> None:
        self.underlying_store.set(self._name(key), value)

    def add(self, key: str, amount: int) -> int:
        return self.underlying_store.add(self._name(key), amount)

    def append(self, key: str, value: Value) -> None:
        self.underlying_store.append(self._name(key), value)

    def compare_set(self, key: str, expected_value: Value, desired_value: Value) -> bytes:
        """Sets the value if it is the expected one, or if there is none and "" is expected.

        Parameters
        ----------
        key : str
            Which.
        expected_value, desired_value : str or bytes
            The value before and after.

        Returns
        -------
        bytes
            The value afterwards; where there is none, `expected_value`.
        """
        return self.underlying_store.compare_set(self._name(key), expected_value, desired_value)

    def delete_key(self, key: str) -> bool:
        return self.underlying_store.delete_key(self._name(key))

    def take_first(self, key: str) -> bytes | None:
        return self.underlying_store.take_first(self._name(key))

    def __getattr__(self, name: str) -> Any:
        if name in ("host", "port"):
            return getattr(self.underlying_store, name)
        raise AttributeError(f"PrefixStore has no attribute {name!r}")
