# SPDX-License-Identifier: GPL-2.0-only
# A comparison takes with it what it started, however it ends, and is refused where its answer would not be true.
compare() { $P compare --on here "$@"; }
# What it started goes with it.
sleep 1234 & other=$!
$P compare --on here --policy flsched -- sh -c 'sleep 4321 & echo $! $$ >begun; sleep 4321' >out 2>err & pid=$!
await '[ -s begun ]'
kill -INT $pid; wait $pid; status=$?
[ $status = 130 ] && grep -q interrupted err || fail "Ctrl-C: $status"
gone() { ! [ -e /proc/$1 ] || grep -q '^State:.Z' /proc/$1/status; }
for one in $(cat begun); do await "gone $one"; done
[ "$(state)" = disabled ] || fail "still $(state)"
mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
$P compare --on here --policy default --workload uneven-cgroups >out 2>err & pid=$!
await '[ -e /sys/fs/cgroup/light ]'
kill -INT $pid; wait $pid; status=$?
[ $status = 130 ] && [ ! -e /sys/fs/cgroup/light ] || fail "its cgroups are left: $status"
compare --policy flsched --limit 300ms -- sleep 4321 2>err; status=$?
[ $status = 1 ] && grep -q 'did not end within 0.3 s' err || fail "limit: $status"
compare --policy starve -- sh -c 'renice -n 19 $$; sleep 0.1; hackbench -g 1 -l 10' 2>err; status=$?
[ $status = 1 ] && grep -q 'policy starve: .*runnable task stall' err || fail "thrown out: $status"
kill $other || fail "others are gone too"
[ -z "$(ls -d /tmp/paceline-* 2>/dev/null)" ] || fail "files are left"

$P run fifo 2>first & pid=$!
await '[ "$(state)" = enabled ]'
compare --policy default -- true 2>err; status=$?
[ $status = 1 ] && grep -q 'default: fifo is enabled here: stop it first' err || fail "not its own time: $status"
kill $pid; wait $pid
(sleep 1; exec $P run fifo --for 1s) 2>first & pid=$!
compare --policy default -- sleep 3 2>err; status=$?
[ $status = 1 ] && grep -q 'default: .* came in charge while it ran' err || fail "nor to the end: $status"
wait $pid
refused compare --policy cfs -- true;             grep -q 'no kernel of today' err || fail cfs
refused compare --policy cas -- no-such-one;      grep -q 'no-such-one' err || fail command
refused compare --policy cas --cpus 4 -- true;    grep -q 'cpus is not for --on here' err || fail cpus
chmod 755 $(dirname $P)
refused su nobody -s /bin/sh -c "$P compare --on here --policy cas -- true"
grep -q 'needs root' err || fail root
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/half; echo '50000 100000' >/sys/fs/cgroup/half/cpu.max
refused compare --policy fifo -- true;            grep -q '/half/cpu.max is 50000 100000' err || fail limits
compare --policy default -- true 2>err || fail "Linux's own class keeps them: $?"
compare --policy fifo --ignore-cgroup-limits -- true 2>err || fail "told to ignore them: $?"
rmdir /sys/fs/cgroup/half
