# SPDX-License-Identifier: GPL-2.0-only
# A second policy is loaded: it is refused in one line, and the first stays loaded.
load
first=$(ops)
hackbench -g 1 -l 150 -p >out 2>&1 & job=$!
for other in fifo $policy; do
    $P run $other --for 1s 2>refused; status=$?
    [ $status = 2 ] || fail "the second ended with $status: $(cat refused)"
    [ $(wc -l <refused) = 1 ] || fail "the second was refused in $(wc -l <refused) lines: $(cat refused)"
    grep -q " is enabled here: stop it first" refused || fail "the second: $(cat refused)"
    [ "$(state) $(ops)" = "enabled $first" ] || fail "the first is gone: $(state) $(ops)"
done
wait $job || fail "hackbench: $? $(cat out)"
unload
