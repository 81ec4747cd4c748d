# SPDX-License-Identifier: GPL-2.0-only
# stress-ng's stressors of the scheduler, all at once for a minute. Without a policy (`default`) it is lost if RCU
# complains: that would have thrown one out.
stress="stress-ng --class scheduler --all 1 --timeout 60s --temp-path /tmp --oomable"
case $policy in
default) $stress >out 2>err;;
*) $P run $policy -- $stress >out 2>err;;
esac
status=$?
stalls=$(dmesg | grep -c 'rcu: INFO: .*stall')
[ $status = 0 ] && [ $stalls = 0 ] || fail "status $status, $stalls stalls: $(grep -h ' fail: ' out err | head -n 3)" \
    "$(kernel_said | head -n 4)"
[ $policy = default ] || grep -q 'unloaded after .* the command has ended' err || fail "what it said"
