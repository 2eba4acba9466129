#!/usr/bin/env bash
# Builds a wheel for each Python, checks what it needs of the system, and tries it in an empty environment.
#
#   tests/wheels.sh .venv/bin python3.11 python3.12
#   tests/wheels.sh --install .venv/bin     installs the one of this commit and Python; exit code 1 if there is none
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$1" = --install ]; then
  [ -f dist/commit ] && [ "$(cat dist/commit)" = "$(git rev-parse HEAD)" ] && [ -z "$(git status --porcelain)" ] || exit 1
  "$2/pip" install --quiet --disable-pip-version-check --no-index --find-links dist --no-deps shmtensor 2>/dev/null || exit 1
  echo "installed the wheel of this commit from dist/"
  exit
fi
bin=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
zig=$("$bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
mkdir -p dist
for python in "$@"; do
  rm -rf "$work"/* build/lib.* build/bdist.*  # setuptools keeps files there that the sources have no more
  SHMTENSOR_GLIBC=2.28 SHMTENSOR_ZIG=$zig "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
    --wheel-dir "$work/built" .
  PATH="$bin:$PATH" "$bin/auditwheel" repair --plat manylinux_2_28_"$(uname -m)" --wheel-dir "$work/repaired" "$work"/built/*.whl \
    2>"$work/log" || { cat "$work/log"; exit 1; }
  wheel=$(echo "$work"/repaired/*.whl)
  # Without a compiler, without the sources, and with nothing but what the wheel names.
  "$python" -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
  cp tests/try_wheel.py "$work"
  (cd "$work" && env -i PATH="$work/venv/bin" HOME="$work" python try_wheel.py)
  mv "$wheel" dist/
  echo "dist/$(basename "$wheel")"
done
# What the wheels were built of: `make demo` compares it.
if [ -z "$(git status --porcelain)" ]; then git rev-parse HEAD >dist/commit; else rm -f dist/commit; fi
