# SPDX-License-Identifier: GPL-2.0-only
# A real-time task takes CPU 1. Who can leaves it: who waited there would live on the twentieth that the kernel's
# deadline server leaves to them. A task bound there is reported, and ends when the real-time task has gone. With
# IN_PLACE a task that runs there becomes one, of which the kernel tells no policy.
load
for i in 1 2 3 4; do spin; done
taskset 2 sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; touch done' & pinned=$!
progress $pinned $spinners
if [ "$IN_PLACE" ]; then from=2; else from=1; fi
taskset $from chrt -f 50 taskset 2 sh -c 'while :; do :; done' & hog=$!
await 'ran $hog; [ ${ran%.*} -gt 10 ]'
share 8000
[ $((12 * least)) -ge $all ] || fail "one of four had $least ms, all had $all ms"
hackbench -g 1 -l 20 -p >out 2>&1 || fail "hackbench beside the hog: $?"
kill $spinners
await "grep -q 'sh\\[$pinned\\] waits for CPU 1, which real-time sh\\[$hog\\]' err"
[ ! -e done ] || fail "the hog is none: who is bound there was over before"
kill $hog || fail "there was no hog"
wait $pinned; [ -e done ] || fail "the bound task is lost"
unload
