#!/usr/bin/env bash
# The tests of the native code against an extension built with AddressSanitizer and UndefinedBehaviorSanitizer.
# usage: tests/sanitize.sh PYTHON [pytest arguments]
#        tests/sanitize.sh PYTHON fuzz [arguments of tests.fuzz]
#
# Run: what executes native code in this process (kernels, heap, ledger, forged handles, forged messages), and without
# arguments 150,000 forged handles and 10,000 other forged inputs of each kind besides (`make fuzz`: a million of each). Not run: tests whose subject is a killed child, which cannot
# report (tests/faults, *_faults, stress, locks, pools: each of their interpreters takes seconds here), limits that take away
# what the sanitizer itself needs (test_room, test_limits, address space), and, for time alone, the rest of
# tests/multiprocessing: absolute paths as further arguments run what one likes. `make test` runs all of those.
set -euo pipefail
python=$(realpath -s "${1:?usage: sanitize.sh PYTHON [fuzz] [arguments]}")
shift
cd "$(dirname "$0")/.."
root=$PWD
out=$root/build/sanitized
mkdir -p "$out"
"$python" -m pip install --quiet --disable-pip-version-check "setuptools>=70" "numpy>=2"
# The tests below run at the best level of this CPU.
SHMTENSOR_LEVELS=native SHMTENSOR_SANITIZE=address,undefined "$python" setup.py -q build --build-lib "$out"
# The interpreter itself is not instrumented: the runtimes have to be there first, and what Python keeps until exit is no leak.
export LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
# A size that no machine has is a MemoryError, as without a sanitizer, and no abort: a broken pickle may ask for one.
# The end of the interpreter unwinds a daemon thread by force: the frames that it skips stay marked, and ASan takes its
# own call of sigaltstack, which lies there next, for an overflow.
echo "interceptor_name:sigaltstack" >"$out/asan.supp"
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:suppressions=$out/asan.supp
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export PYTHONMALLOC=malloc
export PYTHONPATH="$out:$root" # ours from $out, the tests from $root
cd "$out"                      # not the sources: they have no extension, or another one
# capture=sys: what the sanitizers write goes out at once; else pytest would keep it, and an abort would take it along.
test_all() { "$python" -m pytest -v --capture=sys -c "$root/setup.cfg" --rootdir "$root" -p no:cacheprovider "$@"; }
fuzz() { "$python" -m tests.fuzz "$@"; }

case ${1:-} in
  fuzz) "$@" ;;
  ?*) test_all "$@" ;;
  *)
    # Each uses one core.
    { fuzz --inputs 150000 handles && fuzz --inputs 10000 pickles file_formats name_requests sockets; } >"$out/fuzz.log" 2>&1 &
    forged=$!
    test_all "$root/tests/native" "$root"/tests/memory/test_{heap,gradient_buffer,ownership,machine,ledger,handles,reclaim}.py \
      "$root"/tests/multiprocessing/test_codec.py "$root"/tests/shared_containers/test_corruption.py || { wait "$forged"; exit 1; }
    wait "$forged" || { cat "$out/fuzz.log"; exit 1; }
    cat "$out/fuzz.log"
    ;;
esac
