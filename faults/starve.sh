# SPDX-License-Identifier: GPL-2.0-only
# A policy starves a task: the watchdog unloads the policy, `run` says why, and the task continues.
$P run $policy -- sh -c '
    renice -n 19 $$; echo $$ >starved
    i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; touch done' >out 2>err
status=$?; [ $status = 1 ] || fail "status $status"
grep -q "the kernel stopped it: runnable task stall (sh\[$(cat starved)\] failed to run" err || fail "another task starved"
grep -q '^CPU states' err || fail "no dump"
[ -e done ] || fail "the task is lost"
