# SPDX-License-Identifier: GPL-2.0-only
# The service for MINUTES, with a switch each minute, and tasks and cgroups that come and go all the time: what it takes,
# and that it keeps nothing of what has gone.
ticks() { awk '{ print $14 + $15 }' /proc/$pid/stat; }
# CPU time of the service in so many seconds, in parts of 100,000 of a CPU.
share() {
    before=$(ticks)
    sleep "$1"
    echo $((($(ticks) - before) * 1000 / $1))
}
resident() { awk '/^VmRSS/ { print $2 }' /proc/$pid/status; }
descriptors() { ls /proc/$pid/fd | wc -l; }
programs() { grep -c 'bpf_prog_' /proc/kallsyms; }

programs_before=$(programs)
printf 'policy = ["paceline", "cas"]\n[metrics]\nnames = 50\n' >$config
begin
await 'in_charge_is paceline'
idle=$(share 100)
memory=$(resident)
for n in $(seq 200); do (while :; do sleep 0.5; done) & sleepers="$sleepers $!"; done
busy=$(share 20)
kill -KILL $sleepers
wait $sleepers
echo "CPU time, parts of 100,000: $idle idle, $busy with 200 tasks; $memory KiB"

# A minute: a switch, a knob, a scrape, and cgroups with tasks of new names.
group=/sys/fs/cgroup/come
minute() {
    case $(($1 % 3)) in
        0) $P switch paceline ;;
        1) $P switch cas && $P set slice=$((50 + $1 % 40))ms ;;
        2) $P switch flsched ;;
    esac >out 2>err || fail "minute $1: $(cat err)"
    for n in $(seq 6); do
        mkdir $group$n
        printf '#!/bin/sh\n:\n' >/tmp/task$1-$n
        chmod 755 /tmp/task$1-$n
        (echo 0 >$group$n/cgroup.procs; for k in 1 2 3; do /tmp/task$1-$n; done)
        rm -f /tmp/task$1-$n
        rmdir $group$n || fail "the group stays"
        sleep 9
    done
    printf 'GET /metrics HTTP/1.1\r\n\r\n' | socat - UNIX-CONNECT:/run/paceline/metrics >page 2>err || fail "no scrape"
    $P status >/dev/null || fail "no status"
}
for at in $(seq 12); do minute $at; done
from=$(resident) handles=$(descriptors) most=$from
for at in $(seq 13 "$MINUTES"); do
    minute $at
    now=$(resident)
    [ $now -le $most ] || most=$now
done
# The policy in charge is the same as at the first look.
[ $(((MINUTES - 12) % 3)) = 0 ] || fail "choose MINUTES that are a multiple of 3"
grown=$(($(resident) - from))
echo "$MINUTES minutes: $from KiB at minute 12, $grown more at the end, $most at most; $handles descriptors, then $(descriptors)"
[ $most -lt 40960 ] || fail "$most KiB"
[ $grown -lt 2048 ] || fail "it keeps $grown KiB"
[ "$(descriptors)" = "$handles" ] || fail "$(ls -l /proc/$pid/fd)"
[ "$($P status --json | grep -c '"ejections": 0')" = 1 ] || fail "$($P status)"
kill -TERM $pid
wait $pid || fail "it ended with $?"
[ "$(state)" = disabled ] || fail "$(state)"
await '[ "$(programs)" = "$programs_before" ]'
[ $idle -le 100 ] && [ $busy -le 1000 ] || fail "CPU time, parts of 100,000: $idle idle, $busy with 200 tasks"
