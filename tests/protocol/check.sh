#!/bin/bash
# usage: check.sh <model.pml> <label> <defines...>   exhaustive search; prints errors, states, seconds, the first violation
# `unless` (a kill at any moment) and partial-order reduction do not go together; REDUCE=1 where there is none.
model=$(realpath "$1"); label=$2; shift 2
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT
cp "$model" "$d/model.pml"; cd "$d" || exit 1
spin -a "$@" model.pml > spin.out 2>&1 || { cat spin.out; exit 1; }
reduce=-DNOREDUCE; [ -n "$REDUCE" ] && reduce=
gcc -O2 -DSAFETY $reduce -DCOLLAPSE -DVECTORSZ=2048 -DMEMLIM="${MEMLIM:-6000}" -o pan pan.c 2> gcc.out || { cat gcc.out; exit 1; }
start=$(date +%s)
timeout "${T:-300}" nice -n 10 ./pan -m400000 -w24 > out 2>&1
end=$(date +%s)
errors=$(grep -o 'errors: [0-9]*' out); states=$(grep 'states, stored' out | awk '{print $1}')
why=$(grep -m1 -E '^pan:[0-9]*: (assertion violated|invalid end state)' out | sed 's/pan:[0-9]*: //')
[ -z "$errors" ] && errors="INCOMPLETE"
grep -q 'Search not completed\|max search depth too small\|out of memory\|reached -DMEMLIM' out && why="$why (search not completed)"
echo "$label | $errors | states $states | $((end - start)) s | $why"
[ -n "$KEEP" ] && [ -f model.pml.trail ] && ./pan -r -v > "$KEEP" 2>&1
case "$errors$why" in "errors: 0") exit 0 ;; *) exit 3 ;; esac
