# SPDX-License-Identifier: GPL-2.0-only
# A thousand cgroups with limits, and a hundred made and removed each second for a minute: the policy stays, and its
# control plane takes little.
G=/sys/fs/cgroup/many
mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir $G; echo +cpu >$G/cgroup.subtree_control
load
# group NAME: makes one with a limit, and puts this shell into it.
group() { mkdir $G/$1; echo "$((10 + $1 % 90))000 100000" >$G/$1/cpu.max; echo 0 >$G/$1/cgroup.procs; }
for n in $(seq 1000); do
    (group $n; sleep 1000 & exec sleep 1000) & sleepers="$sleepers $!"
    [ $((n % 50)) != 0 ] || { spin; echo ${spinners##* } >$G/$n/cgroup.procs; }
done
await '[ -s $G/1000/cgroup.procs ]'
in_charge
for control in /proc/$pid/task/*; do [ "$(cat $control/comm)" != control ] || break; done
cpu_ns() { read -r cpu_ns rest <$control/schedstat; }
read -r now rest </proc/uptime; began=${now%.*}; cpu_ns; had=$cpu_ns
n=1000
until read -r now rest </proc/uptime; [ ${now%.*} -ge $((began + 60)) ]; do
    n=$((n + 1))
    (group $n)
    rmdir $G/$n || { sleep 0.01; rmdir $G/$n; } || fail "group $n stays"
    [ $((n % 10)) != 0 ] || sleep 0.05
done
in_charge
cpu_ns; part=$(((cpu_ns - had) / 60000000))
[ $n -gt 2500 ] || fail "only $((n - 1000)) were made in a minute"
[ $part -le 50 ] || fail "the control plane takes $part thousandths of a CPU"
echo "$((n - 1000)) cgroups made and removed, control plane $part thousandths of a CPU"
progress $spinners
unload
kill -KILL $spinners $sleepers 2>/dev/null || true
