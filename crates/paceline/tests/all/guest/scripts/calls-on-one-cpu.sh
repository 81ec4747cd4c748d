# SPDX-License-Identifier: GPL-2.0-only
# No call is missed where many tasks share a CPU: they are interrupted in the middle of calls, and of the hooks that
# write those down. An interrupt within another one's hook may count as lost.
$P record --calls -o calls -- taskset 1 hackbench -g 2 -l 60 -p >/dev/null 2>err || fail "$?: $(cat err)"
lost=$(sed -n 's/.*, \([0-9]*\) LOST.*/\1/p' err)
grep -q ' events in' err && [ "${lost:-0}" -le 100 ] || fail "$(cat err)"
[ $(wc -c <calls) -gt $((2 * 48000 * 16)) ] || fail "48,000 messages: $(cat err)"
