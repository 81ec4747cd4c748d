# SPDX-License-Identifier: GPL-2.0-only
# In a container threads have other numbers than in the kernel, and other containers' limits are not visible: what
# needs more is refused.
pids='unshare --pid --fork --mount-proc'
for what in 'run dino --for 1s' 'compare --on here --policy dino -- true'; do
    refused $pids $P $what
    [ "$(state)" = disabled ] || fail "$what: still $(state)"
    grep -q "dino goes by threads' numbers.*--pid=host" err || fail "$what: $(cat err)"
done
$pids $P run flsched --for 300ms 2>err || fail "flsched knows none: $?"
$P run dino --for 300ms 2>err || fail "outside of it: $?"

groups='unshare --cgroup'
for what in 'run fifo --for 1s' 'compare --on here --policy fifo -- true'; do
    refused $groups $P $what
    [ "$(state)" = disabled ] || fail "$what: still $(state)"
    grep -q 'not to be seen in a cgroup namespace.*--cgroupns=host' err || fail "$what: $(cat err)"
done
$groups $P run fifo --for 300ms --ignore-cgroup-limits 2>err || fail "told to ignore them: $?"
$groups $P run fifo --partial -- true 2>err || fail "its own are to be seen: $?"
