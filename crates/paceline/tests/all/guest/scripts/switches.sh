# SPDX-License-Identifier: GPL-2.0-only
# Policies are switched under load: hackbench on every CPU, and a task that wakes every 10 ms and notes its longest wait,
# with switches and without.
echo 'policy = "paceline"' >$config
begin
await 'in_charge_is paceline'
await '[ -S /run/paceline/control ]'

(while :; do hackbench -g 4 -l 100 -p >/dev/null 2>&1; done) & load=$!
# Sets $longest, in us, of SECONDS.
longest_wait() {
    cyclictest --policy=other -t 1 -i 10000 -D "$1" -q >waits 2>&1 || fail "no cyclictest: $(cat waits)"
    longest=$(sed -n 's/.*Max: *//p' waits | tail -n 1)
    [ -n "$longest" ] || fail "no longest wait: $(cat waits)"
}
longest_wait 3
without=$longest
(
    for n in 1 2 3; do
        $P switch cas && sleep 0.3 && $P switch paceline && sleep 0.3 || exit 1
    done
) >switched 2>switch-errors & switching=$!
longest_wait 3
wait $switching || fail "a switch failed: $(cat switch-errors)"
with=$longest
[ "$(grep -c 'in between, for at most' switched)" = 6 ] || fail "$(cat switched)"
windows=$(sed -n 's/.*for at most \([0-9]*\) ms/\1/p' switched | sort -n | tr '\n' ' ')
echo "windows of 6 switches, ms: $windows; longest wait, us: $with with them, $without without"
[ $with -le $((without + 100000)) ] || fail "longest wait $with us, without switches $without; windows $windows ms"

kill -KILL $load
kill -TERM $pid
wait $pid; status=$?
[ $status = 0 ] && [ "$(state)" = disabled ] || fail "it ended with $status"
