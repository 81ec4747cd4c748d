# SPDX-License-Identifier: GPL-2.0-only
# $groups cgroups with a limit and ten tasks each, and a hog in each fiftieth. Others are made and removed, at most $each
# a second: the policy stays, and its control plane takes a twentieth of a CPU. A limit that changes then holds.
G=/sys/fs/cgroup/many
mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir $G; echo +cpu >$G/cgroup.subtree_control
mkfifo nobody; exec 9<>nobody
# group NAME: makes one with a limit, and puts this shell into it.
group() { mkdir $G/$1; echo "$((10 + $1 % 90))000 100000" >$G/$1/cpu.max; echo 0 >$G/$1/cgroup.procs; }
# In hundredths of a second: the time, and the CPU time of a task by its folder in /proc.
now() { read -r now rest </proc/uptime; now=${now%.*}${now#*.}; }
used() { set -- $(cat $1/stat); shift 13; used=$(($1 + $2)); }
for n in $(seq $groups); do
    (group $n; for task in 1 2 3 4 5 6 7 8 9 10; do read -r line <&9 & done)
    [ $((n % 50)) != 0 ] || { spin; echo ${spinners##* } >$G/$n/cgroup.procs; }
done
load
for control in /proc/$pid/task/*; do [ "$(cat $control/comm)" != control ] || break; done
sleep 5
now; began=$now; used $control; had=$used; made=0; before=
while [ $made -lt $((each * seconds)) ]; do
    now
    if [ $made -ge $(((now - began) * each / 100)) ]; then sleep 0.05; continue; fi
    made=$((made + 10)); these=
    for _ in 1 2 3 4 5 6 7 8 9 10; do n=$((n + 1)); (group $n); these="$these $G/$n"; done
    [ -z "$before" ] || rmdir $before || fail "cgroups stay"
    before=$these
done
in_charge
now; used $control; part=$(((used - had) * 1000 / (now - began)))
# It keeps to a twentieth by itself, but for the step under way.
[ $part -le 60 ] || fail "the control plane takes $part thousandths of a CPU"
echo "$made cgroups made and removed in $(((now - began) / 100)) s: $part thousandths of a CPU"
echo "1000 100000" >$G/50/cpu.max
sleep 2
set -- $spinners; used /proc/$1; had=$used; now; began=$now
sleep 3
used /proc/$1; now; part=$(((used - had) * 1000 / (now - began)))
echo "1 % of a CPU: $part thousandths"
[ $part -le 50 ] || fail "a limit of 10 thousandths of a CPU has changed, and $part are used"
progress $spinners
unload
kill -KILL $spinners
