#!/bin/bash
# usage: run.sh [quick|full]   The models of ledger, slabs of GPU memory, channel, its end, rows without locks, and names, exhaustively; needs spin and gcc.
#   quick  small configurations and a few seeded bugs: about a minute of processor time
#   full   every seeded bug with its clean twin, and the large configurations: hours, 9 GB of memory
cd "$(dirname "$0")" || exit 1
command -v spin > /dev/null || { echo "run.sh: spin is not installed (on Debian: apt-get install spin)"; exit 2; }
failed=0
channel() { ./check.sh channel.pml "channel, $@" || failed=1; }
end() { REDUCE=1 ./check.sh end.pml "end, $@" || failed=1; }
names() { ./check.sh names.pml "names, $@" || failed=1; }
slab() { ./check.sh slab.pml "slab, $@" || failed=1; }
holder() { ./check.sh holder.pml "holder, $@" || failed=1; }
caught() { # model, seeded bug, defines...
  local model=$1 bug=$2
  shift 2
  [ "$model" = end ] && local -x REDUCE=1  # its deaths are steps, no `unless`
  ./check.sh "$model.pml" "$model, seeded $bug" "-DBUG_$bug" "$@" && { echo "NOT CAUGHT: $bug"; failed=1; }
}

quick() {
  ./ledger.sh quick || failed=1
  channel "a kill" -DW0=1 -DW1=0 -DR1=0 -DR2=1 -DMAXCRASH=1
  end "a writer, two readers, a kill" -DWRITERS=1 -DREADERS=2
  end "two writers, a reader, a kill" -DWRITERS=2 -DREADERS=1
  caught end WRITER_UNCHECKED -DWRITERS=1 -DREADERS=1 -DMAXCRASH=0
  caught end SHUT_AFTERWARDS -DWRITERS=1 -DREADERS=1 -DMAXCRASH=0
  holder "a sweeper, two kills" -DJOINER=0
  holder "a joiner, two kills" -DSWEEPER=0
  caught holder STATE_READ_EARLY -DJOINER=0
  caught holder UNBORN_UNSEEN -DJOINER=0
  slab "sent and sent on" -DOPS0=3 -DOPS1=3 -DOPS2=1 -DNH=2 -DMAXCRASH=0
  slab "a receiver, a kill" -DOPS0=3 -DOPS1=3 -DOPS2=0
  for bug in BIT_BEFORE_EVENT COUNT_FIRST PINS_UNSEEN NO_MARK FREED_WHILE_OPEN NO_EVENT_WAIT; do
    caught slab $bug -DOPS0=4 -DOPS1=4 -DOPS2=0 -DMAXCRASH=0
  done
  caught slab LOST_AT_ONCE -DOPS0=3 -DOPS1=3 -DOPS2=0
  caught slab SWEPT_AT_LOCK -DOPS0=4 -DOPS1=4 -DOPS2=0
  caught slab WAITS_LEFT -DOPS0=4 -DOPS1=4 -DOPS2=0
  names "taken back or not, two kills"
  for bug in NOT_VALIDATED NO_FAREWELL; do caught names $bug; done
  caught names NOT_FOLLOWED_ON -DUNPUBLISH=0
}

teeth() {
  for bug in SHUT_UNSAID REFUSED_UNSAID WRITER_UNCHECKED SHUT_AFTERWARDS WRITING_FORGOTTEN; do
    caught end "$bug" -DWRITERS=1 -DREADERS=1
  done
  for bug in LAST_UNSAID CLAIMED_FORGOTTEN; do caught end "$bug" -DWRITERS=1 -DREADERS=2; done
  for bug in STATE_READ_EARLY UNBORN_UNSEEN SWEEPER_STORES PIPE_UNSEEN NAME_NOT_READ_AGAIN RELEASE_FIRST; do
    caught holder "$bug" -DSWEEPER=0
  done
}

full() {
  ./ledger.sh teeth || failed=1
  teeth
  ./teeth.sh || failed=1
  ./ledger.sh full || failed=1
  export T=7200 MEMLIM=9000
  slab "two receivers, a kill" -DOPS0=3 -DOPS1=3 -DOPS2=2
  slab "a receiver, two kills" -DOPS0=4 -DOPS1=4 -DOPS2=0 -DMAXCRASH=2
  end "two of each, a kill" -DWRITERS=2 -DREADERS=2
  holder "all, two kills"
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
