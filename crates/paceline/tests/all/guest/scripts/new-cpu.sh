# SPDX-License-Identifier: GPL-2.0-only
# A CPU that was offline when the tables were made ends the policy when it comes online. Until then, a task that may
# run on all others counts as not pinned. These policies are
# of each order of tasks, and of each kind of control plane: the kernel's dump has their own words.
for policy in flsched cas dino avx-fair 'min-fair --core-types 0-1=fast,3=slow'; do
    echo 0 >/sys/devices/system/cpu/cpu2/online
    $P run $policy >out 2>err & pid=$!
    await '[ "$(state)" = enabled ]'
    for n in 1 2 3 4 5; do taskset b sh -c 'while :; do :; done' & spinners="$spinners $!"; done
    progress $spinners
    progress $spinners
    kill -0 $pid || fail "$policy: gone: $(cat err)"
    echo 1 >/sys/devices/system/cpu/cpu2/online
    wait $pid
    kill -KILL $spinners; spinners=
    [ "$(state)" = disabled ] || fail "$policy: still $(state)"
    grep -q 'a CPU came that was not there' out err || fail "$policy: $(cat out err)"
    # The kernel's dump has what each CPU and each task waits for, in the policy's words.
    case $policy in
        flsched) told='waiting: ';;
        cas) told='epoch: ';;
        *) told='ahead_ns: ';;
    esac
    grep -q "$told" err && grep -q 'waiting: ' err || fail "$policy: no $told in its dump"
done
