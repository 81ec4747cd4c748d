# SPDX-License-Identifier: GPL-2.0-only
# kill -9 of the policy's loader, under load.
load
hackbench -g 2 -l 150 >out 2>&1 & job=$!
sleep 0.4
kill -0 $job || fail "hackbench was over before: $(cat out)"
kill -KILL $pid
wait $pid; status=$?; [ $status = 137 ] || fail "its loader ended with $status"
await '[ "$(state)" = disabled ]'
wait $job || fail "hackbench: $? $(cat out)"
