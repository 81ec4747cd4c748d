# SPDX-License-Identifier: GPL-2.0-only
# CPUs 1 and 3 of four go and come back, one by one and together, under load.
turn() { echo $2 >/sys/devices/system/cpu/cpu$1/online || fail "cpu$1 does not turn $2"; }
load
for mask in 4 6 c f f f f f; do
    spin
    taskset -p $mask $! >/dev/null
done
renice 19 -p $!
(taskset 8 hackbench -g 1 -l 60 -p && touch bound) >out 2>&1 & bound=$!
hackbench -g 1 -l 60 >>out 2>&1 & job=$!
for round in 1 2 3; do
    for step in '3 0' '1 0' '1 1' '3 1'; do
        turn $step
        progress $spinners
    done
done
wait $bound $job; [ -e bound ] || fail "hackbench: $(cat out)"
[ "$(cat /sys/devices/system/cpu/online)" = 0-3 ] || fail "CPUs are missing"
for mask in 4 6 c f f f f f; do
    set -- $spinners; spinners="${spinners# $1}"
    now=$(taskset -p $1)
    [ "${now##* }" = $mask ] || fail "a mask of $mask is $now"
    kill -KILL $1
done
unload
