#!/bin/bash
# usage: run.sh [quick|full]   The models of ledger and channel, exhaustively; needs spin and gcc.
#   quick  small configurations and a few seeded bugs: about a minute of processor time
#   full   every seeded bug with its clean twin, and the large configurations: hours, 9 GB of memory
cd "$(dirname "$0")" || exit 1
command -v spin > /dev/null || { echo "run.sh: spin is not installed (on Debian: apt-get install spin)"; exit 2; }
failed=0
channel() { ./check.sh channel.pml "channel, $@" || failed=1; }

quick() {
  ./ledger.sh quick || failed=1
  channel "a kill" -DW0=1 -DW1=0 -DR1=0 -DR2=1 -DMAXCRASH=1
}

full() {
  ./ledger.sh teeth || failed=1
  ./teeth.sh || failed=1
  ./ledger.sh full || failed=1
  export T=7200 MEMLIM=9000
  channel "one writer, growth" -DK=1 -DNS=3 -DW0=2 -DW1=0 -DR1=0 -DR2=1 -DMAXCRASH=1
  channel "two writers, growth" -DK=1 -DNS=3 -DW0=1 -DW1=1 -DR1=0 -DR2=1 -DMAXCRASH=1
  channel "two writers, one segment" -DK=2 -DNS=2 -DW0=1 -DW1=1 -DR1=0 -DR2=2 -DMAXCRASH=1
  channel "two writers, growth, two reads" -DK=1 -DNS=3 -DW0=2 -DW1=1 -DR1=0 -DR2=2 -DMAXCRASH=0
  channel "two readers, strangers' memory" -DNS=2 -DW0=2 -DW1=0 -DR1=1 -DR2=2 -DMAXCRASH=0 -DFOREIGN=1
  channel "two writers, strangers' memory, a kill" -DNS=2 -DW0=2 -DW1=1 -DR1=0 -DR2=2 -DMAXCRASH=1 -DFOREIGN=1
  channel "two writers, order" -DK=3 -DNS=2 -DW0=1 -DW1=2 -DR1=0 -DR2=2 -DMAXCRASH=0
}

"${1:-quick}"
exit $failed
