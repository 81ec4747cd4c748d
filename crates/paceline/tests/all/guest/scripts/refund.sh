# SPDX-License-Identifier: GPL-2.0-only
# A slowed task is refunded by counters. No guest counts license levels: nanoseconds stand for cycles at the highest
# one. The two programs differ in their profile.
cat >slow.toml <<'EOF'
SLOW
EOF
printf '[programs]\na = 2\nb = 0\n' >levels.toml
for n in a b; do
    ln -s $(readlink -f /bin/sh) $n
    /tmp/$n -c 'while :; do :; done' & pids="$pids $!"
done
set -- $pids; a=$1 b=$2
# What b had of a's CPU time under a policy, in thousandths.
ratio() {
    ran $a; had_a=${ran%.*}
    ran $b; had_b=${ran%.*}
    $P run "$@" --profile levels.toml --for 3s >out 2>err || fail "$*: $?"
    ran $a; a_ms=$((${ran%.*} - had_a))
    ran $b; ratio=$((1000 * (${ran%.*} - had_b) / a_ms))
}
# A millisecond of b is 10^6 cycles at 1 GHz, which take 0.75 ms at 1.33 GHz: b gets 1 / 0.75 of a's time.
ratio avx-fair:detect=told --clocks slow.toml --counter cpu-clock
grep -q 'clocks: cpu-clock on 0$' err || fail "what is counted: $(cat err)"
[ $ratio -gt 1300 ] && [ $ratio -lt 1370 ] || fail "counted: $ratio"
ratio paceline --clocks slow.toml --counter cpu-clock
grep -q 'clocks: .*cpu-clock on 0$' err || fail "what is counted for paceline: $(cat err)"
[ $ratio -gt 1300 ] && [ $ratio -lt 1370 ] || fail "paceline: $ratio"
ratio paceline:charge=off --clocks slow.toml --counter cpu-clock
[ $ratio -gt 970 ] && [ $ratio -lt 1030 ] || fail "paceline, the control arm: $ratio"
# At 2.4 GHz that would be half of the cycles that the license allows: something else holds the clock down.
ratio avx-fair:detect=told --clocks xeon-w-2104 --counter cpu-clock
[ $ratio -gt 970 ] && [ $ratio -lt 1030 ] || fail "held back: $ratio"
ratio avx-fair:detect=told --clocks xeon-w-2104
grep -q 'clocks: license events: none on 0 (.*): nothing is refunded' err || fail "none: $(cat err)"
[ $ratio -gt 970 ] && [ $ratio -lt 1030 ] || fail "not counted: $ratio"
kill $pids
