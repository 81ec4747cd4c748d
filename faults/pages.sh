# SPDX-License-Identifier: GPL-2.0-only
# Four tasks that a profile calls devils, with all memory on one of four nodes. They are spread, their pages follow, and
# then nothing moves any more. A dry run first reports the same and moves nothing; with UNTRIED there is none.
cat >devil <<'C'
#!/bin/sh
x=$(head -c 16777216 /dev/zero | tr '\0' a)
touch ready-$$
while :; do :; done
C
chmod +x devil
printf '[programs]\ndevil = 30\n' >profile.toml
devils=; n=0; while [ $n -lt 4 ]; do
    n=$((n+1))
    taskset 3 ./devil & devils="$devils $!"
done
await '[ $(ls ready-* 2>/dev/null | wc -l) = 4 ]'
for devil in $devils; do taskset -p ff $devil >out; done

# Sets $node to the node that a task is on, with two CPUs each, and $part to the percentage of its pages there.
whereabouts() {
    node=$(awk '{ print int($39 / 2) }' /proc/$1/stat)
    part=$(awk -v n=N$node '{ for (i = 1; i <= NF; i++) if (split($i, word, "=") == 2 && word[1] ~ /^N[0-9]+$/) {
        all += word[2]; if (word[1] == n) own += word[2] } } END { print int(100 * own / all) }' /proc/$1/numa_maps)
}
spread() {
    nodes=; for devil in $devils; do
        whereabouts $devil
        [ $part -ge 90 ] || return 1
        nodes="$nodes $node"
    done
    [ $(echo $nodes | tr ' ' '\n' | sort -u | wc -l) = 4 ]
}
moves() { grep -o '[0-9]* moves of memory' err | tail -n 1; }

if [ ! "$UNTRIED" ]; then
    $P run $policy $by --profile profile.toml --stats 1s --dry-run --for 6s >lines 2>err || fail "a dry run"
    grep -q 'would be: 4 threads placed in 4 domains, 3 moves of memory' err || fail "what a dry run said"
    spread && fail "a dry run moved something"
fi

load --profile profile.toml --stats 1s
await spread
sleep 2
before=$(moves)
[ "$before" = '3 moves of memory' ] || fail "moves: $before"
sleep ${REST:-10}
[ "$(moves)" = "$before" ] || fail "at rest: $before, then $(moves)"
# For a turn a task may be elsewhere: a domain with nothing to run takes a task that waits in another.
await spread
unload
kill $devils
