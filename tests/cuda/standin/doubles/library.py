"""What the doubles of libraries share: device memory as NumPy arrays, queued work, C entries.

A double is a Python function behind a function of a shell that build.py has made:

    @double("cublas{t}gemm", "SDCZ")
    def gemm(t, handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc): ...

`t` is the dtype of the letter. The other parameters are those of the C function, in its order and
by its names, which `attach` compares with the prototypes of CuPy's source. The function checks its
arguments, and queues its work on the handle's stream: it is done late, in any order that streams
and events permit. Returned is a status; None is success.
"""

from __future__ import annotations

import atexit
import ctypes
import inspect
import itertools
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.cuda.standin.build import LIBRARIES, LOOKED_UP, SOURCE
from tests.cuda.standin.install import device_library

Array = np.ndarray[Any, Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "S": np.dtype(np.float32),
    "D": np.dtype(np.float64),
    "C": np.dtype(np.complex64),
    "Z": np.dtype(np.complex128),
}
REAL: dict[np.dtype[Any], np.dtype[Any]] = {DTYPES["C"]: DTYPES["S"], DTYPES["Z"]: DTYPES["D"]}


class Misuse(Exception):
    """An argument that the library would refuse, or undefined behaviour on a GPU."""


# ---------------------------------------------------------------- device memory


def current_device() -> int:
    from cupy.cuda import runtime

    return int(runtime.getDevice())


def current_stream() -> int:
    from cupy.cuda import get_current_stream

    return int(get_current_stream().ptr)


def array(pointer: int, dtype: Any, n: int, device: int | None = None) -> Array:
    """The n elements at a device address, as the host may touch them in queued work.

    Args:
        device: whose memory it must be; the current device, which queued work cannot ask for.

    Raises:
        Misuse: no n elements of one allocation of the device are there.
    """
    dtype = np.dtype(dtype)
    if n <= 0:
        return np.empty(0, dtype)
    library = device_library()
    place = library.standin_alias(pointer, n * dtype.itemsize)
    if place is None:
        raise Misuse(f"{n} {dtype} at {pointer:#x} are not within one device allocation")
    wanted = current_device() if device is None else device
    if (owner := library.standin_device_of(pointer)) != wanted:
        raise Misuse(f"memory of device {owner} is used under device {wanted}")
    return np.frombuffer((ctypes.c_char * (n * dtype.itemsize)).from_address(place), dtype)


def matrix(
    pointer: int, dtype: Any, rows: int, columns: int, leading: int, device: int | None = None
) -> Array:
    """A column-major matrix (rows, columns), `leading` elements from column to column."""
    if leading < max(1, rows):
        raise Misuse(f"the leading dimension is {leading}, for {rows} rows")
    if rows <= 0 or columns <= 0:
        return np.empty((max(rows, 0), max(columns, 0)), dtype)
    flat = array(pointer, dtype, leading * (columns - 1) + rows, device)
    item = flat.itemsize
    return as_strided(flat, (rows, columns), (item, leading * item))


def host_value(pointer: int, dtype: Any) -> Any:
    """The scalar at a host address.

    Raises:
        Misuse: it is a device address.
    """
    if device_library().standin_device_of(pointer) >= 0:
        raise Misuse("a scalar is in device memory, and the pointer mode says host")
    dtype = np.dtype(dtype)
    return np.frombuffer(ctypes.string_at(pointer, dtype.itemsize), dtype)[0]


def store(pointer: int, value: int, kind: Any = ctypes.c_int) -> None:
    """Writes a number where the caller wants it on the host."""
    ctypes.cast(pointer, ctypes.POINTER(kind))[0] = value


# ---------------------------------------------------------------- queued work

_numbers = itertools.count(1)
_pending: dict[int, Callable[[], None]] = {}


def _run(number: int) -> None:
    _pending.pop(number)()


_run_entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_run)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_run_entry))


def queue(stream: int, work: Callable[[], None]) -> None:
    """Queues `work` on a stream. It may touch arrays, and call nothing of CUDA."""
    number = next(_numbers)
    _pending[number] = work
    status = device_library().cudaLaunchHostFunc(stream, _run_entry, number)
    if status:
        del _pending[number]
        raise Misuse(f"the stream {stream:#x} takes no work: error {status}")


# ---------------------------------------------------------------- handles


@dataclass
class Handle:
    """A library's context: its device, stream and modes."""

    device: int
    stream: int = 0
    math_mode: int = 0


_handles: dict[int, Handle] = {}


def create(pointer: int) -> None:
    number = next(_numbers)
    _handles[number] = Handle(current_device())
    store(pointer, number, ctypes.c_void_p)


def destroy(number: int) -> None:
    if _handles.pop(number, None) is None:
        raise Misuse(f"not a handle: {number}")


def handle_of(number: int) -> Handle:
    """The handle of a call; its device must be the current one."""
    handle = _handles.get(number)
    if handle is None:
        raise Misuse(f"not a handle: {number}")
    if handle.device != current_device():
        raise Misuse(f"a handle of device {handle.device} under device {current_device()}")
    return handle


# ---------------------------------------------------------------- C entries


@dataclass
class Double:
    """A Python function for one C function."""

    name: str
    function: Callable[..., int | None]
    leading: tuple[Any, ...]  # the dtypes ahead of the C function's own parameters

    @property
    def parameters(self) -> list[str]:
        """The C function's parameters, as the double names them."""
        return list(inspect.signature(self.function).parameters)[len(self.leading) :]


_doubles: dict[str, Double] = {}


def double(pattern: str, letters: Iterable[str] = "") -> Callable[[Any], Any]:
    """Registers a function for one C function, or for one per letter of a dtype, `{t}`."""

    def register(function: Any) -> Any:
        for t in letters or [""]:
            name = pattern.replace("{t}", t)
            _doubles[name] = Double(name, function, (DTYPES[t],) if t else ())
        return function

    return register


def buffer_sizes(pattern: str, letters: Iterable[str] = "") -> None:
    """Registers doubles of `..._bufferSize` functions: each workspace is 64 elements or bytes."""

    def size(**arguments: int) -> None:
        for name, pointer in arguments.items():
            if name == "lwork":
                store(pointer, 64)
            elif name == "lwork_bytes" or name.startswith("workspaceInBytes"):
                store(pointer, 64, ctypes.c_size_t)

    for t in letters or [""]:
        name = pattern.replace("{t}", t) + "_bufferSize"
        _doubles[name] = Double(name, size, ())


PROTOTYPE = r"^\s+(?:int|Result) ({prefix}\w+)\(([^)]*)\)"
POINTERS = {"Handle", "SpHandle", "Stream", "Params", "GesvdjInfo", "SyevjInfo", "MatDescr"}
WIDE = re.compile(r"\b(long long|int64_t|size_t)\b")
# A call of a function that CuPy looks up by name, and does not declare.
CALL = r"status = {name}\((.*?)\)\n    check_status"


def prototypes(module: str, prefix: str) -> dict[str, list[tuple[str, Any]]]:
    """Names and C types of the parameters of each function that a module of CuPy declares."""
    text = (SOURCE / f"{module}.pyx").read_text()
    found = {}
    for name, inside in re.findall(PROTOTYPE.format(prefix=prefix), text, re.MULTILINE):
        parameters = []
        for part in " ".join(inside.split()).split(", ") if inside.strip() else []:
            kind: Any = ctypes.c_int
            words = re.findall(r"\w+", part.replace("[]", ""))
            if (
                "*" in part
                or "[]" in part
                or (POINTERS & set(words[:-1]) and not (prefix == "cufft" and "Handle" in words))
            ):
                kind = ctypes.c_void_p
            elif WIDE.search(part):
                kind = ctypes.c_longlong
            elif "char" in words[:-1]:
                kind = ctypes.c_char
            parameters.append((words[-1], kind))
        found[name] = parameters
    for name in LOOKED_UP.get(prefix, ()):
        match = re.search(CALL.format(name=name), text, re.DOTALL)
        assert match is not None, f"{module}.pyx does not call {name}"
        found[name] = [
            (part.split(">")[-1].lstrip("&"), kind_of_argument(part))
            for part in (" ".join(match[1].split())).split(", ")
        ]
    return found


def kind_of_argument(text: str) -> Any:
    """The C type of an argument as CuPy writes it: `<void*>A`, `&lwork`, `<EigMode>jobz`, `n`."""
    cast = text[1 : text.index(">")] if text.startswith("<") else ""
    if "*" in cast or cast in POINTERS or text.startswith("&"):
        return ctypes.c_void_p
    return ctypes.c_int if cast else ctypes.c_longlong


def guarded(item: Double, names: list[str], failed: int) -> Callable[..., int]:
    def call(*arguments: Any) -> int:
        values = [0 if value is None else value for value in arguments]  # NULL is 0
        try:
            if item.parameters == ["arguments"]:
                return item.function(**dict(zip(names, values))) or 0
            return item.function(*item.leading, *values) or 0
        except Misuse as misuse:
            print(f"stand-in device: {item.name}: {misuse}", file=sys.stderr)
            return failed
        except Exception:
            traceback.print_exc()
            return failed

    return call


def attach(library: str, module: str, failed: int) -> None:
    """Loads a shell and fills it with the doubles of its functions.

    At exit the shell's functions become ones that do nothing: CuPy destroys its handles after
    Python's functions are gone.

    Args:
        library: cublas, cusolver, cufft; of the others each function says that it is not supported.
        module: the .pyx of CuPy that declares its functions, without suffix.
        failed: the status of a call whose arguments are refused.

    Raises:
        TypeError: a double's parameters are not those of the C function.
    """
    manifest = json.loads((LIBRARIES / "functions.json").read_text())[library]
    shell = ctypes.CDLL(str(LIBRARIES / manifest["soname"]))
    slots = (ctypes.c_void_p * len(manifest["functions"])).in_dll(shell, "slots")
    declared = prototypes(module, library)
    for i, symbol in enumerate(manifest["functions"]):
        name = symbol.removesuffix("_v2")
        item = _doubles.get(name)
        if item is None:
            continue
        parameters = declared[name]
        names = [p for p, _ in parameters]
        if item.parameters not in (names, ["arguments"]):
            raise TypeError(f"{name}: the double takes {item.parameters}, the library {names}")
        entry = ctypes.CFUNCTYPE(ctypes.c_int, *(kind for _, kind in parameters))(
            guarded(item, names, failed)
        )
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry))  # for ever: C calls it until exit
        slots[i] = ctypes.cast(entry, ctypes.c_void_p).value
    end = ctypes.cast(shell.succeed, ctypes.c_void_p).value
    atexit.register(lambda: [slots.__setitem__(i, end) for i in range(len(slots))])
