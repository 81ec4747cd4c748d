# SPDX-License-Identifier: GPL-2.0-only
# Every item is a line and an entry, whatever is wrong; the status says whether policies can be loaded.
printf '%s\n' CHECKS >checks
# How it has to end; a function that runs it as another user, else root; and all that has to be wrong, each with a
# comma. The verdicts are in the text and in the JSON.
doctor() {
    for how in '' --json; do
        $2 $P doctor $how >said$how 2>err; status=$?
        [ $status = $1 ] || fail "doctor $how: $status, not $1: $(cat said$how)"
        [ ! -s err ] || fail "doctor $how complains"
    done
    awk '/^(ok|wrong|--) / { check = substr($0, 8, 17); sub(/ *$/, "", check); print $1, check }' said >lines
    awk -F'"' '$2 == "check" { check = $4 }
        $2 == "ok" { print (/true/ ? "ok" : /false/ ? "wrong" : "--"), check }' said--json >entries
    cmp -s lines entries || fail "text and JSON differ: $(cat lines entries)"
    cut -d ' ' -f 2- lines | cmp -s - checks || fail "it looked at: $(cat lines)"
    [ "$(sed -n 's/^wrong //p' lines | tr '\n' ',')" = "$3" ] || fail "wrong: $(grep -A 1 ^wrong said)"
    # How to mend it is the next line.
    grep -A 1 ^wrong said | grep -v -e ^wrong -e ^-- >mend
    [ $(grep -c '^ \{25\}[^ ]' mend) = $(grep -c ^wrong lines) ] || fail "no word on how to mend: $(cat said)"
}
found() { grep -q "$1" said || fail "not found: $1: $(cat said)"; }

echo 1 >/proc/sys/kernel/numa_balancing
doctor 0 '' ''
for check in kernel sched_ext 'type information' attached rights topology 'core types' 'page moves'; do
    grep -qx "ok $check" lines || fail "not well: $check: $(cat said)"
done
found "^ok *kernel *Linux $(uname -r)$"
found '^ok *topology *4 CPUs, 4 cores, .*, 2 memory nodes$'
found '^-- *NUMA balancing *on$'
found '^-- *counters *none (.*)$'
echo 0 >/proc/sys/kernel/numa_balancing
doctor 0 '' ''
found '^ok *NUMA balancing *off$'

$P run fifo 2>first & pid=$!
await '[ "$(state)" = enabled ]'
doctor 1 '' attached,
found '^wrong *attached *fifo is enabled$'
kill -INT $pid; wait $pid

chmod 755 $(dirname $P)
as_nobody() { su nobody -s /bin/sh -c "$*"; }
doctor 1 as_nobody 'rights,page moves,'
found '^wrong *rights *missing: root$'

hidden() {
    mount -t tmpfs none $1
    doctor 1 '' "$2"
    umount $1
}
hidden /sys/kernel/sched_ext sched_ext,
hidden /sys/kernel/btf 'type information,'
doctor 0 '' ''
