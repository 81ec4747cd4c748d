# SPDX-License-Identifier: GPL-2.0-only
# Runs the function `fault` under each of $POLICIES, and prints `survived NAME`, or `lost NAME: why`.

# Tasks of every kind that a policy has to give back unchanged. Each is set up before the test looks at it: the program
# that sets it up has become the loop.
loop='while :; do sleep 0.5; done'
witness() {
    "$@" sh -c "$loop" & witnesses="$witnesses $!"
    await '[ "$(tr "\0" " " </proc/$!/cmdline)" = "sh -c $loop " ]'
}
witness
witness taskset 1
witness taskset 3
witness chrt -b 0
witness chrt -i 0
witness chrt -f 3
witness chrt -r 2
witness; renice 7 -p $!
witness; renice -7 -p $!

# Class and priority of every task, and the affinity mask of those that are not kernel threads.
tasks() {
    grep -Hs -e '^policy' -e '^prio' /proc/[0-9]*/task/[0-9]*/sched | tr -s ' '
    grep -Hs -e '^VmSize:' -e '^Cpus_allowed:' /proc/[0-9]*/task/[0-9]*/status |
        awk -F: '$2 == "VmSize" { own = $1; next } $1 == own'
}

# After a policy is unloaded nothing is left: not the policy, no task in its class, none changed, none dead.
nothing_left() {
    await '[ "$(state)" = disabled ]'
    [ "$(cat /sys/kernel/sched_ext/nr_rejected)" = 0 ] || fail "tasks were refused"
    kill -0 $witnesses || fail "a bystander is gone"
    left=$(grep -ls '^ext.enabled.*1$' /proc/[0-9]*/task/[0-9]*/sched | head -n 3)
    [ -z "$left" ] || fail "left in its class:" $left
    tasks >after
    changed=$(awk -F: 'NR == FNR { was[$1, $2] = $3; next }
        ($1, $2) in was && was[$1, $2] != $3 { print $0 ", was" was[$1, $2] }' before after)
    [ -z "$changed" ] || fail "changed:" $changed
    # Before 7.1 the kernel warns, by its own fault, if a task is sent to a CPU and leaves at once [7e0ffb72de8a].
    broken=$(dmesg -c | grep -v 'scx_dsq_insert_commit' | grep -m 1 -e 'WARNING: ' -e 'BUG: ' -e 'Oops: ')
    [ -z "$broken" ] || fail "the kernel says: $broken"
}

# All processes except kernel threads.
users() {
    for user in $(grep -ls '^VmSize:' /proc/[0-9]*/status); do
        user=${user#/proc/}
        echo ${user%/*}
    done
}

# A lost policy does not spoil the runs of the next ones, unless it has left something behind that cannot be ended.
spoilt=
dmesg -c >/dev/null
for policy in $POLICIES; do
    if [ -n "$spoilt" ]; then
        echo "lost $policy: not run, for $spoilt"
        continue
    fi
    rm -rf scratch; mkdir scratch; cd scratch
    tasks >before
    users >there
    if (fault && nothing_left) >said 2>&1; then
        echo "survived $policy"
    else
        echo "lost $policy: $(tail -n 1 said)"
        for user in $(users | grep -vxFf there); do kill -KILL $user 2>/dev/null; done
        (nothing_left) >said 2>&1 || spoilt="$policy, $(tail -n 1 said)"
    fi
    cd ..
done
