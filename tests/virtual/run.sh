#!/usr/bin/env bash
# The ledger and a channel as virtual processes in threads under ThreadSanitizer (ledger.cc says how), the heap of one
# process with its threads (heap.cc), the thread pool (pool.cc), then the same with seeded data races, each of which must be caught.
# usage: tests/virtual/run.sh PYTHON [seconds [seed]]      needs g++ with libtsan; PYTHON has NumPy (for its headers)
set -euo pipefail
python=${1:?usage: run.sh PYTHON [seconds [seed]]}
seconds=${2:-20} seed=${3:-$RANDOM}
cd "$(dirname "$0")/../.."
out=build/virtual
native=shmtensor/native
mkdir -p "$out"
includes=$("$python" -c 'import numpy, sysconfig; print("-I" + sysconfig.get_path("include"), "-I" + numpy.get_include())')
# A channel of small segments: it grows and is left all the time.
mkdir -p "$out/small/ipc/channel"
sed -E 's/(int kCells = )64/\12/; s/(size_t kCellBytes = )512/\1256/' "$native/ipc/channel/channel.h" > "$out/small/ipc/channel/channel.new"
grep -q 'kCells = 2;' "$out/small/ipc/channel/channel.new" && grep -q 'kCellBytes = 256;' "$out/small/ipc/channel/channel.new"
cmp -s "$out/small/ipc/channel/channel.new" "$out/small/ipc/channel/channel.h" || mv "$out/small/ipc/channel/channel.new" "$out/small/ipc/channel/channel.h"
flags="-std=c++17 -O1 -g -pthread -fno-strict-aliasing -fsanitize=thread -Wno-tsan -w -I$out/small -I$native -Itests/virtual $includes"

# What needs an interpreter stays out; the rest names Python functions that nobody calls here.
sources=(tests/virtual/{ledger,channel,heap,pool}.cc "$native"/threading/thread_pool.cc "$native"/ipc/{lock/lock,futex,channel/channel,channel/segment,channel/statistics_and_close}.cc)
for source in "$native"/memory/*.cc "$native"/memory/*/*.cc; do
  case $(basename "$source") in
    bind*.cc | block.cc | fault_points.cc | check.cc | gradient_buffer.cc | numpy_handler.cc) ;;
    *) sources+=("$source") ;;
  esac
done

compile() { # source, object
  local shim=
  case $1 in */ipc/channel/*.cc | *_channel_*.cc) shim="-include tests/virtual/shim.h" ;; esac
  # shellcheck disable=SC2086  # lists of flags
  g++ $flags $shim -c "$1" -o "$2.$$" && mv "$2.$$" "$2"
}
link() { # program, objects...
  local program=$1 wraps="-Wl,--wrap=fcntl -Wl,--wrap=fcntl64"
  shift
  case $program in */heap | */pool | */seeded_heap_* | */seeded_pool_*) wraps= ;; esac
  # shellcheck disable=SC2086  # a list of flags
  g++ -fsanitize=thread -pthread "$@" $wraps -Wl,--unresolved-symbols=ignore-all \
    -no-pie -ldl -o "$program"
}
# Without address randomisation: the sanitizer's shadow needs the places that it knows.
# Channel::reach reads a handle where by now another block may lie, and looks afterwards whether it was right: the one
# deliberate race.
echo "race:shmtensor::Channel::reach" > "$out/deliberate"
execute() {
  TSAN_OPTIONS="halt_on_error=1:exitcode=66:report_signal_unsafe=0:suppressions=$PWD/$out/deliberate:print_suppressions=0" setarch -R "$@"
}

newest=$(find "$native" tests/virtual "$out/small" -name '*.h' -newer "$out/stamp" 2>/dev/null | head -1 || true)
[ -e "$out/stamp" ] && [ -z "$newest" ] || rm -f "$out"/*.o
objects=()
for source in "${sources[@]}"; do
  object=$out/$(basename "$(dirname "$source")")_$(basename "${source%.cc}").o
  objects+=("$object")
  if [ ! "$object" -nt "$source" ]; then
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    compile "$source" "$object" &
  fi
done
wait
touch "$out/stamp"
# Three programs: virtual processes with their channel, the heap of one process with its threads, and the thread pool.
objects_of() { # ledger, heap or pool
  case $1 in
    heap) printf '%s\n' "${objects[@]}" | grep -v '/virtual_\(ledger\|channel\|pool\)\.o$\|/\(ipc\|lock\|channel\|threading\)_' ;;
    pool) printf '%s\n' "${objects[@]}" | grep '/virtual_pool\.o$\|/threading_' ;;
    *) printf '%s\n' "${objects[@]}" | grep -v '/virtual_\(heap\|pool\)\.o$\|/threading_' ;;
  esac
}
for program in ledger heap pool; do
  # shellcheck disable=SC2046  # one word each
  link "$out/$program" $(objects_of $program)
  execute "$out/$program" "$seconds" "$seed"
done

# ---- seeded races: a word whose order is taken away must be missed
seeded() { # name, file, sed expression, the program: ledger, heap or pool
  local name=$1 source=$native/$2 copy=$out/seeded_$1.cc program=${4:-ledger}
  sed -E "$3" "$source" > "$copy"
  if cmp -s "$source" "$copy"; then
    echo "seeded $name: nothing was changed in $source: the seed does not fit the code any more"
    exit 1
  fi
  compile "$copy" "$out/seeded_$name.o" -I"$(dirname "$source")"
  local object=$out/$(basename "$(dirname "$source")")_$(basename "${source%.cc}").o
  # shellcheck disable=SC2046  # one word each
  link "$out/seeded_$name" $(objects_of "$program" | grep -vx "$object") "$out/seeded_$name.o"
  for attempt in 1 2 3 4 5 6; do
    local code=0
    execute "$out/seeded_$name" 5 $((seed + attempt)) > "$out/seeded_$name.log" 2>&1 || code=$?
    if [ "$code" = 66 ]; then
      echo "seeded $name: caught ($(grep -m1 -o 'WARNING: ThreadSanitizer: [a-z ]*' "$out/seeded_$name.log"))"
      return
    fi
  done
  echo "seeded $name: NOT caught"
  exit 1
}
seeded drop memory/ledger/hold.cc 's/(index % 64\)\), )release/\1relaxed/; s/(load\(relaxed\) - 1, )release/\1relaxed/'
seeded scan memory/ledger/reclaim_blocks.cc 's/(a->slot\)\.load\()acquire/\1relaxed/; s/(bits\[w\]\.load\()acquire/\1relaxed/'
seeded lock ipc/lock/lock.cc 's/(owner\.store\(0, std::memory_order_)seq_cst/\1relaxed/'
seeded channel_ready ipc/channel/channel.cc 's/(store\(READY, std::memory_order_)seq_cst/\1relaxed/'
seeded channel_claim ipc/channel/channel.cc 's/(words\[i\]\.load\(std::memory_order_)acquire/\1relaxed/; s/(CLAIMED, own_peer\(\)\), std::memory_order_)acq_rel/\1relaxed/'
seeded channel_next ipc/channel/channel.cc 's/(compare_exchange_strong\(next, created->link, std::memory_order_)seq_cst/\1relaxed/; s/(compare_exchange_strong\(old, next, std::memory_order_)seq_cst/\1relaxed/'
seeded heap_busy memory/heap/heap.cc 's/(busy\.store\(0, )release/\1relaxed/' heap
seeded heap_stop memory/heap/heap.cc 's/(stop\.load\()acquire/\1relaxed/' heap
seeded pool_finished threading/thread_pool.cc 's/(finished\.fetch_add\(1)\)/\1, std::memory_order_relaxed)/' pool
