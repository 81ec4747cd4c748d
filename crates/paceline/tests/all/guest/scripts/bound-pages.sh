# SPDX-License-Identifier: GPL-2.0-only
# Before faults/pages.sh: the same without a scheduler in the kernel. Threads are bound to their nodes, and their own
# masks are restored.
policy=dino:gate=off; by='--by affinity'; REST=5
load() {
    $P run $policy $by "$@" >lines 2>err & pid=$!
    await 'grep -q "by masks of CPUs" err'
    await 'grep -q "misses: no counters (.*); 1 program told" err'
}
masks() { for devil in $devils; do taskset -p $devil; done | sed 's/.*: //' | sort | tr '\n' ' '; }
unload() {
    [ "$(state)" = disabled ] || fail "the kernel has one"
    [ "$(masks)" = "3 30 c c0 " ] || fail "bound to: $(masks)"
    kill -INT $pid; wait $pid; status=$?; [ $status = 130 ] || fail "Ctrl-C: $status"
    [ "$(masks)" = "ff ff ff ff " ] || fail "left bound: $(masks)"
}
