"""The C++ extension and its flags; everything else is in setup.cfg."""

import os
import platform
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from sysconfig import get_path, get_platform

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

MACHINE = platform.machine()
if not sys.platform.startswith("linux") or MACHINE not in ("x86_64", "aarch64"):
    sys.exit(
        f"shmtensor: this is {sys.platform} on {MACHINE}; it runs on Linux, on x86_64 and aarch64 "
        "(it needs memfd, open-file-description locks and futexes)"
    )

ROOT = Path(__file__).resolve().parent
NATIVE = ROOT / "shmtensor" / "native"
OBJECTS = ROOT / "build" / "objects"
SANITIZE = os.environ.get("SHMTENSOR_SANITIZE", "")  # e.g. "address,undefined"
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
# A source *.simd.cc is compiled once per level; native/simd/cpu_capability.h chooses one.
LEVELS = {
    "generic": [],
    "avx2": ["-march=x86-64-v3"],
    "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}


class Build(build_ext):
    """Compiles changed sources in parallel, each with its own flags; then writes the type stubs of
    the functions from the op table.
    """

    def run(self):
        super().run()
        package = ROOT if self.inplace else Path(self.build_lib).resolve()
        # A sanitized or foreign extension cannot be loaded here.
        if SANITIZE or STUBS == "0" or not (package / "shmtensor" / "__init__.py").exists():
            return
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), *sys.path])}
        command = [sys.executable, "-m", "shmtensor.autograd.dispatch.generate_stubs"]
        subprocess.run(command, check=True, env=env, cwd=package)

    def build_extension(self, ext):
        flags = list(COMMON)
        if SANITIZE:
            flags += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-O1"]
            ext.extra_link_args = [*ext.extra_link_args, f"-fsanitize={SANITIZE}"]
        flags += shlex.split(os.environ.get("CXXFLAGS", ""))
        # One folder for every way to build: `make build`, an install, an editable install.
        # setuptools' own build_temp may be temporary.
        kind = SANITIZE or "release"
        out = OBJECTS / f"{get_platform()}-{sys.implementation.cache_tag}-{kind}"
        cxx = os.environ.get("CXX", "g++").split()

        def compile(source, level):
            command = [*cxx, "-fPIC", *flags, *(f"-I{i}" for i in ext.include_dirs)]
            target = (out / source).with_suffix(f".{level}.o" if level else ".o")
            if level:
                command += [f"-DSHMTENSOR_LEVEL={level}"]
                command += LEVELS[level] if MACHINE == "x86_64" else []
            return compile_object(source, target, command)

        units = [
            (source, level)
            for source in sorted(ext.sources)
            for level in (LEVELS if source.endswith(".simd.cc") else [""])
        ]

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = list(pool.map(compile, *zip(*units)))
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.tmp")
        subprocess.run(
            [*cxx, "-shared", "-pthread", *objects, *ext.extra_link_args, "-o", str(partial)],
            check=True,
        )
        partial.replace(target)


def compile_object(source, target, command):
    """The object of a source, compiled unless its record says that it is up to date.

    The record beside it holds the command and the files read, one per line.
    """
    record = target.with_suffix(".made")
    if not is_fresh(target, record, shlex.join(command)):
        target.parent.mkdir(parents=True, exist_ok=True)
        record.unlink(missing_ok=True)
        partial, rule = (target.with_suffix(f".{os.getpid()}.{end}") for end in ("tmp", "d"))
        start = time.time()
        # NumPy's headers are system headers, which -MMD leaves out: an install has them in a
        # temporary folder, and the object is the same for every NumPy from 2.0 on.
        includes = ["-isystem", numpy.get_include(), "-MMD", "-MF", str(rule)]
        subprocess.run([*command, *includes, "-c", source, "-o", str(partial)], check=True)
        # The object is older than a file that is edited during compilation.
        os.utime(partial, (start, start))
        partial.replace(target)
        files = rule.read_text().replace("\\\n", " ").partition(": ")[2]
        record.write_text("\n".join([shlex.join(command), *shlex.split(files)]) + "\n")
        rule.unlink()
    return str(target)


def is_fresh(target, record, command):
    """Whether this command made the object from files that have not changed since."""
    try:
        old_command, *files = record.read_text().splitlines()
        mtime = target.stat().st_mtime
        return old_command == command and all(Path(f).stat().st_mtime <= mtime for f in files)
    except FileNotFoundError:  # no record, no object, or a header was removed
        return False


setup(
    ext_modules=[
        Extension(
            "shmtensor.native._core",
            sources=[str(p.relative_to(ROOT)) for p in NATIVE.rglob("*.cc")],
            include_dirs=[str(NATIVE), get_path("include")],
            extra_link_args=["-ldl", "-lrt"],
        )
    ],
    cmdclass={"build_ext": Build},
)
