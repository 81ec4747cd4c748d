# SPDX-License-Identifier: GPL-2.0-only
# A real-time task takes CPU 1. Every task that can move leaves it: a task that waits there would get part of the
# twentieth that the kernel's deadline server grants. A task pinned there is reported, and ends when the real-time task
# has gone. With IN_PLACE a task that runs there becomes real-time, which the kernel does not report to the policy.
load
for i in 1 2 3 4; do spin; done
taskset 2 sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; touch done' & pinned=$!
progress $pinned $spinners
if [ "$IN_PLACE" ]; then from=2; told=2000; else from=1; told=0; fi
taskset $from chrt -f 50 taskset 2 sh -c 'while :; do :; done' & hog=$!
await 'ran $hog; [ ${ran%.*} -gt 10 ]'
# Sets $behind to the tasks of $left that were last on that CPU.
behind() {
    behind=
    for task in $left; do
        read -r stat </proc/$task/stat
        set -- ${stat##*) }
        [ ${37} != 1 ] || behind="$behind $task"
    done
}
# Each task has left before the hog has had two seconds since the policy could know, and at least 20 looks: a busy host
# may stop the other CPU meanwhile. From then on each gets at least half of its share. Some tasks come back for a moment
# when the deadline server runs.
looks=0 left=$spinners
until behind; left=$behind; [ -z "$left" ]; do
    looks=$((looks+1))
    ran $hog; [ ${ran%.*} -lt $((told + 2000)) ] || [ $looks -lt 20 ] || fail "behind the hog for $ran ms:$left"
    sleep 0.05
done
share 8000
[ $((8 * least)) -ge $all ] || { left=$spinners; behind; fail "$spinners had$each ms; behind the hog:$behind"; }
hackbench -g 1 -l 20 -p >out 2>&1 || fail "hackbench beside the hog: $?"
kill $spinners
await "grep -q 'sh\\[$pinned\\] waits for CPU 1, which real-time sh\\[$hog\\]' err"
[ ! -e done ] || fail "the hog kept no CPU: the task bound there had ended before"
kill $hog || fail "there was no hog"
wait $pinned; [ -e done ] || fail "the bound task is lost"
unload
