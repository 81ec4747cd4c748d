# SPDX-License-Identifier: GPL-2.0-only
# A real-time task wakes on CPU 1 a thousand times a second, for a moment. The tasks waiting there still get their
# turns: no task has the CPU for itself, and no task is sent away each time.
load
for i in 1 2 3 4 5 6; do spin; done
chrt -f 7 cyclictest -q -t 1 -a 1 -p 7 -i 1000 -D 600 >visits 2>&1 & visitor=$!
progress $spinners
share 12000
moves=0
for task in $spinners; do
    while read -r name colon value; do
        [ "$name" != se.nr_migrations ] || moves=$((moves + value))
    done </proc/$task/sched
done
kill $visitor || fail "no visits: $(cat visits)"
[ $((3 * most)) -le $all ] || fail "one of six had $most ms of $all"
[ $((20 * moves)) -le $all ] || fail "moved $moves times in $all ms"
kill $spinners
unload
