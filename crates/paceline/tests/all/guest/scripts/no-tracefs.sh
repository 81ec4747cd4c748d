# SPDX-License-Identifier: GPL-2.0-only
# Tracepoints are found where tracefs is not mounted, as in a container. The recorder's own mount is not visible to its
# command.
umount /sys/kernel/tracing 2>err || fail "$(cat err)"
$P record --calls -o bare -- sh -c 'ls /sys/kernel/tracing | wc -l' >seen 2>err || fail "$?: $(cat err)"
grep -q ' events in' err || fail "$(cat err)"
[ "$(cat seen)" = 0 ] || fail "the command sees $(cat seen) files"
grep -q ' /sys/kernel/tracing ' /proc/mounts && fail "it is mounted for all"; true
