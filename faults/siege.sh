# SPDX-License-Identifier: GPL-2.0-only
# Real-time tasks keep every CPU: the kernel leaves our tasks a twentieth of each second. Waiting tasks must not gather
# on the CPU that has just had it. Every task gets a turn before the watchdog or RCU complains.
load
mkfifo gate
for i in $(seq $((40 * $(nproc)))); do
    (: <gate; while :; do :; done) & spinners="$spinners $!"
done
read -r self rest </proc/self/stat # $$ is the shell that began all faults
chrt -f -p 60 $self # the test itself does not wait with them
: >gate

# A task that is gone is a failure, and must not show the value of the task before it.
cpu_time() {
    for task in $spinners; do
        ran=; ran $task
        [ "$ran" ] || fail "task $task is gone" >&2
        echo $ran
    done
}
all_progress() {
    cpu_time >had
    await 'cpu_time >has; [ "$(awk "NR == FNR { had[FNR] = \$1; next } had[FNR] == \$1" had has)" = "" ]'
}
all_progress
for i in $(seq $(nproc)); do
    chrt -f 50 taskset $((1 << (i - 1))) sh -c 'while :; do :; done' & hogs="$hogs $!"
done
for hog in $hogs; do await 'ran $hog; [ ${ran%.*} -gt 10 ]'; done
sleep 40
in_charge
kill $hogs || fail "there was no hog"
all_progress
kill $spinners
chrt -o -p 0 $self
unload
