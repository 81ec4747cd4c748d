# SPDX-License-Identifier: GPL-2.0-only
# After by-affinity.sh: each program gets the planned part of the fast cores, and its own mask back.
$P run min-fair:deviations=0,interval=500ms --by affinity $kinds --profile six.toml --json --for 16s >out 2>err ||
    fail "six: $?"
[ "$(masks)" = " 6 3f " ] || fail "after its time: $(masks)"
tail -n 1 out | tr '{' '\n' >tasks
at=0
# Unsteered each has 333. The first turns are every task's, before anything is known.
for wanted in 1000 435 195 168 133 69; do
    read -r fast slow <<X
$(sed -n "s/.*\"name\":\"s$at\",\"kind_ms\":.\([0-9]*\),\([0-9]*\).*/\1 \2/p" tasks)
X
    got=$((1000 * fast / (fast + slow)))
    [ $got -ge $((wanted - 80)) ] && [ $got -le $((wanted + 80)) ] || fail "s$at: $got, not $wanted: $(cat tasks)"
    at=$((at+1))
done
kill $pids
