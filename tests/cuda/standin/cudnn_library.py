"""Gives our graphs to the real cuDNN, which needs no GPU to name its engines for them.

    build/cuda-standin/venv/bin/python -m tests.cuda.standin.cudnn_library FOLDER

FOLDER has the files of NVIDIA's wheel, `nvidia_cudnn_cu13-*.whl` unpacked: `nvidia/cudnn/lib`. The
library gets the properties of an H100 in place of a handle, and libraries without content in place
of the driver and of cuBLAS. Printed is a line for each shape, dtype and layout: how many plans the
heuristics name for the result, the image's gradient and the filters', four times for the switches
`deterministic` and `allow_tf32`. At least one of them is as the switches want it, or the error is
printed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.cuda.standin.build import DEVICE, ROOT, run, site_packages

H100 = {
    "cudaDeviceId": 0,
    "deviceName": "NVIDIA H100 80GB HBM3",
    "deviceVer": 900,
    "driverVer": 13000,
    "isTccDriver": 0,
    "l2CacheSize": 50 << 20,
    "maxBlockSize": [1024, 1024, 64],
    "maxCtasPerSM": 32,
    "maxGridSize": [2147483647, 65535, 65535],
    "maxRegistersPerSM": 65536,
    "maxSharedMemoryPerBlock": 48 << 10,
    "maxSharedMemoryPerBlockOptin": 227 << 10,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048,
    "memClockRateKHz": 2619000,
    "memoryBusWidth": 5120,
    "multiProcessorCount": 132,
    "oversizedSharedMemoryPerBlock": 0,
    "pciDeviceId": 0,
    "regsPerBlock": 65536,
    "reservedSharedMemoryPerBlock": 1024,
    "smClockRateKHz": 1980000,
    "smCountOrigin": 0,
    "supportCoopLaunch": 1,
    "totalGlobalMem": 80 << 30,
    "warpSize": 32,
}
DRIVER = {
    "cuDeviceGetCount",
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuInit",
}
# Image, filters, stride, padding, dilation.
SHAPES: dict[str, tuple[Any, ...]] = {
    "1d": ((4, 16, 1, 100), (32, 16, 1, 5), (1, 2), (0, 2), (1, 1)),
    "2d": ((4, 16, 20, 20), (32, 16, 3, 3), (1, 1), (1, 1), (1, 1)),
    "2d, odd": ((4, 3, 21, 20), (7, 3, 3, 3), (2, 2), (1, 1), (1, 1)),
    "2d, dilated": ((4, 16, 20, 20), (32, 16, 3, 3), (1, 1), (2, 2), (2, 2)),
    "2d, groups": ((4, 16, 20, 20), (32, 4, 3, 3), (1, 1), (1, 1), (1, 1)),
    "2d, depthwise": ((4, 16, 20, 20), (16, 1, 3, 3), (1, 1), (1, 1), (1, 1)),
    "3d": ((2, 8, 8, 10, 10), (16, 8, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "3d, groups": ((2, 8, 8, 10, 10), (16, 4, 3, 3, 3), (2, 1, 1), (1, 1, 1), (1, 1, 1)),
}


def build_empty(folder: Path, soname: str, functions: set[str], more: str = "") -> None:
    """A library whose functions fail."""
    source = folder / f"{soname}.c"
    rows = "".join(f"int {name}() {{ return 100; }}\n" for name in sorted(functions))
    source.write_text(f"#include <stddef.h>\n{rows}{more}")
    run(["gcc", "-w", "-shared", "-fPIC", f"-Wl,-soname,{soname}", source, "-o", folder / soname],
        f"gcc of {soname}")  # fmt: skip


def build_libraries(folder: Path, libraries: list[Path]) -> None:
    """The driver and cuBLAS, as far as the libraries look for them."""
    symbols = "".join(run(["nm", "-D", "--undefined-only", path], "nm") for path in libraries)
    driver = set(re.findall(r" U (cu[A-Z]\w+)$", symbols, re.MULTILINE)) | DRIVER
    version = "int cuDriverGetVersion(int* v) { *v = 13000; return 0; }\n"
    build_empty(folder, "libcuda.so.1", driver - {"cuDriverGetVersion"}, version)
    names = set()
    for path in libraries:
        names |= {n.decode() for n in re.findall(rb"\0(cublas\w+)\0", path.read_bytes())}
    version = "size_t cublasLtGetVersion() { return 130100; }\n"
    version += "size_t cublasLtGetCudartVersion() { return 13000; }\n"
    names -= {"cublasLtGetVersion", "cublasLtGetCudartVersion"}
    build_empty(folder, "libcublasLt.so.13", names, version)


def check() -> int:
    """In the process that has the libraries in its path; the number of shapes without a plan."""
    import cudnn

    from shmtensor.ops.cuda import cudnn as ours
    from shmtensor.ops.nn.sliding_window import output_sizes

    properties = cudnn.create_device_properties(json.dumps(H100))

    def pygraph(handle: Any, **options: Any) -> Any:
        return cudnn.pygraph(device_property=properties, **options)

    names = ("data_type", "numerical_note", "heur_mode", "cudnnGraphNotSupportedError")
    module: Any = SimpleNamespace(pygraph=pygraph, **{name: getattr(cudnn, name) for name in names})
    print(f"cuDNN {cudnn.backend_version()}, frontend {cudnn.__version__}")
    missing = 0
    flags = list(product((False, True), repeat=2))  # deterministic, TF32
    for (label, shapes), dtype, is_last in product(
        SHAPES.items(), ours.DTYPES.values(), (False, True)
    ):
        x, w, *options = shapes
        y = (x[0], w[0], *output_sizes(x[2:], w[2:], *options))
        counts = []
        for kind, parts in (
            ("conv_fprop", (x, w, y)),
            ("conv_dgrad", (y, w, x)),
            ("conv_wgrad", (x, y, w)),
        ):
            for flag in flags:
                key = ours.Key(kind, dtype, is_last, *parts, *options, 0, *flag)
                try:
                    graph = ours.planned_graph(module, None, key)
                    counts.append(str(graph.get_execution_plan_count()))
                except (cudnn.cudnnGraphNotSupportedError, RuntimeError) as error:
                    missing += 1
                    counts.append(" ".join(str(error).split())[:150])
        print(f"{label:<14} {dtype:<7} {'last' if is_last else 'first'} {' '.join(counts)}")
    return missing


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        return check()
    libraries = sorted(Path(arguments[0]).rglob("libcudnn*.so.9"))
    with tempfile.TemporaryDirectory() as name:
        build_libraries(Path(name), libraries)
        paths = [libraries[0].parent, name, site_packages() / "nvidia" / "cu13" / "lib"]
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, paths)),
            "CUDNN_FRONTEND_CUDART_LIB_NAME": str(DEVICE),  # it is asked for the current device
        }
        command = [sys.executable, "-m", "tests.cuda.standin.cudnn_library", "--check"]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    lines = (done.stdout + done.stderr).splitlines()
    print("\n".join(line for line in lines if not line.startswith("Could not load symbol")))
    print(f"{done.returncode} shapes have no plan")
    return int(done.returncode != 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
