# SPDX-License-Identifier: GPL-2.0-only
# A real-time task beside hogs waits in a replay as it did. cyclictest's threads are SCHED_FIFO, and report how late
# they were: at most 10 ms, or this would show nothing.
cat >load <<'END'
(while :; do :; done) & one=$!
(while :; do :; done) & two=$!
cyclictest -q -t1 -p50 -i10000 -l60 >late
kill $one $two
END
$P record -o fifo -- sh load 2>err || fail "$?: $(cat err)"
late_us=$(sed -n 's/.*Max: *\([0-9]*\).*/\1/p' late)
[ "$late_us" -lt 10000 ] || fail "it was late: $(cat late)"
for policy in default flsched; do
    $P compare --on sim --machine icount-1 --policy $policy --workload fifo --json >json 2>err ||
        fail "$(cat err)"
    waited_us=$(tr '{' '\n' <json | grep '"cyclictest"' |
        sed 's/.*"wait_max_s": *\([0-9.e-]*\).*/\1/' |
        awk '{ if ($1 * 1e6 > max) max = $1 * 1e6 } END { printf "%d", max }')
    [ -n "$waited_us" ] && [ "$waited_us" -lt $((late_us + 1000)) ] ||
        fail "$policy: it waited $waited_us us, and was $late_us us late: $(cat json)"
done
