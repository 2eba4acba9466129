"""Fetches CuPy and NVIDIA's headers, and builds the stand-in device, all in build/cuda-standin.

    venv/           CuPy's wheel, NVRTC, headers, Cython, pytest, and shmtensor from this checkout
    source/         CuPy's source distribution: its runtime module, prototypes of the libraries
    libcuda.so.1    the device
    runtime.*.so    CuPy's own module cupy_backends.cuda.api.runtime, linked with the device
    libraries/      shells of cuBLAS, cuSOLVER, cuFFT, cuDNN..., which Python fills
                    (doubles/library.py, doubles/cudnn.py)
    kernels/        compiled kernels, keyed by source and header

Steps are done again only if their inputs have changed. `Unavailable` says what could not be had.
STANDIN_CUDA=12: CuPy's wheel for CUDA 12, in build/cuda-standin-12, and the same kernels/.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CUDA = int(os.environ.get("STANDIN_CUDA", "13"))
FOLDER = ROOT / "build" / ("cuda-standin" if CUDA == 13 else f"cuda-standin-{CUDA}")
VENV = FOLDER / "venv"
SOURCE = FOLDER / "source"
LIBRARIES = FOLDER / "libraries"
DEVICE = FOLDER / "libcuda.so.1"

CUPY = "14.2.0"
NVIDIA = {
    13: ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl"),
    12: ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cuda-nvcc-cu12"),
}
VERSION = {13: 13020, 12: 12090}  # of CUDA, as CuPy's wheel is built with
PACKAGES = (
    f"cupy-cuda{CUDA}x=={CUPY}",
    *(f"{name}>={CUDA},<{CUDA + 1}" for name in NVIDIA[CUDA]),
    "cython>=3.2,<3.3",
    "scipy>=1.11",
    "pytest>=8",
    "pytest-xdist>=3.6",
    "hypothesis>=6",
)
# Modules of the wheel that link with a library of NVIDIA's, and the prefix of its functions.
LINKED = {
    "cublas": ("cupy_backends/cuda/libs/cublas", "cublas"),
    "cusolver": ("cupy_backends/cuda/libs/cusolver", "cusolver"),
    "cufft": ("cupy/cuda/cufft", "cufft"),
    "curand": ("cupy_backends/cuda/libs/curand", "curand"),
    "cusparse": ("cupy_backends/cuda/libs/cusparse", "cusparse"),
}
# Functions of those libraries that CuPy looks up by name.
LOOKED_UP = {"cusolver": ("cusolverDnXgeev", "cusolverDnXgeev_bufferSize")}
# Loaded by name ahead of them, for CuPy's loader, which wants each library's own dependencies.
DEPENDENCIES = (f"libcublasLt.so.{CUDA}", f"libnvJitLink.so.{CUDA}")
# cuDNN's Python frontend, without what it needs for kernels of its own; no cuDNN: doubles/cudnn.py.
FRONTEND = "nvidia-cudnn-frontend==1.32.0"
# What the frontend looks up in cuDNN.
CUDNN_SONAME = "libcudnn.so.9"
CUDNN_FUNCTIONS = (
    "cudnnBackendCreateDescriptor",
    "cudnnBackendDestroyDescriptor",
    "cudnnBackendExecute",
    "cudnnBackendFinalize",
    "cudnnBackendGetAttribute",
    "cudnnBackendPopulateCudaGraph",
    "cudnnBackendSetAttribute",
    "cudnnBackendUpdateCudaGraph",
    "cudnnCreate",
    "cudnnDestroy",
    "cudnnGetCudartVersion",
    "cudnnGetErrorString",
    "cudnnGetLastErrorString",
    "cudnnGetStream",
    "cudnnGetVersion",
    "cudnnSetStream",
)
# Its functions are in the device itself (device/nccl.cc).
NCCL = "libnccl.so.2"
EMPTY = 'extern "C" int standin_empty() { return 0; }\n'


class Unavailable(Exception):
    """What the stand-in needs cannot be had here; says what."""


def site_packages() -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return VENV / "lib" / version / "site-packages"


def headers() -> Path:
    """The folder with cuda_runtime.h."""
    return site_packages() / "nvidia" / ("cuda_runtime" if CUDA == 12 else f"cu{CUDA}") / "include"


def run(command: Iterable[str | Path], what: str, **options: object) -> str:
    """Output of a command.

    Raises:
        RuntimeError: it failed, with its last lines.
    """
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    if done.returncode:
        last = " | ".join(done.stdout.strip().splitlines()[-3:])
        raise RuntimeError(f"{what} failed: {last}")
    return str(done.stdout)


def fetch(arguments: Iterable[str | Path], what: str, **options: object) -> None:
    """Runs pip. A failure is `Unavailable`: there is no network, or no such package."""
    pip = [VENV / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    try:
        run([*pip, *arguments], what, **options)
    except RuntimeError as error:
        raise Unavailable(str(error)) from None


def digest(paths: Iterable[Path], *texts: str) -> str:
    h = hashlib.sha256("\0".join(texts).encode())
    for path in sorted(paths):
        h.update(path.name.encode() + path.read_bytes())
    return h.hexdigest()


def once(name: str, key: str, step: Callable[[], None]) -> None:
    """Runs `step` unless it has been done with the same key."""
    stamps = FOLDER / "done.json"
    done = json.loads(stamps.read_text()) if stamps.exists() else {}
    if done.get(name) == key:
        return
    step()
    done = json.loads(stamps.read_text()) if stamps.exists() else {}
    stamps.write_text(json.dumps({**done, name: key}, indent=1))


def fetch_packages() -> None:
    if not (VENV / "bin" / "python").exists():
        run([sys.executable, "-m", "venv", VENV], "python -m venv")
    fetch(["install", "--quiet", *PACKAGES], "pip install " + PACKAGES[0])
    if CUDA == 12 and not (headers() / "crt").exists():  # which are in nvcc's package
        (headers() / "crt").symlink_to(headers().parents[1] / "cuda_nvcc" / "include" / "crt")


def install_checkout() -> None:
    pip: list[str | Path] = [VENV / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--editable", ROOT], "pip install of this checkout")


def fetch_frontend() -> None:
    fetch(["install", "--quiet", "--no-deps", FRONTEND], f"pip install {FRONTEND}")


def fetch_source() -> None:
    """CuPy's source distribution. READTHEDOCS: else its set-up asks for a CUDA toolkit."""
    options = ["download", "--quiet", "--no-deps", "--no-binary", "cupy", f"cupy=={CUPY}"]
    environment = {**os.environ, "READTHEDOCS": "True"}
    fetch([*options, "-d", FOLDER], f"pip download cupy=={CUPY}", env=environment)
    with tarfile.open(FOLDER / f"cupy-{CUPY}.tar.gz") as archive:
        archive.extractall(FOLDER, filter="data")
    run(["rm", "-rf", SOURCE], "rm")
    (FOLDER / f"cupy-{CUPY}").rename(SOURCE)


STRICT = ("-std=c++17", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")


def device_sources() -> list[Path]:
    return [*(HERE / "device").rglob("*.cc"), *(HERE / "device").rglob("*.h")]


def build_device() -> None:
    command: list[str | Path] = ["g++", *STRICT, "-fvisibility=hidden", "-isystem", headers()]
    command += [f"-DSTANDIN_VERSION={VERSION[CUDA]}"]
    command += ["-I", HERE / "device" / "include", "-Wl,-soname,libcuda.so.1,-z,defs"]
    command += [*(HERE / "device").glob("*.cc"), "-o", f"{DEVICE}.new", "-ldl", "-lpthread"]
    run(command, "g++ of the device")
    Path(f"{DEVICE}.new").rename(DEVICE)


CYTHONIZE = """
import Cython
from Cython.Compiler.Main import CompilationOptions, compile, default_options
environment = dict(
    CUPY_USE_CUDA_PYTHON=False, CUPY_CUFFT_STATIC=False, CUPY_CYTHON_VERSION=Cython.__version__,
    CUPY_CUDA_VERSION={version}, CUPY_HIP_VERSION=0)
directives = dict(
    embedsignature=True, c_api_binop_methods=True, binding=False, language_level=3)
directives["warn.deprecated.IF"] = False
options = CompilationOptions(
    default_options, compile_time_env=environment, cplus=True, output_file={out!r},
    compiler_directives=directives, include_path=["."])
raise SystemExit(compile(["cupy_backends/cuda/api/runtime.pyx"], options=options).num_errors)
"""


def runtime_module() -> Path:
    return FOLDER / f"runtime{sysconfig.get_config_var('EXT_SUFFIX')}"


def build_runtime() -> None:
    """CuPy's runtime module, which in the wheel has NVIDIA's runtime inside."""
    generated = FOLDER / "runtime.cpp"
    python = VENV / "bin" / "python"
    code = CYTHONIZE.format(out=str(generated), version=VERSION[CUDA])
    run([python, "-c", code], "Cython of runtime.pyx", cwd=SOURCE)
    backends = SOURCE / "cupy_backends"
    includes = (backends / "cuda" / "api", backends, HERE / "device" / "include", headers())
    command: list[str | Path] = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-w"]
    command += ["-D_FORCE_INLINES=1", *(f"-I{folder}" for folder in includes)]
    command += [f"-I{sysconfig.get_paths()['include']}", generated, "-o", runtime_module()]
    command += [f"-L{FOLDER}", "-l:libcuda.so.1", f"-Wl,-rpath,{FOLDER}"]
    run(command, "g++ of CuPy's runtime module")


def needed(module: Path, prefix: str) -> tuple[str, list[str]]:
    """The file name of a module's library, and the functions that the module takes from it."""
    symbols = run(["nm", "-D", "--undefined-only", module], "nm")
    found = re.findall(rf"\bU ({prefix}\w+)@(lib{prefix}\.so\.\d+)", symbols)
    if not found:
        raise RuntimeError(f"{module.name} takes no function from lib{prefix}.so")
    return found[0][1], sorted({name for name, _ in found})


SHELL = """// $SONAME: each function jumps to where `slots` points: see doubles/library.py.
#define SLOT(index, name)                                              \\
  asm(".globl " #name "\\n.type " #name ", @function\\n" #name ":\\n"  \\
      "  movq slots@GOTPCREL(%rip), %rax\\n  jmp *(8 * " #index ")(%rax)\\n");
extern "C" int not_supported() { return $STATUS; }
extern "C" int succeed() { return 0; }
extern "C" const char* text() { return "(stand-in device)"; }
extern "C" { void* slots[$N]; }
__attribute__((constructor)) static void begin() {
  for (auto& slot : slots) slot = reinterpret_cast<void*>(not_supported);
  $TEXTS
}
$ROWS
"""
NOT_SUPPORTED = {
    "cublas": 15,
    "cudnn": 3000,
    "cusolver": 9,
    "cufft": 16,
    "curand": 103,
    "cusparse": 10,
}


def build_libraries() -> None:
    """A shared object of the right name with every function that the wheel's modules link with."""
    LIBRARIES.mkdir(exist_ok=True)
    manifest = {}
    for name, (module, prefix) in LINKED.items():
        path = next(site_packages().glob(f"{module}.*.so"))
        soname, functions = needed(path, prefix)
        functions += [f for f in LOOKED_UP.get(name, ()) if f not in functions]
        build_shell(name, soname, functions)
        manifest[name] = {"soname": soname, "functions": functions}
    build_shell("cudnn", CUDNN_SONAME, CUDNN_FUNCTIONS)
    manifest["cudnn"] = {"soname": CUDNN_SONAME, "functions": list(CUDNN_FUNCTIONS)}
    for soname in DEPENDENCIES:
        build_library(soname, EMPTY)
    build_library(NCCL, EMPTY, f"-L{FOLDER}", "-Wl,--no-as-needed", "-l:libcuda.so.1")
    (LIBRARIES / "functions.json").write_text(json.dumps(manifest, indent=1))


def build_shell(name: str, soname: str, functions: Sequence[str]) -> None:
    """A library whose functions Python fills."""
    rows = "\n".join(f"SLOT({i}, {function})" for i, function in enumerate(functions))
    text = SHELL.replace("$SONAME", soname).replace("$STATUS", str(NOT_SUPPORTED[name]))
    text = text.replace("$N", str(len(functions))).replace("$ROWS", rows)
    texts = [i for i, f in enumerate(functions) if re.search(r"GetError(Name|String)$", f)]
    lines = [f"slots[{i}] = reinterpret_cast<void*>(text);" for i in texts]
    build_library(soname, text.replace("$TEXTS", " ".join(lines)))


def build_library(soname: str, text: str, *more: str) -> None:
    source, versions = LIBRARIES / f"{soname}.cc", LIBRARIES / f"{soname}.map"
    source.write_text(text)
    versions.write_text(f"{soname} {{ global: *; }};\n")
    command: list[str | Path] = ["g++", *STRICT, source, "-o", LIBRARIES / soname]
    linker = (f"-Wl,-soname,{soname}", f"-Wl,--version-script={versions}")
    run([*command, *linker, *more], f"g++ of {soname}")


def build() -> None:
    """Fetches and builds what is missing.

    Raises:
        Unavailable: a package cannot be fetched, or there is no compiler.
        RuntimeError: something does not compile.
    """
    if sys.version_info < (3, 11) or os.uname().machine != "x86_64":
        raise Unavailable("CuPy's wheels here are for Python 3.11 and newer on x86-64")
    if missing := [tool for tool in ("g++", "nm") if shutil.which(tool) is None]:
        raise Unavailable(f"there is no {' and no '.join(missing)} here")
    FOLDER.mkdir(parents=True, exist_ok=True)
    python = f"{sys.version_info}"
    once("packages", digest([], python, *PACKAGES), fetch_packages)
    try:
        once("frontend", digest([], python, FRONTEND), fetch_frontend)
    except Unavailable as missing:  # the tests of cuDNN say so
        print(f"without cuDNN's frontend: {missing}")
    native = [p for p in (ROOT / "shmtensor").rglob("*") if p.suffix in (".cc", ".h")]
    checkout = digest([ROOT / "setup.cfg", ROOT / "setup.py", *native], python)
    once("checkout", checkout, install_checkout)
    once("source", CUPY, fetch_source)
    device = digest([*device_sources(), HERE / "build.py"], python, CUPY)
    once("device", device, build_device)
    once("runtime", device, build_runtime)
    once("libraries", digest([HERE / "build.py"], python, CUPY), build_libraries)
