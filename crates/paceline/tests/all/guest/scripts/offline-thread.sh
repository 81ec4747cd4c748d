# SPDX-License-Identifier: GPL-2.0-only
# The thread that takes a CPU offline has slices shorter than that takes, and is alone on the CPU: it must not be left
# waiting.
for policy in avx-fair:slice=1ms min-fair:slice=1ms dino:slice=1ms; do
    load
    for n in 1 2 3 4; do spin; done
    rm -f done
    (for n in 1 2 3 4 5 6 7 8 9 10; do
        for cpu in 1 3; do
            for to in 0 1; do echo $to >/sys/devices/system/cpu/cpu$cpu/online; done
        done
    done; touch done) &
    until [ -e done ] || [ "$(state)" != enabled ]; do sleep 0.1; done
    unload
    [ -e done ] || fail "$policy: not to its end"
    kill -KILL $spinners; spinners=
done
