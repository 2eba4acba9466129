#!/bin/bash
# The models in small configurations: the ledger's, then the channel's. About a minute of processor time; needs spin and gcc.
cd "$(dirname "$0")" || exit 1
command -v spin > /dev/null || { echo "run.sh: spin is not installed (on Debian: apt-get install spin)"; exit 2; }
failed=0
./ledger.sh quick || failed=1
./check.sh channel.pml "channel, a kill" -DW0=1 -DW1=0 -DR1=0 -DR2=1 -DMAXCRASH=1 || failed=1
exit $failed
