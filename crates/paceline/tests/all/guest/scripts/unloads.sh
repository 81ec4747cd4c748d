# SPDX-License-Identifier: GPL-2.0-only
# A policy unloads when its time is over, when its command ends, and on a signal.
$P run fifo --for 500ms 2>err || fail "time: $?"
grep -q 'unloaded after 0.* s, its time is over' err || fail "what it said"
grep -q "$(printf '\033')" err && fail "it commands a terminal that is not there"
[ "$(state)" = disabled ] || fail "still $(state)"

$P run flsched:slice=5ms -- sh -c 'cd /sys/kernel/sched_ext; cat root/ops; exit 3' >out 2>err
status=$?; [ $status = 3 ] || fail "status $status"
grep -qx flsched out || fail "in charge was: $(cat out)"
$P run cas -- sh -c 'kill -KILL $$' 2>err
status=$?; [ $status = 137 ] || fail "a signal: $status"

# The loader is of a higher class meanwhile; the command is scheduled as it was itself.
ulimit -Sn 1000
nice -n 5 $P run cas -- sh -c 'nice; cat /proc/$$/timerslack_ns; ulimit -Sn' >out 2>err || fail "nice: $?"
[ "$(tr '\n' ' ' <out)" = "5 50000 1000 " ] || fail "nice value, timer slack, files: $(cat out)"

# Ctrl-Z stops no loader that has a policy in charge; its command goes on when it is continued.
$P run cas -- sh -c 'touch up; sleep 1; echo done' >out 2>err & pid=$!
await '[ -e up ]'
kill -TSTP $pid
await 'grep -q "State:.*stopped" /proc/$pid/status'
[ "$(state)" = disabled ] || fail "stopped, and $(state)"
kill -CONT $pid
wait $pid; status=$?; [ $status = 130 ] && grep -qx done out || fail "continued: $status"

for signal in INT TERM HUP; do
    $P run cas 2>err & pid=$!
    await '[ "$(state)" = enabled ]'
    kill -$signal $pid
    wait $pid; status=$?
    [ $status = 130 ] || fail "$signal: $status"
    grep -q 'interrupted' err || fail "what it said"
    [ "$(state)" = disabled ] || fail "still $(state)"
done

# What nohup has it ignore ends nothing, and the command ignores it as well.
(trap '' HUP; exec $P run cas -- sh -c 'touch nohup; sleep 1; kill -HUP $$; exit 3' 2>err) & pid=$!
await '[ -e nohup ]'
kill -HUP $pid
wait $pid; status=$?
[ $status = 3 ] && grep -q 'the command has ended' err || fail "a hangup under nohup: $status"
