# SPDX-License-Identifier: GPL-2.0-only
# Two tasks are pinned to each CPU and one to none, and others come and go: every task makes progress under each
# of POLICIES.
for policy in $POLICIES; do
    load
    for mask in 1 1 2 2; do
        taskset $mask sh -c 'while :; do :; done' & spinners="$spinners $!"
    done
    spin
    hackbench -g 1 -f 2 -l 20 >/dev/null || fail "$policy: hackbench"
    progress $spinners
    progress $spinners
    unload
    kill -KILL $spinners; spinners=
done
