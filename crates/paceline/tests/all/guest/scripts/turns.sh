# SPDX-License-Identifier: GPL-2.0-only
# Policies alternate run by run on the machine's own kernel, and leave nothing behind.
compare() { $P compare --on here "$@"; }
compare --runs 2 --policy default,flsched --json -- sh -c '
    (cd /sys/kernel/sched_ext; cat root/ops 2>/dev/null || echo default) >>/tmp/turns
    hackbench -g 1 -l 30 -p' >out 2>err || fail "compare: $?"
# each alone and observed, and each first in its round
[ "$(tr '\n' ' ' <turns)" = "default default flsched flsched flsched flsched default default " ] ||
    fail "turns: $(tr '\n' ' ' <turns)"
[ "$(state)" = disabled ] || fail "still $(state)"
[ $(grep -c '"context_switches": [1-9]' out) -ge 4 ] || fail "not observed"
# The ratio to the first of each, and between what it was, from two rounds.
[ $(grep -c '"vs_first": [0-9.]*,$' out) = 2 ] || fail "ratios: $(grep vs_first out)"
[ $(grep -A 3 '"vs_first_range": {$' out | grep -c '"\(min\|max\)": [0-9.]*,*$') = 4 ] ||
    fail "ranges: $(grep -A 3 vs_first_range out)"

compare --policy fifo --workload agree-1 >out 2>err || fail "a file: $?"
compare --policy fifo --partial -- sh -c 'sed -n "s/^policy *: *//p" /proc/$$/sched >class' 2>err || fail partial
[ "$(cat class)" = 7 ] || fail "the class is $(cat class)"

# Its own switches, beside those of a machine that others use; and what it writes. The others have a CPU of their own:
# on a shared one each of their wakeups may preempt the program, which counts for both. Kernel threads still do so some
# 450 times.
taskset 2 sh -c 'while :; do usleep 500; done' & noise=$!
compare --policy default --json --show-output -- taskset 1 sh -c '
    echo it begins; n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done; echo careful >&2' >out 2>err ||
    fail "beside others: $?"
kill $noise
set -- $(sed -n 's/^ *"context_switches": \([0-9]*\),$/\1/p' out)
[ $# = 2 ] && [ $1 -gt 0 ] && [ $2 -gt $((3 * $1)) ] || fail "own switches, and the machine's: $*"
grep -q '"name": "usleep"' out && fail "another's task is its own"
grep -qx '\[default run 1 alone\] it begins' err && grep -qx '\[default run 1 observed\] careful' err ||
    fail "not shown: $(cat err)"
grep -q 'wrote to standard error in 1 of 1 run, though it ended with 0: `careful`' out || fail "no note"
grep -q '"vs_first": 1.0' out || fail "it did something"

# Rounds that are whole are not lost with one that fails.
compare --runs 3 --policy default,fifo --report page.html -- \
    sh -c 'echo >>runs; [ $(wc -l <runs) -lt 7 ] || exit 5' >out 2>err; status=$?
[ $status = 1 ] && grep -q 'policy [a-z]*: .* failed with status 5' err || fail "a failed round: $status"
grep -q '1 of 3 rounds: policy' out && [ -s page.html ] || fail "a whole round is lost: $(cat out)"
