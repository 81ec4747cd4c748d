# SPDX-License-Identifier: GPL-2.0-only
# The guide's commands that record, here by_perf and by_trace_cmd: their replay takes as long as the recorded run.
mount -t debugfs none /sys/kernel/debug 2>/dev/null
# A timer preempts a hog.
cat >job <<'END'
awk 'BEGIN { while (i++ < 20000000) n += i }' & hog=$!
cyclictest -q -t1 -p0 -i10000 -l100 >/dev/null
kill $hog
END
recorded() {
    "$P" import job.txt -o $1.trace --json >$1.json 2>$1.err || fail "$1: $(cat $1.err)"
    grep -q '"interrupts":true' $1.json || fail "$1: $(cat $1.json)"
    grep -q '"lost":0' $1.json || fail "$1: $(cat $1.json $1.err)"
    $P compare --on sim --policy default --workload $1.trace --json >$1.replay 2>$1.err ||
        fail "$1: $(cat $1.err)"
    span_s=$(sed -n 's/.*"span_s":\([0-9.]*\).*/\1/p' $1.json)
    took_s=$(tr ',' '\n' <$1.replay | sed -n 's/.*"elapsed_s": *\([0-9.]*\).*/\1/p' | head -n 1)
    awk "BEGIN { off = $took_s / $span_s - 1; exit !(off < 0.05 && off > -0.05) }" ||
        fail "$1: $took_s s in the replay, $span_s s in the recording"
}
(by_perf) >said 2>&1 || fail "perf: $(cat said)"
recorded perf
(by_trace_cmd) >said 2>&1 || fail "trace-cmd: $(cat said)"
recorded trace-cmd
