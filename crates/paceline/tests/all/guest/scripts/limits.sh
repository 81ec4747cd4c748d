# SPDX-License-Identifier: GPL-2.0-only
# cpu.max of cgroups holds under $policy, and cpu.idle where weights do, whatever becomes of a cgroup whose tasks wait for its limit.
G=/sys/fs/cgroup
mkdir -p $G; mount -t cgroup2 none $G 2>/dev/null
echo +cpu >$G/cgroup.subtree_control
make() { mkdir -p $G/$1; }
limit() { echo "$2" >$G/$1/cpu.max; }
# hogs GROUP N: so many tasks that never sleep; the last one is $hog.
hogs() {
    for n in $(seq $2); do
        spin; hog=${spinners##* }
        echo $hog >$G/$1/cgroup.procs
    done
}
used() { while read -r name us; do [ $name != usage_usec ] || used=$us; done <$G/$1/cpu.stat; }
now() { read -r now rest </proc/uptime; now=$(echo $now | tr -d .); }
# What each of these groups uses of a CPU in so many seconds, in thousandths: $parts.
measure() {
    seconds=$1; shift; begun=
    for group in "$@"; do used $group; begun="$begun $used"; done
    now; since=$now
    sleep $seconds
    now; cs=$((now - since)); parts=
    for group in "$@"; do
        used $group; set -- $begun
        parts="$parts $(((used - $1) / (cs * 10)))"
        shift; begun=$*
    done
    in_charge
}
# A tick may come late on a busy host; what a cgroup had too much of is taken from a later period.
near() { [ $1 -ge $(($2 * 95 / 100 - 10)) ] && [ $1 -le $(($2 * 105 / 100 + 10)) ] || fail "$3: $1, not $2"; }

# This group's tasks would wait for a minute each: the kernel must not give the policy up.
make long; limit long '1000 1000000'
load
hogs long 8
make half; limit half '50000 100000'; hogs half 3
sleep 1
measure 5 half; set -- $parts; near $1 500 'half a CPU'
make outer; limit outer '80000 100000'; echo +cpu >$G/outer/cgroup.subtree_control
make outer/a; limit outer/a '1000 10000'; make outer/b; hogs outer/a 2; hogs outer/b 2
sleep 1
measure 5 outer half long; set -- $parts
near $1 800 'one around others'; near $2 500 'beside it'; [ $3 -le 6 ] || fail "a thousandth: $3"
measure 5 outer/a; set -- $parts; [ $1 -le 105 ] || fail "the one within: $1"
# A limit that changes or ends while its tasks wait.
limit half '20000 100000'; sleep 1
measure 5 half; set -- $parts; near $1 200 'lowered'
limit outer max; limit outer/a max; limit half '1000 1000000'; sleep 1
limit half max; sleep 1
measure 3 half; set -- $parts; [ $1 -ge 300 ] || fail "lifted: $1"
# A task that waits is moved, one is killed, and its group is removed.
limit half '1000 1000000'; sleep 1
echo $hog >$G/cgroup.procs; progress $hog
kill $(cat $G/outer/a/cgroup.procs); await 'rmdir $G/outer/a 2>/dev/null'
kill $(cat $G/outer/b/cgroup.procs); await 'rmdir $G/outer/b 2>/dev/null'
kill $hog
# A CPU goes offline while tasks wait on it, and is back.
echo 0 >/sys/devices/system/cpu/cpu1/online; sleep 2
measure 3 half; set -- $parts; [ $1 -le 6 ] || fail "on one CPU: $1"
echo 1 >/sys/devices/system/cpu/cpu1/online; sleep 1
kill $(cat $G/half/cgroup.procs); sleep 1
# An idle group beside one hog on each CPU, where weights hold.
if [ $policy = paceline ]; then
    make idle; echo 1 >$G/idle/cpu.idle; make busy; hogs idle 2; hogs busy 2
    # On a busy host it takes a while until weights are known.
    for try in 1 2 3 4; do
        measure 4 idle busy; set -- $parts
        [ $1 -gt 20 ] || break
    done
    [ $1 -le 20 ] && [ $2 -ge 1800 ] || fail "idle: $1 beside $2"
fi
unload
# Those that waited go on under Linux's own class.
limit long max; progress $(cat $G/long/cgroup.procs)
kill -KILL $spinners 2>/dev/null || true
