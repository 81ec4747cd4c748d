# SPDX-License-Identifier: GPL-2.0-only
# A real-time task takes CPU 1 for itself, and the kernel has no mercy with those behind it.
for server in /sys/kernel/debug/sched/*_server/cpu1/runtime; do echo 0 >$server; done
load
for i in 1 2 3 4; do spin; done
taskset 2 sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; touch done' & pinned=$!
progress $pinned $spinners
chrt -f 50 taskset 2 sh -c 'while :; do :; done' & hog=$!
await '[ "$(ran $hog)" -gt 10000 ]'
for round in 1 2 3; do progress $spinners; done
[ ! -e done ] || fail "the pinned task was over before"
kill $spinners
hackbench -g 1 -l 50 -p >out 2>&1 || fail "hackbench beside the hog: $?"
await "grep -q 'sh\\[$pinned\\] waits for CPU 1, which real-time sh\\[$hog\\]' err"
had=$(ran $pinned); sleep 0.3
[ "$(ran $pinned)" = $had ] || fail "the hog is none: who is pinned behind it runs"
kill $hog || fail "there was no hog"
wait $pinned; [ -e done ] || fail "the pinned task is lost"
unload
