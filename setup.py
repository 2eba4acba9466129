"""The C++ extension and its flags; everything else is in setup.cfg."""

import itertools
import os
import platform
import shlex
import subprocess
import sys
import threading
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

# "2.28": the extension needs that glibc, not this machine's, and carries the C++ library: for
# `make wheel`. GCC compiles; the linker is ziglang's, which knows the symbols of each glibc.
GLIBC = os.environ.get("SHMTENSOR_GLIBC", "")
ZIG = os.environ.get("SHMTENSOR_ZIG", "")  # the path of its program

COMMON = [
    "-std=c++17",
    "-O3",
    "-g1",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-pthread",
    "-fno-math-errno",
    "-fno-trapping-math",  # so that loops with sqrt and selects become vector code
    "-fno-plt",  # 15 jumps less in a small op, each of which calls CPython
    "-falign-functions=32",  # a small op's time depends less on the code around it
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
if MACHINE != "x86_64":
    LEVELS = {"generic": []}
# The names in /proc/cpuinfo of what a level needs, as in native/simd/cpu_capability.cc.
NEEDED = {
    "avx2": {"avx2", "fma", "bmi1", "bmi2", "f16c", "abm"},
    "avx512": {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"},
}
# "native", as `make demo` sets it: fewer levels.
WANTED = os.environ.get("SHMTENSOR_LEVELS", "")
if WANTED not in ("", "native"):
    sys.exit(f"shmtensor: SHMTENSOR_LEVELS is neither native nor empty: {WANTED}")


def wanted_levels():
    """All levels, or with SHMTENSOR_LEVELS=native the generic one and the best of this CPU."""
    if WANTED != "native" or MACHINE != "x86_64":
        return list(LEVELS)
    flags = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
    best = "generic"
    for level, needed in NEEDED.items():
        if not needed <= set(flags):
            break
        best = level
    return ["generic", best]


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
        last = []  # after our own flags
        if SANITIZE:
            last += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-O1"]
            ext.extra_link_args = [*ext.extra_link_args, f"-fsanitize={SANITIZE}"]
        last += shlex.split(os.environ.get("CXXFLAGS", ""))
        # One folder for every way to build: `make build`, an install, an editable install.
        # setuptools' own build_temp may be temporary.
        kind = SANITIZE or "release"
        out = OBJECTS / f"{get_platform()}-{sys.implementation.cache_tag}-{kind}"
        cxx = os.environ.get("CXX", "g++").split()
        folders = [f"-I{folder}" for folder in ext.include_dirs]

        def command(options=()):
            return [*cxx, "-fPIC", *COMMON, *options, *last, *folders]

        units = []  # sources, targets and commands; the levels first, because they take longest
        for source in sorted(ext.sources, key=lambda s: (not s.endswith(".simd.cc"), s)):
            target = out / source
            if not source.endswith(".simd.cc"):
                units.append((source, target.with_suffix(".o"), command()))
                continue
            for level in LEVELS:
                level_target = target.with_suffix(f".{level}.o")
                # A level that was compiled here stays: tests may have run, and run again.
                if level in wanted_levels() or level_target.exists():
                    options = [f"-DSHMTENSOR_LEVEL={level}", *LEVELS[level]]
                    units.append((source, level_target, command(options)))
        stale = [unit for unit in units if not is_fresh(*unit[1:])]
        header = None
        # A sanitized build shows that each source includes what it uses.
        if not SANITIZE and any(takes_header(source) for source, *_ in stale):
            header = precompile(str(NATIVE / "precompiled.h"), out, command())

        numbers, lock = itertools.count(1), threading.Lock()

        def compile(unit):
            source, target, command = unit
            with lock:
                show_progress(next(numbers), len(stale), target.relative_to(out).with_suffix(""))
            compile_object(source, target, command, header if takes_header(source) else None)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(compile, stale))
        if stale and sys.stdout.isatty():
            print()
        objects = [str(target) for _, target, _ in units]
        for path in set(map(str, out.rglob("*.o"))) - set(objects):  # of sources that are gone
            Path(path).unlink()
            Path(path).with_suffix(".made").unlink(missing_ok=True)
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.tmp")
        link = link_against(GLIBC, cxx, out) if GLIBC else [*cxx, "-pthread"]
        subprocess.run(
            [*link, "-shared", *objects, *ext.extra_link_args, "-o", str(partial)], check=True
        )
        partial.replace(target)


# libstdc++'s inline code reads this variable, which came with glibc 2.32; 0 says that there may be
# threads.
SUBSTITUTES = 'extern "C" { extern char __libc_single_threaded; char __libc_single_threaded = 0; }'


def link_against(glibc, cxx, out):
    """The command that links objects of GCC against an older glibc than this machine's."""
    if not ZIG:
        sys.exit("shmtensor: SHMTENSOR_GLIBC needs SHMTENSOR_ZIG, the path of ziglang's program")
    source, target = out / "substitutes.cc", out / "substitutes.o"
    out.mkdir(parents=True, exist_ok=True)
    source.write_text(SUBSTITUTES)
    subprocess.run([*cxx, "-fPIC", "-fvisibility=hidden", "-c", source, "-o", target], check=True)
    # The unwinder is the system's: a thread that ends in our frames (Python's daemon threads, when
    # the interpreter ends) is unwound by it, and a second one does not know its state.
    libraries = [
        subprocess.run(
            [*cxx, f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libstdc++.a", "libgcc_s.so.1", "libgcc.a")
    ]
    # lld reads libraries whenever a symbol is missing: their place does not matter.
    machine = f"{MACHINE}-linux-gnu.{glibc}"
    return [ZIG, "cc", "-target", machine, "-s", str(target), *libraries, "-lm", "-lpthread"]


def show_progress(number, total, name):
    """One line that counts on a terminal; elsewhere a line per file."""
    text = f"[{number:{len(str(total))}}/{total}] {name}"
    start, end = ("\r\x1b[K", "") if sys.stdout.isatty() else ("", "\n")
    print(start + text, end=end, flush=True)


def takes_header(source):
    """Whether precompiled.h comes first: levels use no inline code of the standard library, and
    module.cc defines NumPy's function table, which the header only declares.
    """
    return not source.endswith((".simd.cc", "native/module.cc"))


def precompile(source, out, command):
    """The header compiled with this command, for this NumPy's headers."""
    target = out / (Path(source).name + ".gch")
    command = [*command, "-x", "c++-header", "-isystem", numpy.get_include()]
    if not is_fresh(target, command):
        compile_object(source, target, command)
    return target


def compile_object(source, target, command, header=None):
    """Compiles a source, with a precompiled header before its first line.

    The record beside the object holds the command and the files read, one per line.
    """
    record = target.with_suffix(".made")
    target.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    partial, rule = (target.with_suffix(f".{os.getpid()}.{end}") for end in ("tmp", "d"))
    start = time.time()
    # NumPy's headers are system headers, which -MMD leaves out: an install has them in a
    # temporary folder, and the object is the same for every NumPy from 2.0 on.
    includes = ["-isystem", numpy.get_include(), "-MMD", "-MF", str(rule)]
    if header:  # GCC finds x.h.gch in the first folder, or else x.h in that of the sources
        includes += ["-iquote", str(header.parent), "-include", header.stem]
    subprocess.run([*command, *includes, "-c", source, "-o", str(partial)], check=True)
    # The object is older than a file that is edited during compilation.
    os.utime(partial, (start, start))
    partial.replace(target)
    files = shlex.split(rule.read_text().replace("\\\n", " ").partition(": ")[2])
    if header:  # whose own files -MMD leaves out, too
        files += header.with_suffix(".made").read_text().splitlines()[1:]
    record.write_text("\n".join([shlex.join(command), *dict.fromkeys(files)]) + "\n")
    rule.unlink()


def is_fresh(target, command):
    """Whether this command made the object from files that have not changed since."""
    try:
        old_command, *files = target.with_suffix(".made").read_text().splitlines()
        mtime = target.stat().st_mtime
        return old_command == shlex.join(command) and all(
            Path(f).stat().st_mtime <= mtime for f in files
        )
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
