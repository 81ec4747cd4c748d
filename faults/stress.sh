# SPDX-License-Identifier: GPL-2.0-only
# stress-ng's stressors of the scheduler, all at once for a minute. Without a policy (`default`) the run is lost if RCU
# complains: that would have unloaded a policy.
stress="stress-ng --class scheduler --all 1 --timeout 60s --temp-path /tmp --oomable"
case $policy in
default) $stress >out 2>err;;
*) $P run $policy -- $stress >out 2>err;;
esac
status=$?
# Before 0.15.08 a second SIGALRM interrupts the stressor `resched` while it waits for its children. A child that has
# not ended by then keeps counting (fixed in f67ba39b5acb, "kill and wait for children"). The scheduler is not at fault.
of_its_own='resched instance . \(corrupted bogo-ops counter\|hash error\)\|metrics-check: stressor metrics corrupted'
if [ $status = 2 ] && grep -q 'resched instance . corrupted' out err; then
    grep -h ' fail: \| error: ' out err | grep -qv "$of_its_own" || status=0
fi
stalls=$(dmesg | grep -c 'rcu: INFO: .*stall')
# The state of the tasks that RCU waited for, from the policy's dump.
blocked() {
    for task in $(dmesg | sed -n 's/.*Tasks blocked on.*: \(P.*\)/\1/p' | grep -o 'P[0-9]*'); do
        grep -h -A 5 "\[${task#P}\]" err | head -n 6
    done
}
[ $status = 0 ] && [ $stalls = 0 ] || fail "status $status, $stalls stalls: $(grep -h ' fail: ' out err | head -n 3)" \
    "$(kernel_said | head -n 4)" "$(blocked)"
[ $policy = default ] || grep -q 'unloaded after .* the command has ended' err || fail "what it said"
