"""The C++ extension and its flags; everything else is in setup.cfg."""

import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

MACHINE = platform.machine()
if not sys.platform.startswith("linux") or MACHINE not in ("x86_64", "aarch64"):
    sys.exit(
        f"shmtensor: this is {sys.platform} on {MACHINE}; it runs on Linux, on x86_64 and aarch64 "
        "(it stands on memfd, open-file-description locks and futexes)"
    )

ROOT = Path(__file__).parent
NATIVE = ROOT / "shmtensor" / "native"
SANITIZE = os.environ.get("SHMTENSOR_SANITIZE", "")  # e.g. "address,undefined"
FAULTS = os.environ.get(
    "SHMTENSOR_FAULTS", ""
)  # compiles the fault points in (docs/design/memory.md)

STUBS = os.environ.get("SHMTENSOR_STUBS", "1")  # "0": no type stubs, which need the extension

COMMON = [
    "-std=c++17",
    "-O3",
    "-g1",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-pthread",
    "-fno-math-errno",
    "-fno-trapping-math",  # so that loops with sqrt and selects become vector code
    "-Wall",
    "-Wextra",
    "-Werror=return-type",
    "-Wno-missing-field-initializers",
    "-Wno-cast-function-type",
    "-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION",
    "-DNPY_TARGET_VERSION=NPY_2_0_API_VERSION",
]
# The same kernels once per instruction-set level; native/compute/isa.h says how one is chosen.
LEVELS = {
    "isa_v3.cc": ["-march=x86-64-v3"],
    "isa_v4.cc": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
for part in ("layers", "functions", "stretched"):
    LEVELS.update({f"{part}_v{n}.cc": LEVELS[f"isa_v{n}.cc"] for n in (3, 4)})


class Build(build_ext):
    """Compiles each source with its own flags, in parallel, and only what changed; then writes the
    type stubs of what comes from the op table.
    """

    def run(self):
        super().run()
        package = ROOT if self.inplace else Path(self.build_lib).resolve()
        # A sanitized or foreign extension cannot be loaded here.
        if SANITIZE or STUBS == "0" or not (package / "shmtensor" / "__init__.py").exists():
            return
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), *sys.path])}
        command = [sys.executable, "-m", "shmtensor.autograd.stubs"]
        subprocess.run(command, check=True, env=env, cwd=package)

    def build_extension(self, ext):
        flags = list(COMMON)
        if SANITIZE:
            flags += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-O1"]
            ext.extra_link_args = [*ext.extra_link_args, f"-fsanitize={SANITIZE}"]
        if FAULTS:
            flags.append("-DSHMTENSOR_FAULTS=1")
        includes = [*ext.include_dirs, *self.compiler.include_dirs]
        headers = max((p.stat().st_mtime for p in NATIVE.rglob("*.h")), default=0.0)
        headers = max(headers, Path(__file__).stat().st_mtime)
        out = Path(self.build_temp + (SANITIZE or (FAULTS and "faults")))
        cxx = os.environ.get("CXX", "g++").split()

        def compile(source):
            target = out / Path(source).with_suffix(".o")
            fresh = max(headers, Path(source).stat().st_mtime)
            if not target.exists() or target.stat().st_mtime < fresh:
                target.parent.mkdir(parents=True, exist_ok=True)
                partial = target.with_suffix(f".{os.getpid()}.tmp")
                began = time.time()
                level = LEVELS.get(Path(source).name, [])
                if MACHINE != "x86_64":
                    level = []
                subprocess.run(
                    [
                        *cxx,
                        "-fPIC",
                        *flags,
                        *level,
                        *(f"-I{i}" for i in includes),
                        "-c",
                        source,
                        "-o",
                        str(partial),
                    ],
                    check=True,
                )
                # What is edited while it is compiled is newer than its object.
                os.utime(partial, (began, began))
                partial.replace(target)
            return str(target)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = list(pool.map(compile, sorted(ext.sources)))
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.tmp")
        subprocess.run(
            [*cxx, "-shared", "-pthread", *objects, *ext.extra_link_args, "-o", str(partial)],
            check=True,
        )
        partial.replace(target)


setup(
    ext_modules=[
        Extension(
            "shmtensor.native._core",
            sources=[str(p.relative_to(ROOT)) for p in NATIVE.rglob("*.cc")],
            include_dirs=[str(NATIVE), numpy.get_include()],
            extra_link_args=["-ldl", "-lrt"],
        )
    ],
    cmdclass={"build_ext": Build},
)
