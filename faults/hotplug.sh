# SPDX-License-Identifier: GPL-2.0-only
# CPUs 1 and 3 of four go offline and online, one by one and together, under load.
turn() { echo $2 >/sys/devices/system/cpu/cpu$1/online || fail "cpu$1 does not turn $2"; }
load
masks='4 6 c f f f'
for mask in $masks; do
    spin
    taskset -p $mask $! >/dev/null
done
renice 19 -p $!
taskset 8 sh -c 'touch begun; hackbench -g 1 -l 60 -p && touch bound' >out 2>&1 & bound=$!
hackbench -g 1 -l 60 >>out 2>&1 & job=$!
await '[ -e begun ]'
for step in '3 0' '1 0' '1 1' '3 1' '1 0' '3 0' '3 1' '1 1'; do
    turn $step
    progress $spinners
done
wait $bound $job; [ -e bound ] || fail "hackbench: $(cat out)"
[ "$(cat /sys/devices/system/cpu/online)" = 0-3 ] || fail "CPUs are missing"
# Both CPUs are used again: $used is a CPU's user time, niced or not, in ticks.
used() {
    used=
    while read -r name user nice rest; do
        [ "$name" != cpu$1 ] || used=$((user + nice))
    done </proc/stat
}
for cpu in 1 3; do
    used $cpu; had=$used
    await 'used $cpu; [ "$used" -gt "$had" ]'
done
for mask in $masks; do
    set -- $spinners; spinners="${spinners# $1}"
    now=$(taskset -p $1)
    [ "${now##* }" = $mask ] || fail "a mask of $mask is $now"
    kill -KILL $1
done
unload
