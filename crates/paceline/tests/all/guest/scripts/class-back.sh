# SPDX-License-Identifier: GPL-2.0-only
# The kernel gets its own class back, whatever ends a policy: sysrq, a signal, the kernel's watchdog.
$P run flsched --json -- sh -c 'sleep 1; echo S >/proc/sysrq-trigger; sleep 1' >out 2>err
status=$?; [ $status = 1 ] || fail "sysrq: $status"
grep -q '"ended":"the kernel stopped it' out || fail "end: $(tail -n 1 out | head -c 300)"
grep -q '"reason":"disabled by sysrq-S"' out || fail "reason: $(tail -n 1 out | head -c 300)"
[ "$(state)" = disabled ] || fail "still $(state)"

# A policy's loader is above it, and answers a signal while its other threads starve.
sh -c "renice -n 19 -p \$\$ && exec $P run starve" >out 2>err & pid=$!
await '[ "$(state)" = enabled ]'
kill -INT $pid
wait $pid; status=$?; [ $status = 130 ] || fail "starved by its own policy: $status"

$P run starve -- sh -c 'renice -n 19 $$; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done' 2>err
status=$?; [ $status = 1 ] || fail "watchdog: $status"
grep -q 'the kernel stopped it: runnable task stall' err || fail "reason"
grep -q '^CPU states' err || fail "no dump"
[ "$(state)" = disabled ] || fail "still $(state)"
