#!/usr/bin/env bash
# The extension compiled for aarch64 and tested on an emulated one: NEON kernels, vector widths, page and ABI questions.
# (An x86-64 host keeps its strong memory order under emulation: of that docs/design/memory-order.md speaks.)
#
# usage: tests/aarch64.sh [--compile | --wheel FOLDER | pytest arguments]
#   --wheel: a wheel for glibc 2.28 in dist/, imported and used once in the emulator; FOLDER has auditwheel and ziglang
#
# Debian's arm64 packages of Python are unpacked, not installed, under build/aarch64; wheels come for that platform.
# Installs g++-aarch64-linux-gnu and qemu-user when it may (root, apt-get).
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
out=$source/build/aarch64
root=$out/root
python=$out/venv/bin/python
# A real processor: the emulator's own, `max`, has SME, for which OpenBLAS takes kernels that the emulator runs wrongly.
export QEMU_CPU=neoverse-n1
[ $# -gt 0 ] || set -- tests/native tests/memory/test_heap.py tests/memory/test_ledger.py tests/tensor tests/autograd

if ! command -v aarch64-linux-gnu-g++ >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
  apt-get update -qq
  apt-get install -y -qq g++-aarch64-linux-gnu qemu-user >/dev/null
fi

if [ ! -x "$root/usr/bin/python3.11" ]; then
  mkdir -p "$root" "$out/debs" "$out/apt/lists/partial" "$out/apt/archives/partial"
  # Lists of another architecture in a folder of their own: the machine's own stay as they are.
  apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State::lists=$out/apt/lists"
    -o "Dir::Cache=$out/apt" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$out/debs" && "${apt[@]}" download python3.11 python3.11-minimal libpython3.11-stdlib libpython3.11-minimal \
    libpython3.11-dev libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libffi8 libssl3 libbz2-1.0 liblzma5 libuuid1 libcrypt1)
  for package in "$out"/debs/*.deb; do dpkg -x "$package" "$root"; done
fi

site=$out/venv/lib/python3.11/site-packages
if [ ! -x "$python" ]; then
  mkdir -p "$out/venv/bin"
  printf 'home = %s\ninclude-system-site-packages = false\nversion = 3.11\n' "$root/usr/bin" >"$out/venv/pyvenv.cfg"
  platforms=(--platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux_2_27_aarch64
    --platform manylinux_2_28_aarch64 --platform any)
  "${PYTHON:-python3}" -m pip install --quiet --disable-pip-version-check --only-binary=:all: "${platforms[@]}" \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none --target "$site" \
    "setuptools>=70" "numpy>=2" "posix_ipc>=1.1" "cloudpickle>=3" "tqdm>=4.60" "scipy-openblas32>=0.3.29" "scipy>=1.11" \
    "pytest>=8" "hypothesis>=6"
  printf '#!/bin/sh\nexec qemu-aarch64 -L %s -0 %s %s "$@"\n' "$root" "$python" "$root/usr/bin/python3.11" >"$python"
  chmod +x "$python"
fi

compiler="aarch64-linux-gnu-g++ -Werror -I$root/usr/include/python3.11 -I$root/usr/include"
if [ "$1" = --wheel ]; then
  bin=$(realpath "$2")
  zig=$("$bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
  rm -rf "$out/wheel" "$out/tried" dist/*_aarch64.whl
  SHMTENSOR_GLIBC=2.28 SHMTENSOR_ZIG=$zig CXX=$compiler \
    "$python" setup.py -q build --build-base "$out/wheel/build" bdist_wheel --dist-dir "$out/wheel/dist"
  PATH="$bin:$PATH" "$bin/auditwheel" repair --plat auto --wheel-dir dist "$out"/wheel/dist/*.whl
  mkdir "$out/tried"
  (cd "$out/tried" && "$bin/python" -m zipfile -e "$source"/dist/*manylinux_2_28_aarch64.whl . && PYTHONPATH=$out/tried "$python" -c '
import shmtensor as st
x = st.randn(64, 64, requires_grad=True)
(x @ x).relu().sum().backward()
print("aarch64", st.__version__, st.__file__, x.grad.shape)')
  exit
fi

# Where nothing is run, warnings and errors are all that is asked for: in a third of the time.
[ "$1" != --compile ] || export CXXFLAGS=-O1
SHMTENSOR_STUBS=0 CXX=$compiler "$python" setup.py -q build --build-lib "$out/lib"
[ "$1" != --compile ] || exit 0
arguments=()
for argument in "$@"; do
  case $argument in -*) arguments+=("$argument") ;; *) arguments+=("$source/$argument") ;; esac
done
# What only the emulator does: it dies when a process with threads forks, and makes up what /proc/self/stat says, so that
# a process does not recognise itself by its start time.
emulated=(--deselect tests/native/threading/test_thread_pool.py::test_forked_child_has_a_separate_pool
  --deselect tests/native/threading/test_thread_pool.py::test_fork_while_other_threads_compute
  --deselect tests/memory/test_ledger.py::test_process_whose_lock_was_closed_is_not_swept)
cd "$out"  # not the sources: they have no extension, or that of this machine
PYTHONPATH=$out/lib exec "$python" -m pytest -q -c "$source/setup.cfg" --rootdir "$source" -p no:cacheprovider "${emulated[@]}" "${arguments[@]}"
