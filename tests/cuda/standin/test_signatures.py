"""Names and signatures that the project and its stand-in rely on exist in CuPy's wheel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.cuda.standin.build import ROOT
from tests.cuda.standin.fixtures import Misuses

# Python signatures, by the first line of their docstrings (Cython's embedsignature).
SIGNATURES = {
    "cuda.set_allocator": "set_allocator(allocator=None)",
    "cuda.UnownedMemory": ("UnownedMemory(intptr_t ptr, size_t size, owner, int device_id=-1)"),
    "cuda.MemoryPointer": "MemoryPointer(BaseMemory mem, ptrdiff_t offset)",
    "cuda.alloc_pinned_memory": "alloc_pinned_memory(size_t size)",
    "cuda.runtime.malloc": "malloc(size_t size)",
    "cuda.runtime.free": "free(intptr_t ptr)",
    "cuda.runtime.hostRegister": "hostRegister(intptr_t ptr, size_t size, unsigned int flags)",
    "cuda.runtime.hostUnregister": "hostUnregister(intptr_t ptr)",
    "cuda.runtime.ipcGetMemHandle": "ipcGetMemHandle(intptr_t devPtr)",
    "cuda.runtime.ipcOpenMemHandle": "ipcOpenMemHandle(bytes handle, unsigned int flags=",
    "cuda.runtime.ipcCloseMemHandle": "ipcCloseMemHandle(intptr_t devPtr)",
    "cuda.runtime.ipcGetEventHandle": "ipcGetEventHandle(intptr_t event)",
    "cuda.runtime.ipcOpenEventHandle": "ipcOpenEventHandle(bytes handle)",
    "cuda.runtime.eventCreateWithFlags": "eventCreateWithFlags(unsigned int flags)",
    "cuda.runtime.eventRecord": "eventRecord(intptr_t event, intptr_t stream)",
    "cuda.runtime.eventQuery": "eventQuery(intptr_t event)",
    "cuda.runtime.streamWaitEvent": (
        "streamWaitEvent(intptr_t stream, intptr_t event, unsigned int flags=0)"
    ),
    "cuda.runtime.memcpyAsync": (
        "memcpyAsync(intptr_t dst, intptr_t src, size_t size, int kind, intptr_t stream)"
    ),
    "RawModule": "RawModule(unicode code=None, *,",
}
# Names of NumPy that forwards use as `xp.` and CuPy lacks: rows that need another way.
LACKING = {"insert", "histogram_bin_edges", "errstate", "Philox", "MaskedArray"}


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_is_the_wheels(cp: Any, name: str) -> None:
    thing = cp
    for part in name.split("."):
        thing = getattr(thing, part)
    text = " ".join((thing.__doc__ or "").split()[:40])
    assert text.replace("str code", "unicode code").startswith(SIGNATURES[name]), text[:200]


LIST_NAMES = """
import json, sys
{head}
from cupy_backends.cuda.api import runtime
names = {{n: (getattr(runtime, n).__doc__ or "").split("\\n")[0]
         if callable(getattr(runtime, n)) else "" for n in dir(runtime) if n[0] != "_"}}
print(json.dumps(names))
"""


def runtime_names(head: str) -> dict[str, str]:
    program = LIST_NAMES.format(head=head)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return dict(json.loads(run.stdout))


def test_the_rebuilt_runtime_module_has_the_wheels_names(misuses: Misuses) -> None:
    ours = runtime_names("from tests.cuda.standin.install import install; install()")
    assert ours == runtime_names("import cupy")


def test_thrusts_functions_take_the_wheels_arguments(cp: Any) -> None:
    from tests.cuda.standin.build import SOURCE
    from tests.cuda.standin.doubles import thrust

    text = (SOURCE / "cupy" / "cuda" / "thrust.pyx").read_text()
    for name in ("sort", "argsort", "lexsort"):
        match = re.search(rf"^cpdef {name}\((.*?)\):", text, re.MULTILINE | re.DOTALL)
        assert match is not None
        names = [re.findall(r"\w+", part)[-1] for part in re.split(r",\s", match[1])]
        code = getattr(thrust, name).__code__
        assert list(code.co_varnames[: code.co_argcount]) == names


def test_numpys_names_of_the_op_table_exist(cp: Any) -> None:
    used = set()
    for path in sorted((ROOT / "shmtensor" / "ops").rglob("*.py")):
        used |= set(re.findall(r"\bxp\.((?:linalg\.|fft\.)?\w+)", path.read_text()))
    missing = set()
    for name in used - {"linalg", "fft"}:
        thing: Any = cp
        for part in name.split("."):
            thing = getattr(thing, part, None)
        if thing is None:
            missing.add(name)
    assert missing <= LACKING
