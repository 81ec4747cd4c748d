# SPDX-License-Identifier: GPL-2.0-only
# What every script in the guest knows: the command, the state of sched_ext, an end with a reason.

P=/init
cd /tmp

state() { cat /sys/kernel/sched_ext/state; }
ops() { (cd /sys/kernel/sched_ext && cat root/ops); }
# Who keeps the CPUs goes first, or nobody hears why it failed.
fail() {
    kill -KILL $hogs $spinners 2>/dev/null
    echo "failed: $* [$(tail -n 3 err)]" | tr '\n' '|'; echo
    exit 1
}
await() { i=0; until eval "$1"; do i=$((i+1)); [ $i -lt 400 ] || fail "never: $1"; sleep 0.05; done; }

kernel_said() { dmesg | grep -e 'sched_ext: ' -e 'rcu: '; }

# The policy has charge still; else the kernel has said why not.
in_charge() {
    [ "$(state)" = enabled ] || fail "thrown out: $(kernel_said | tail -n 4)"
}

# $policy in charge until `unload`; $by: how, where not by sched_ext.
by=
load() {
    $P run $policy $by "$@" >lines 2>err & pid=$!
    await '[ "$(state)" = enabled ]'
}
unload() {
    in_charge
    kill -INT $pid
    wait $pid; status=$?; [ $status = 130 ] || fail "its loader ended with $status"
    [ "$(state)" = disabled ] || fail "still $(state)"
}

# A task that never sleeps; the CPU time that a task has had, as $ran in ms; whether each of some runs on.
spin() { (while :; do :; done) & spinners="$spinners $!"; }
ran() {
    while read -r name colon ran; do
        [ "$name" != se.sum_exec_runtime ] || return 0
    done </proc/$1/sched
}
progress() {
    for task in "$@"; do
        ran $task; had=$ran
        await 'ran $task; [ "$ran" != "$had" ]'
    done
}
