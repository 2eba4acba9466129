"""Files of their own: the memory of tensors that are published to other users.

Note [Files of their own]
A tensor's block lies beside all other tensors of the domain in files whose descriptors give access
to everything. So a tensor that others may open moves, with all its views, into a memfd that holds
its storage alone, and whoever is let in gets a descriptor of that file:

    sealed   against any change of its size: neither side can make the other's mapping shorter
    0400     a descriptor for reading cannot be opened again for writing, by /proc/self/fd
    a reader gets a description of its own that is open for reading; a writer the publisher's
    final    nobody may write: sealed against new writable mappings, too, where the kernel has it

What is received from another user is not used unless the file is such a memfd.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import mmap
import os
import stat
import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..errors import OutOfSharedMemory
from . import name_protocol
from .control_message import InvalidMessage

if TYPE_CHECKING:
    from typing_extensions import Self

SIZE_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
F_SEAL_FUTURE_WRITE = 0x10  # Linux 5.1


class PublishedFile(mmap.mmap):
    """The mapping of a file of one storage. Arrays over it keep it; its end closes the file.

    Attributes:
        descriptor: of the file.
        writable: whether the mapping and the descriptor are.
    """

    descriptor: int
    writable: bool

    def __new__(cls, descriptor: int, nbytes: int, writable: bool) -> Self:
        """Maps the beginning of the file; owns the descriptor unless it fails."""
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        # Python's own duplicate of the descriptor is not needed.
        options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        self = super().__new__(cls, descriptor, nbytes, mmap.MAP_SHARED, access, **options)
        self.descriptor = descriptor
        self.writable = writable
        weakref.finalize(self, os.close, descriptor).atexit = False
        return self

    @classmethod
    def create(cls, nbytes: int) -> Self:
        """A new file of zeros, which only `seal` closes for good.

        Raises: OutOfSharedMemory.
        """
        size = max(nbytes, 1)
        available, _, source = native.headroom()
        if size > available:
            raise OutOfSharedMemory(
                f"publish: {size} bytes of a file of its own are needed, {available} may still be "
                f"committed ({source})"
            )
        descriptor = os.memfd_create("shmtensor-published", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.fchmod(descriptor, 0o400)
            os.posix_fallocate(descriptor, 0, size)
            return cls(descriptor, size, True)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                raise OutOfSharedMemory(f"publish: no memory for {size} bytes: {error}") from error
            raise

    @classmethod
    def receive(cls, descriptor: int, nbytes: int, readonly: bool) -> Self:
        """Maps a file that another process sent; owns a duplicate of the descriptor.

        Raises: InvalidMessage: it is no sealed memfd, too short, or not open for this.
        """
        try:
            # First, because no file system answers it: the file may be of one that never would.
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        except OSError:
            raise InvalidMessage("its descriptor is of no memfd") from None
        if seals & SIZE_SEALS != SIZE_SEALS:
            raise InvalidMessage(f"its memfd is not sealed against size changes: {seals:#x}")
        status = os.fstat(descriptor)
        # A memfd of huge pages raises SIGBUS where none is left; its blocks are larger.
        block = os.fstatvfs(descriptor).f_bsize
        if not stat.S_ISREG(status.st_mode) or block != mmap.PAGESIZE:
            raise InvalidMessage(f"its file is no tmpfs file: mode {status.st_mode:o}, {block}")
        size = max(nbytes, 1)
        if status.st_size < size:
            raise InvalidMessage(f"its memfd has {status.st_size} bytes, {size} are needed")
        own = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
        try:
            return cls(own, size, not readonly)
        except (OSError, ValueError, OverflowError) as error:
            os.close(own)
            raise InvalidMessage(f"its memfd cannot be mapped: {size} bytes: {error}") from None

    def seal(self, final: bool) -> None:
        """No size changes from now on; `final`: no new writable mappings either."""
        if final:
            try:
                fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, SIZE_SEALS | F_SEAL_FUTURE_WRITE)
                return
            except OSError as error:
                if error.errno != errno.EINVAL:  # an older kernel: 0400 alone refuses writers
                    raise
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, SIZE_SEALS)

    @property
    def is_final(self) -> bool:
        return bool(fcntl.fcntl(self.descriptor, fcntl.F_GET_SEALS) & F_SEAL_FUTURE_WRITE)

    @property
    def id(self) -> str:
        """Device and inode."""
        status = os.fstat(self.descriptor)
        return f"{status.st_dev}:{status.st_ino}"

    def memory(self, readonly: bool = False) -> Any:
        """All bytes as an array; `readonly`: NumPy refuses to make it or its views writable."""
        view = memoryview(self)
        return np.frombuffer(view.toreadonly() if readonly else view, np.uint8)

    def open_readonly(self) -> int:
        """A descriptor of a new description, for reading only."""
        return os.open(f"/proc/self/fd/{self.descriptor}", os.O_RDONLY | os.O_CLOEXEC)


def file_of(array: Any) -> PublishedFile | None:
    """The file that an array's memory is in, or None."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, PublishedFile) else None


def move_to_file(tensor: Any, mode: int) -> PublishedFile:
    """Moves a tensor's storage into a file of its own; all tensors that view it follow.

    Copies: one of the storage.

    Raises:
        ValueError: something else refers to the memory; nothing was changed.
        OutOfSharedMemory
    """
    where = f"publish: mode {mode:#o} moves the memory into a file of its own"
    if not isinstance(tensor, native.TensorBase):
        raise ValueError(
            f"{where}, which is impossible for a {type(tensor).__name__}: whoever has it would "
            "keep the former memory; publish a tensor"
        )
    address, nbytes = _owner(tensor.array)
    if native.held_elsewhere(address):
        native.sweep(True)  # those processes may have ended
    if native.held_elsewhere(address) or native.received_here(address):
        raise ValueError(
            f"{where}, but another process holds it, or a message with it is unread: {nbytes} "
            "bytes; publish it before it is sent and before a fork, or publish tensor.clone()"
        )
    file = PublishedFile.create(nbytes)
    name_protocol.fault_point("publish.created")
    file.seal(final=not mode & 0o222)
    # isinstance would ask proxies of other libraries for their class.
    tensors = [x for x in gc.get_objects() if issubclass(type(x), native.TensorBase)]
    if not native.move_tensors(tensors, tensor, file.memory(), file.memory(readonly=True)):
        raise ValueError(
            f"{where}, but something else than tensors refers to it: {nbytes} bytes (a NumPy "
            "array, a memoryview, a value saved for backward, another name); publish it before "
            "those exist, or publish tensor.clone()"
        )
    name_protocol.fault_point("publish.moved")
    return file


def _owner(array: Any) -> tuple[int, int]:
    """Address and bytes of the memory that an array is a view of. Returns no array: each reference
    to one counts (Note [Census] in native/dispatch/move_tensors.cc)."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.__array_interface__["data"][0], array.nbytes
