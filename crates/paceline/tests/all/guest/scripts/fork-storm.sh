# SPDX-License-Identifier: GPL-2.0-only
# A task that forks without end, and computes, prevents the policy's owner neither from unloading it nor from printing.
# Two policies without a control plane, and one with a control plane that has to keep its part of a CPU.
for policy in flsched cas 'min-fair --core-types 0=fast,1=slow'; do
    touch stormy
    sh -c '
        hogs=0; while [ $hogs -lt 30 ]; do
            (while [ -e stormy ]; do :; done) & hogs=$((hogs+1))
        done
        while [ -e stormy ]; do (:) & (:); done' & storm=$!
    # An owner that is starved prints next to nothing; a host that is busy costs some lines.
    $P run $policy --stats 500ms --for 5s --json >out 2>err || fail "$policy: $?"
    lines=$(grep -c '"switches_per_s":' out)
    [ $lines -ge 5 ] || fail "$policy: $lines lines of 10"
    $P run $policy 2>err & pid=$!
    await '[ "$(state)" = enabled ]'
    # All that is its owner's is real-time (SCHED_FIFO), and its memory is locked.
    case $policy in min-fair*) await 'grep -qx control /proc/$pid/task/*/comm';; esac
    for thread in /proc/$pid/task/*; do
        class=$(sed -n 's/^policy *: *//p' $thread/sched)
        [ "$class" = 1 ] || fail "$policy: $(cat $thread/comm) is of class $class"
    done
    locked=$(sed -n 's/^VmLck:[^0-9]*\([0-9]*\) kB$/\1/p' /proc/$pid/status)
    [ "$locked" -gt 0 ] || fail "$policy: $locked kB are locked"
    kill -INT $pid
    wait $pid; status=$?; [ $status = 130 ] || fail "$policy: $status"
    [ "$(state)" = disabled ] || fail "$policy: still $(state)"
    rm stormy; wait $storm
done
