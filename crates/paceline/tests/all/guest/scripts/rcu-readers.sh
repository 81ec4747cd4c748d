# SPDX-License-Identifier: GPL-2.0-only
# Older kernels do not call dispatch on a CPU that goes offline while they wait for RCU: for readers that wait for that
# CPU. They are not left there.
load
for n in 1 2 3; do spin; taskset -p 7 $! >/dev/null; done
# a path that takes long to go, all of it as a reader
far=/kernel/..; for n in 1 2 3 4 5 6 7 8; do far=$far$far; done; far=/sys$far
for n in 1 2 3 4 5 6; do
    (while :; do [ -e $far ]; done) & readers="$readers $!"; taskset -p 8 $! >/dev/null
done
for reader in $readers; do await "ran $reader; [ \${ran%.*} -gt 150 ]"; done
echo 0 >/sys/devices/system/cpu/cpu3/online
in_charge
progress $readers
kill -KILL $readers $spinners; spinners=; readers=
echo 1 >/sys/devices/system/cpu/cpu3/online
unload
