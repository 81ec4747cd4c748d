# SPDX-License-Identifier: GPL-2.0-only
# A machine of 64 CPUs, two threads to a core: the policy loads and runs a workload.
[ "$(cat /sys/devices/system/cpu/online)" = 0-63 ] || fail "CPUs: $(cat /sys/devices/system/cpu/online)"
siblings=$(cat /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list | sort | uniq -c | awk '$1 != 2')
[ -z "$siblings" ] || fail "not two threads to a core:" $siblings
$P run $policy -- hackbench -g 4 -l 20 -p >out 2>err
status=$?; [ $status = 0 ] || fail "status $status"
grep -q 'unloaded after .* the command has ended' err || fail "what it said"
