# SPDX-License-Identifier: GPL-2.0-only
# With --partial a policy has only the tasks that ask for it. Its lines, and what happens when their reader goes.

# The class that a task asks for, and whether the policy has it: the command, a child of it, and another.
cat >look <<'C'
class() { sed -n -e 's/^policy *: *//p' -e 's/^ext.enabled *: *//p' /proc/$1/sched; }
class $$; class self; class $1
C
sleep 100 & other=$!
$P run cas --partial -- sh look $other >out 2>err || fail "run: $?"
[ "$(tr '\n' ' ' <out)" = "7 1 7 1 0 0 " ] || fail "classes: $(tr '\n' ' ' <out)"
$P run cas -- sh look $other >out 2>err || fail "run: $?"
[ "$(tr '\n' ' ' <out)" = "0 1 0 1 0 1 " ] || fail "classes without --partial: $(tr '\n' ' ' <out)"
kill $other

$P run cas --stats 200ms --for 1s --json >out 2>err || fail "statistics: $?"
[ $(grep -c '"switches_per_s":' out) -ge 3 ] || fail "lines: $(cat out)"
grep -q '"ended":"its time is over"' out || fail "end"

# The lines' reader goes: so does the policy, but not before it is said, nor without the command's status.
{ $P run fifo --json --stats 100ms -- sh -c 'sleep 1; exit 3' 2>err; echo $? >status; } | head -n 1 >out
[ "$(cat status)" = 3 ] || fail "status without a reader: $(cat status)"
grep -q 'unloaded after .* its lines are not read' err || fail "what it said without a reader"
# It went before there was a line, and the last one is the first that is not read.
{ $P run fifo --json -- sh -c 'sleep 0.3; exit 3' 2>err; echo $? >status; } | true
[ "$(cat status)" = 3 ] || fail "status without a reader from the start: $(cat status)"
{ $P run fifo --json --for 100ms -- sh -c 'sleep 1; touch later; exit 4' 2>err; echo $? >status; } | true
[ "$(cat status)" = 4 ] && [ -e later ] || fail "the command was left behind: $(cat status)"
$P run fifo --json --stats 100ms -- sh -c 'sleep 1; touch ended' >/dev/full 2>err; status=$?
[ $status = 2 ] && [ -e ended ] || fail "a full disk: $status"
