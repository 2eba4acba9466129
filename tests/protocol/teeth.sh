#!/bin/bash
# Every seeded bug must be caught, and the same configuration without it must be clean.
cd "$(dirname "$0")" || exit 1
failed=0
teeth() {
  bug=$1; shift
  ./check.sh channel.pml "clean $bug" "$@" || failed=1
  ./check.sh channel.pml "seeded $bug" "-DBUG_$bug" "$@" && { echo "NOT CAUGHT: $bug"; failed=1; }
}
teeth NO_GIVEBACK -DW0=1 -DW1=0 -DR1=0 -DR2=1 -DMAXCRASH=1
teeth NO_TOMB -DK=2 -DW0=1 -DW1=1 -DR1=0 -DR2=0 -DMAXCRASH=1
teeth NO_DONE -DW0=1 -DW1=0 -DR1=0 -DR2=1 -DMAXCRASH=1
teeth DONE_FORGOTTEN -DW0=1 -DW1=0 -DR1=0 -DR2=1 -DMAXCRASH=1
T=3600 MEMLIM=9000 teeth TAIL_LATE -DNS=2 -DW0=2 -DW1=1 -DR1=0 -DR2=2 -DMAXCRASH=1 -DFOREIGN=1
teeth NO_RECHECK -DNS=2 -DW0=2 -DW1=0 -DR1=1 -DR2=2 -DMAXCRASH=0 -DFOREIGN=1
teeth PREVIOUS_UNHELPED -DW0=2 -DW1=0 -DR1=0 -DR2=2 -DMAXCRASH=1
teeth ORDER_UNCHECKED -DK=3 -DNS=2 -DW0=1 -DW1=2 -DR1=0 -DR2=2 -DMAXCRASH=0
teeth BOUND_ONCE -DMAXSIZE=1 -DK=2 -DNS=2 -DW0=1 -DW1=1 -DR1=0 -DR2=1 -DMAXCRASH=0
exit $failed
