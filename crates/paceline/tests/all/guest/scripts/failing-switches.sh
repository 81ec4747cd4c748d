# SPDX-License-Identifier: GPL-2.0-only
# A policy that fails is switched to again and again, under load: the one before is back each time.
echo 'policy = "paceline"' >$config
begin
await 'in_charge_is paceline'
await '[ -S /run/paceline/control ]'
spin; spin

# starve leaves such a task waiting, and is ejected for it.
nice -n 19 sh -c 'while :; do :; done' & spinners="$spinners $!"
for n in $(seq "$FAILURES"); do
    $P switch starve >out 2>err || fail "no switch"
    await 'in_charge_is starve'
    for second in $(seq 60); do in_charge_is paceline && break; sleep 1; done
    in_charge_is paceline || fail "$n: $(ops) is in charge: $(tail -n 3 log)"
done
[ "$($P status --json | grep -c '"in_charge": "paceline"')" = 1 ] || fail "$($P status)"
kill -KILL $spinners
kill -TERM $pid
wait $pid; status=$?
[ $status = 0 ] && [ "$(state)" = disabled ] || fail "it ended with $status"
