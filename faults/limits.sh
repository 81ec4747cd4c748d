# SPDX-License-Identifier: GPL-2.0-only
# Limits change every few ms while tasks wait for them, tasks move in and out, and cgroups within are made and removed:
# every task runs on, one outside has its CPU time, and the policy stays.
load
top=/sys/fs/cgroup/limits
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir $top; echo +cpu >$top/cgroup.subtree_control
mkdir $top/stays
for n in 1 2 3 4; do spin; echo ${spinners##* } >$top/stays/cgroup.procs; done
spin; outside=${spinners##* }
set -- $spinners; moves=$1
round=0
while [ $round -lt 60 ]; do
    round=$((round + 1))
    case $((round % 4)) in
    0) echo '1000 1000000' >$top/cpu.max;;
    1) echo "$((round * 500)) 20000" >$top/stays/cpu.max;;
    2) echo max >$top/stays/cpu.max; echo $moves >/sys/fs/cgroup/cgroup.procs;;
    3) echo '5000 10000' >$top/cpu.max; echo $moves >$top/stays/cgroup.procs;;
    esac
    mkdir $top/g$round
    echo '1000 100000' >$top/g$round/cpu.max
    (: & echo 0 >$top/g$round/cgroup.procs; :) 2>/dev/null
    rmdir $top/g$round 2>/dev/null || left="$left $top/g$round"
done
in_charge
ran $outside; had=${ran%.*}
sleep 1
ran $outside; [ $((${ran%.*} - had)) -ge 300 ] || fail "outside of them: $((${ran%.*} - had)) ms in 1 s"
echo max >$top/cpu.max; echo max >$top/stays/cpu.max
progress $spinners
unload
progress $spinners
kill $spinners
for group in $left $top/stays $top; do await "rmdir $group 2>/dev/null"; done
