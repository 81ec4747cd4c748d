# SPDX-License-Identifier: GPL-2.0-only
# Two devils of node 0, and less room on node 1 than one of them needs: what fits is moved, and the rest is reported.
left() { awk '/MemFree/ { print $4 }' /sys/devices/system/node/node1/meminfo; }
memory() { echo "\"hw\": {\"memory\": {\"mpki\": 30, \"bytes\": $(($1 * 1024))}}"; }
devil() {
    echo "\"d$1\": {\"process\": \"p$1\", \"loop\": -1, \"run\": 10000, \"nodes_membind\": [0], $(memory 196608)}"
}
echo "{\"global\": {\"duration\": 300}, \"tasks\": {\"ballast\": {\"loop\": -1, \"sleep\": 100000, \
    \"nodes_membind\": [1], $(memory $(($(left) - 98304)))}}}" >ballast.json
echo "{\"global\": {\"duration\": 16}, \"tasks\": {$(devil 0), $(devil 1)}}" >devils.json
printf '[programs]\nd0 = 30\nd1 = 30\n' >profile.toml
compare() { $P compare --on here --policy default --runs 1 --workload $1; }
compare ballast.json >out 2>&1 & ballast=$!
await '[ $(left) -lt 131072 ]'
$P run dino:gate=off --profile profile.toml --stats 1s -- \
    $P guest worker devils devils.json report.json >lines 2>err || fail "ended with $?"
grep -q 'node 1 is full' err || fail "what it said: $(grep moved err | tail -n 1)"
[ "$(state)" = disabled ] || fail "still $(state)"
kill -INT $ballast
