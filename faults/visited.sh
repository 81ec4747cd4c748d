# SPDX-License-Identifier: GPL-2.0-only
# A real-time task wakes on CPU 1 a thousand times a second, for a moment. The tasks waiting there still get their
# turns: no task has the CPU for itself, and no task is sent away each time.
load
for i in 1 2 3 4 5 6; do spin; done
chrt -f 7 cyclictest -q -t 1 -a 1 -p 7 -i 1000 -D 600 >visits 2>&1 & visitor=$!
progress $spinners
share 12000
# Sets $sum to the sum of a field over tasks, by the folders that describe them.
sum() {
    field=$1 sum=0; shift
    for task in "$@"; do
        while read -r name colon value; do
            [ "$name" != $field ] || sum=$((sum + value))
        done <$task/sched
    done
}
sum nr_switches /proc/$visitor/task/*; visits=$sum
sum se.nr_migrations $(printf '/proc/%s ' $spinners); moves=$sum
kill $visitor || fail "no visits: $(cat visits)"
[ $((3 * most)) -le $all ] || fail "one of six had $most ms of $all"
[ $visits -ge $((all / 8)) ] || fail "only $visits visits in $all ms of two CPUs"
[ $((5 * moves)) -le $visits ] || fail "moved $moves times at $visits visits"
kill $spinners
unload
