# SPDX-License-Identifier: GPL-2.0-only
# A control plane that is to plan all the time stays within its part of a CPU, and says so: it precedes its policy's
# tasks.
for n in 1 2 3 4 5 6 7; do spin; done
for interval in 5s 1ms; do
    $P run min-fair:interval=$interval,memo=off --core-types 0=fast,1=slow --counter cpu-clock \
        --json --stats 1s >out 2>err & pid=$!
    await '[ $(wc -l <out) -ge 3 ]'
    for thread in /proc/$pid/task/*; do
        [ $(cat $thread/comm) != control ] || control=${thread##*/}
    done
    ran $control; before=${ran%.*}; read from rest </proc/uptime
    await '[ $(wc -l <out) -ge 9 ]'
    ran $control; read to rest </proc/uptime
    # Hundredths of a second, and ms: a tenth of a CPU.
    passed=$((${to%.*}${to#*.} - ${from%.*}${from#*.})); took=$((${ran%.*} - before))
    echo "$interval: $took ms of $passed hundredths; $(tail -n 1 out)"
    [ $took -lt $passed ] || fail "$interval: $took ms of $passed hundredths of a second"
    held=$(grep -c control_held_up_s out)
    case $interval in
        5s) [ $held = 0 ] || fail "held up, and takes nothing";;
        *) [ $held -gt 0 ] || fail "takes all it wants: $(tail -n 1 out)";;
    esac
    kill -INT $pid; wait $pid
done; true
