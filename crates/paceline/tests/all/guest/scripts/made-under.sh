# SPDX-License-Identifier: GPL-2.0-only
# A recording knows the scheduler in charge, and a replay is fitted to it.
made() { $P run $1 -- $P record -o $2 -- sh -c 'sleep 0.01' 2>err || fail "$?: $(cat err)"; }
made flsched ours
made fifo:slice=5ms with-knobs
made avx-fair another
made "cas --partial" partial
said() {
    $P compare --on sim --machine icount-1 --policy default --workload $1 >out 2>&1 || fail "$1: $(cat out)"
    grep -c 'it was made under' out
}
[ "$(said ours)" = 2 ] || fail "flsched: $(cat out)"
grep -q 'it was made under flsched, whose knobs it does not tell' out || fail "flsched: $(cat out)"
[ "$(said with-knobs)" = 2 ] || fail "fifo: $(cat out)"
[ "$(said another)" = 2 ] && grep -q 'under avx-fair' out || fail "avx-fair: $(cat out)"
[ "$(said partial)" = 0 ] || fail "partial: $(cat out)"
