# SPDX-License-Identifier: GPL-2.0-only
# stress-ng's stressors of the scheduler, all at once for a minute.
$P run $policy -- stress-ng --class scheduler --all 1 --timeout 60s --temp-path /tmp --oomable >out 2>err
status=$?; [ $status = 0 ] || fail "status $status: $(grep -v ' completed in' out | tail -n 2)"
grep -q 'unloaded after .* the command has ended' err || fail "what it said"
