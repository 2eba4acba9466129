#!/bin/bash
# usage: ledger.sh [quick|teeth|full]   the ledger's model: small configurations (under a minute), twelve seeded bugs,
# large ones.
# Every configuration must be clean, every seeded bug must be caught. Needs spin and gcc.
cd "$(dirname "$0")" || exit 1
command -v spin > /dev/null || { echo "ledger.sh: spin is not installed"; exit 2; }
failed=0

# label, expected number of errors (0, or "some"), defines...
search() {
  label=$1; expected=$2; shift 2
  d=$(mktemp -d); cp ledger.pml "$d"
  (
    cd "$d" || exit 1
    # NOREDUCE: `unless` (a kill at any moment) and partial-order reduction do not go together.
    spin -a "$@" ledger.pml > /dev/null && gcc -O2 -DSAFETY -DNOREDUCE -DCOLLAPSE -DVECTORSZ=2048 -DMEMLIM="${MEMLIM:-6000}" -o pan pan.c || exit 1
    timeout "${T:-300}" nice -n 10 ./pan -m200000 -w24 > out 2>&1
  )
  errors=$(grep -o 'errors: [0-9]*' "$d/out" | grep -o '[0-9]*')
  states=$(grep 'states, stored' "$d/out" | awk '{print $1}')
  why=$(grep -m1 -E '^pan:[0-9]*: (assertion violated|invalid end state)' "$d/out" | sed 's/pan:[0-9]*: //')
  grep -q 'Search not completed\|max search depth too small\|out of memory\|reached -DMEMLIM' "$d/out" && [ "$expected" = 0 ] && errors="incomplete"
  rm -rf "$d"
  verdict=ok
  if [ "$expected" = 0 ]; then [ "$errors" = 0 ] || verdict=FAILED; else [ "${errors:-0}" != 0 ] || verdict="NOT CAUGHT"; fi
  [ "$verdict" = ok ] || failed=1
  echo "$verdict | $label | errors ${errors:-incomplete} | states $states | $why"
}

bug() { name=$1; shift; search "clean $name" 0 "$@"; search "seeded $name" some "-DBUG_$name" "$@"; }

quick() {
  search "one pickle, a kill" 0 -DOPS0=3 -DOPS1=1 -DOPS2=1 -DNH=1 -DMAXCRASH=1 -DEXPIRE=0
  search "fork, a kill" 0 -DFORK -DOPS0=3 -DOPS1=1 -DOPS2=1 -DNH=1 -DMAXCRASH=1 -DEXPIRE=0
  search "orphan slot" 0 -DOPS0=1 -DOPS1=2 -DOPS2=1 -DNH=1 -DMAXCRASH=1 -DEXPIRE=0
  search "seeded ACK_FIRST" some -DBUG_ACK_FIRST -DOPS0=3 -DOPS1=1 -DOPS2=0 -DNH=1 -DMAXCRASH=0 -DEXPIRE=0
  search "seeded FREEING_LOST" some -DBUG_FREEING_LOST -DOPS0=1 -DOPS1=2 -DOPS2=0 -DNH=1 -DMAXCRASH=2 -DEXPIRE=0
  search "seeded FORK_LOCK_LATE" some -DBUG_FORK_LOCK_LATE -DFORK -DOPS0=4 -DOPS1=1 -DOPS2=0 -DNH=1 -DMAXCRASH=0 -DEXPIRE=0
}

teeth() {
  bug ACK_FIRST -DOPS0=3 -DOPS1=1 -DOPS2=0 -DNH=1 -DMAXCRASH=0 -DEXPIRE=0
  bug VALIDATE_FIRST -DOPS0=4 -DOPS1=1 -DOPS2=1 -DNH=1 -DMAXCRASH=0 -DEXPIRE=0
  bug NO_DYING -DOPS0=4 -DOPS1=1 -DOPS2=1 -DNH=1 -DMAXCRASH=0 -DEXPIRE=0
  bug PIN_UNCHECKED -DOPS0=3 -DOPS1=3 -DOPS2=1 -DNH=2 -DMAXCRASH=0 -DEXPIRE=0
  bug NO_NONCE -DOPS0=1 -DOPS1=2 -DOPS2=2 -DNH=1 -DMAXCRASH=1 -DEXPIRE=0
  bug FORK_UNCHECKED -DFORK -DOPS0=4 -DOPS1=3 -DOPS2=0 -DNH=1 -DMAXCRASH=0 -DEXPIRE=0
  bug FORK_LOCK_LATE -DFORK -DOPS0=4 -DOPS1=1 -DOPS2=0 -DNH=1 -DMAXCRASH=0 -DEXPIRE=0
  bug FREEING_LOST -DOPS0=1 -DOPS1=2 -DOPS2=0 -DNH=1 -DMAXCRASH=2 -DEXPIRE=0
  bug GEN_STAYS -DOPS0=5 -DOPS1=2 -DOPS2=0 -DNH=1 -DMAXCRASH=0 -DEXPIRE=0
  bug PINS_UNSEEN -DOPS0=4 -DOPS1=1 -DOPS2=0 -DNH=1 -DMAXCRASH=0 -DEXPIRE=0
  bug ROW_KEPT -DOPS0=3 -DOPS1=1 -DOPS2=0 -DNH=1 -DMAXCRASH=1 -DEXPIRE=0
  bug DEAD_PINS_DROPPED -DOPS0=1 -DOPS1=2 -DOPS2=1 -DNH=1 -DMAXCRASH=1 -DEXPIRE=0
}

full() {
  export T=3000 MEMLIM=9000
  search "re-export, expiry" 0 -DOPS0=3 -DOPS1=2 -DOPS2=1 -DNH=1 -DMAXCRASH=2
  search "the same, process 2 forked" 0 -DFORK -DOPS0=3 -DOPS1=2 -DOPS2=1 -DNH=1 -DMAXCRASH=2
  search "two pickles" 0 -DOPS0=3 -DOPS1=3 -DOPS2=1 -DNH=2 -DMAXCRASH=1
  search "the same with fork" 0 -DFORK -DOPS0=3 -DOPS1=3 -DOPS2=1 -DNH=2 -DMAXCRASH=1
  search "orphan slot, two reclaimers" 0 -DOPS0=1 -DOPS1=3 -DOPS2=3 -DNH=1 -DMAXCRASH=2
}

"${1:-quick}"
exit $failed
