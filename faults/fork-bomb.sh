# SPDX-License-Identifier: GPL-2.0-only
# A fork bomb in a cgroup of at most 150 tasks: no task outside starves, others progress, the policy can be unloaded.
load --stats 100ms --json
group=/sys/fs/cgroup/bomb
echo +pids >/sys/fs/cgroup/cgroup.subtree_control
mkdir $group
echo 150 >$group/pids.max
spin
sh -c "echo \$\$ >$group/cgroup.procs; bomb() { while :; do bomb & (:); done; }; bomb" 2>/dev/null &
full() { sed -n 's/^max //p' $group/pids.events; }
await '[ "$(full)" -gt 50 ]'
before=$(wc -l <lines)
for round in 1 2 3; do progress $spinners; done
sleep 1
more=$(($(wc -l <lines) - before))
[ $more -ge 7 ] || fail "$more lines in a second, not 10"
[ "$(full)" -gt 100 ] || fail "the bomb does not go off: $(cat $group/pids.events)"
unload
echo 1 >$group/cgroup.kill
kill $spinners
await "rmdir $group 2>/dev/null"
