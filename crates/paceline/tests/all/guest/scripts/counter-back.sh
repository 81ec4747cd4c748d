# SPDX-License-Identifier: GPL-2.0-only
# The kernel removes a CPU's counters when it goes offline. A CPU that comes back has its counter again.
for by in either switches; do
    for one in 1 2 3; do spin; done
    $P run min-fair:interval=500ms,memo=off --core-types 0=fast,1=slow --counter cpu-clock --counted-by $by \
        --json --stats 1s >out 2>err & pid=$!
    known() { tail -n 1 out | grep -q '"speeds_from":{"counters":[345]'; }
    await known
    echo 0 >/sys/devices/system/cpu/cpu1/online
    echo 1 >/sys/devices/system/cpu/cpu1/online
    # By then nothing would be known any more.
    lines=$(wc -l <out)
    await '[ $(wc -l <out) -ge $((lines+12)) ]'
    await known
    kill -INT $pid; wait $pid
    kill -KILL $spinners; spinners=
done
