# SPDX-License-Identifier: GPL-2.0-only
# A real-time task wakes on CPU 1 a thousand times a second, for a moment. Who waits there gets its turns all the same:
# nobody has the CPU for itself, and nobody is sent away each time.
load
for i in 1 2 3 4 5 6; do spin; done
chrt -f 7 cyclictest -q -t 1 -a 1 -p 7 -i 1000 -D 600 >visits 2>&1 & visitor=$!
progress $spinners
all=0
for task in $spinners; do ran $task; begun="$begun ${ran%.*}"; done
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ $all -lt 12000 ] || break
    sleep 1
    all=0; most=0; left=$begun
    for task in $spinners; do
        ran $task
        set -- $left; left=${left#" $1"}
        more=$((${ran%.*} - $1)); all=$((all + more))
        [ $more -le $most ] || most=$more
    done
done
[ $all -ge 12000 ] || fail "all six had $all ms in 20 s"
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
