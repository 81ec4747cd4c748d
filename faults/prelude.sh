# SPDX-License-Identifier: GPL-2.0-only
# Functions for every script in the guest: the command, the state of sched_ext, a failure with a reason.

P=/init
cd /tmp

state() { cat /sys/kernel/sched_ext/state; }
ops() { (cd /sys/kernel/sched_ext && cat root/ops); }
# Tasks that keep the CPUs are killed first, else the reason is never printed.
fail() {
    kill -KILL $hogs $spinners 2>/dev/null
    echo "failed: $* [$(tail -n 3 err)]" | tr '\n' '|'; echo
    exit 1
}
await() { i=0; until eval "$1"; do i=$((i+1)); [ $i -lt 400 ] || fail "never: $1"; sleep 0.05; done; }

# Expects a command line to be refused, with one line in err that says why.
refused() {
    "$@" >out 2>err; status=$?
    [ $status = 2 ] && [ $(wc -l <err) = 1 ] || fail "$* gave $status: $(cat err)"
}

kernel_said() { dmesg | grep -e 'sched_ext: ' -e 'rcu: '; }

# Fails if the policy is no longer loaded, with the kernel's reason.
in_charge() {
    [ "$(state)" = enabled ] || fail "thrown out: $(kernel_said | tail -n 4)"
}

# Loads $policy until `unload`; $by has options for a run without sched_ext.
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

# spin: starts a task that never sleeps. ran: sets $ran to a task's CPU time in ms. progress: waits until each task ran.
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

# Waits until the spinners have had $1 ms together, some dozens of slices, however long a busy host takes. Sets $all,
# the $least and $most of one, and $each.
share() {
    begun=; all=0; enough=$1
    for task in $spinners; do ran $task; begun="$begun ${ran%.*}"; done
    for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ $all -lt $enough ] || return 0
        sleep 1
        all=0; least=1000000; most=0; each=; left=$begun
        for task in $spinners; do
            ran $task
            set -- $left; left=${left#" $1"}
            more=$((${ran%.*} - $1)); all=$((all + more)); each="$each $more"
            [ $more -ge $least ] || least=$more
            [ $more -le $most ] || most=$more
        done
    done
    [ $all -ge $enough ] || fail "they had $all ms in 20 s"
}
