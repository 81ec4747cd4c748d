# SPDX-License-Identifier: GPL-2.0-only
# What cannot be loaded is refused in one line that says why.
refused $P run default;              grep -q 'there are: paceline' err || fail names
refused $P run fifo --for 0s;        grep -q 'such as 10s' err || fail zero
refused $P run fifo -- no-such-one;  grep -q 'no-such-one' err || fail command
[ "$(state)" = disabled ] || fail "still $(state)"
$P run fifo 2>first & pid=$!
await '[ "$(state)" = enabled ]'
refused $P run cas;                  grep -q 'fifo is enabled here: stop it first' err || fail second
[ "$(cd /sys/kernel/sched_ext; cat root/ops)" = fifo ] || fail "the first is gone"
kill $pid; wait $pid
chmod 755 $(dirname $P)
refused su nobody -s /bin/sh -c "$P run fifo"; grep -q 'needs root' err || fail root

# Kernels that lack what a policy needs.
lacks() {
    mount -t tmpfs none $1
    refused $P run fifo;                           grep -q "$2.*paceline doctor" err || fail "run without $1"
    refused $P compare --on here --policy fifo -- true; grep -q "$2" err || fail "compare without $1"
    umount $1
}
lacks /sys/kernel/sched_ext 'has no sched_ext'
lacks /sys/kernel/btf 'has no type information (CONFIG_DEBUG_INFO_BTF)'

mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/half
echo '50000 100000' >/sys/fs/cgroup/half/cpu.max
refused $P run fifo --for 1s;        grep -q '/half/cpu.max is 50000 100000' err || fail limits
$P run fifo --for 300ms --ignore-cgroup-limits 2>err || fail "told to ignore them"
$P run fifo --partial -- true 2>err || fail "they are not its own"
echo max >/sys/fs/cgroup/half/cpu.max; echo 50 >/sys/fs/cgroup/half/cpu.weight
refused $P run max-fair --for 1s;    grep -q '/half/cpu.weight is 50' err || fail weights
$P run max-fair:tenant=cgroup --for 300ms 2>err || fail "weights are what it goes by"
$P run --for 300ms 2>err || fail "paceline heeds weights"
refused $P run paceline:cgroups=ignore --for 1s; grep -q '/half/cpu.weight is 50' err || fail "weights ignored"
rmdir /sys/fs/cgroup/half
