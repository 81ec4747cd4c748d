# SPDX-License-Identifier: GPL-2.0-only
# Policies are switched under load: hackbench on every CPU, and a task that wakes every 10 ms and notes its longest wait,
# with switches and without. Then a policy that fails is switched to: the one before is back each time.
mkdir -p /etc/paceline
echo 'policy = "paceline"' >/etc/paceline/paceline.toml
in_charge_is() { [ "$(ops 2>/dev/null)" = "$1" ]; }
$P serve >log 2>&1 & pid=$!
await 'in_charge_is paceline'
await '[ -S /run/paceline/control ]'

(while :; do hackbench -g 4 -l 100 -p >/dev/null 2>&1; done) & load=$!
# Sets $longest, in us, of SECONDS.
longest_wait() {
    cyclictest --policy=other -t 1 -i 10000 -D "$1" -q >waits 2>&1 || fail "no cyclictest: $(cat waits)"
    longest=$(sed -n 's/.*Max: *//p' waits | tail -n 1)
    [ -n "$longest" ] || fail "no longest wait: $(cat waits)"
}
longest_wait 30
without=$longest
(
    for n in 1 2 3 4 5 6 7 8 9 10; do
        $P switch cas && sleep 1 && $P switch paceline && sleep 1 || exit 1
    done
) >switched 2>switch-errors & switching=$!
longest_wait 30
wait $switching || fail "a switch failed: $(cat switch-errors)"
with=$longest
[ "$(grep -c 'in between, for at most' switched)" = 20 ] || fail "$(cat switched)"
windows=$(sed -n 's/.*for at most \([0-9]*\) ms/\1/p' switched | sort -n | tr '\n' ' ')
echo "windows of 20 switches, ms: $windows; longest wait, us: $with with them, $without without"
[ $with -le $((without + 100000)) ] || fail "longest wait $with us, without switches $without; windows $windows ms"

# starve leaves such a task waiting, and is ejected for it.
nice -n 19 sh -c 'while :; do :; done' & spinners="$spinners $!"
for n in $(seq "$FAILURES"); do
    $P switch starve >out 2>err || fail "no switch"
    await 'in_charge_is starve'
    for second in $(seq 60); do in_charge_is paceline && break; sleep 1; done
    in_charge_is paceline || fail "$n: $(ops) is in charge: $(tail -n 3 log)"
done
[ "$($P status --json | grep -c '"in_charge": "paceline"')" = 1 ] || fail "$($P status)"
kill -KILL $load $spinners
kill -TERM $pid
wait $pid; status=$?
[ $status = 0 ] && [ "$(state)" = disabled ] || fail "it ended with $status"
echo "$FAILURES of $FAILURES came back"
