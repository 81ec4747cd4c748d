# SPDX-License-Identifier: GPL-2.0-only
# After by-affinity.sh: every task gets its own mask back.
steer
# Children begin with their parent's own mask, and a mask that is asked for is kept.
set -- $pids; one=$1 two=$2 three=$3
# A mask that is no kind of core's: one that is cannot be told from what the steering gave.
noted() { grep -q "^{\"tid\":$1,.*\"own\":\"$2\"" /run/paceline/affinity; }
taskset -pc 3-5 $one >/dev/null; taskset -pc 0,3 $two >/dev/null
await 'noted $one 3-5'
await 'noted $two 0,3'
# One that becomes a real-time task is no longer placed, and has its own mask.
of() { taskset -p $1 | sed 's/.*: //'; }
chrt -r -p 1 $three; await '[ "$(of $three)" = 3f ]'; chrt -o -p 0 $three; await '[ "$(of $three)" != 3f ]'
kill -INT $pid; wait $pid; status=$?; [ $status = 130 ] || fail "Ctrl-C: $status"
[ "$(masks)" = " 1 38 4 3f 1 9 " ] || fail "after Ctrl-C: $(masks)"
none || fail "the file is left"
grep -q 'threads got the own mask back' err || fail "what it said"
taskset -pc 0-5 $one >/dev/null; taskset -pc 0-5 $two >/dev/null

# Killed: the next start, whatever it is for, gives masks back.
steer
kill -KILL $pid; wait $pid
case "$(masks)" in *3f*) fail "back too early: $(masks)";; esac
$P run min-fair --by affinity --for 200ms $kinds >out 2>err || fail "the second start: $?"
grep -q 'threads got back the own mask' err || fail "what the second start said"
[ "$(masks)" = " 6 3f " ] || fail "after a second start: $(masks)"
none || fail "the file is left"

# A CPU that is away comes back to the tasks that had it, whether it went meanwhile or before.
cpu4() { echo $1 >/sys/devices/system/cpu/cpu4/online || fail "CPU 4: $1"; }
steer
cpu4 0
await '[ "$(masks)" = " 4 2c 2 3 " ]'
kill -INT $pid; wait $pid
cpu4 1
[ "$(masks)" = " 6 3f " ] || fail "it went: $(masks)"
cpu4 0
steered=" 4 2c 2 3 "; steer
cpu4 1
await '[ "$(masks)" = " 2 3 4 3c " ]'
kill -INT $pid; wait $pid
[ "$(masks)" = " 6 3f " ] || fail "it was away: $(masks)"
steered=" 2 3 4 3c "

# What a cpuset lets a thread have changes with the cpuset afterwards.
group=/sys/fs/cgroup/group
mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
mkdir $group
for p in $pids; do echo $p >$group/cgroup.procs; done
for signal in INT KILL; do
    echo 0-3 >$group/cpuset.cpus
    steered=" 2 3 4 c "; steer
    kill -$signal $pid; wait $pid
    echo 0-5 >$group/cpuset.cpus
    [ $signal = INT ] || $P run min-fair --by affinity --for 200ms $kinds 2>err || fail "after a kill: $?"
    [ "$(masks)" = " 6 3f " ] || fail "bound to the cpuset that was, $signal: $(masks)"
done
steered=" 2 3 4 3c "

# The end of a command, and of one that steers nothing else.
$P run max-fair --by affinity $kinds --partial -- sh -c 'sleep 0.5; exit 3' >out 2>err; status=$?
[ $status = 3 ] || fail "status $status"
[ "$(masks)" = " 6 3f " ] || fail "others were steered: $(masks)"

refused $P run flsched --by affinity $kinds;  grep -q 'flsched decides in the kernel alone' err || fail flsched
refused $P run min-fair --by affinity;        grep -q 'alike' err || fail alike
# Where masks cannot be noted, that is said at once, and how the command ends is how this does.
chmod 755 $(dirname $P)
printf '#!/bin/sh\nsleep 1; grep -q "XDG_RUNTIME_DIR.*the command goes on" /tmp/err; exit $((3+$?))\n' >late
chmod 755 late
as_nobody() { su nobody -s /bin/sh -c "$P run max-fair --by affinity $kinds $*" 2>err; status=$?; }
as_nobody -- ./late; [ $status = 3 ] || fail "a command that is not steered: $status"
as_nobody;           [ $status = 1 ] && grep -q XDG_RUNTIME_DIR err || fail "nobody: $status"
steer
refused $P run min-fair --by affinity $kinds; grep -q 'end it first' err || fail second
kill -INT $pid; wait $pid
kill $pids
