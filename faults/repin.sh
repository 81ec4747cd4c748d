# SPDX-License-Identifier: GPL-2.0-only
# Waiting tasks are pinned to other CPUs, reniced, and moved through other classes; each does all its work.
load
tasks=8
n=0; while [ $n -lt $tasks ]; do
    n=$((n+1))
    sh -c "i=0; while [ \$i -lt 30000 ]; do i=\$((i+1)); done; touch done-$n; exec sleep 1000" & workers="$workers $!"
done
cat >change.sh <<'C'
for mask in 1 2 4 8 3 c 5 f; do
    for worker in "$@"; do taskset -p $mask $worker; done
    for nice in 19 -20 5 0; do renice $nice -p "$@"; done
    chrt -b -p 0 $1; chrt -r -p 1 $2; chrt -o -p 0 $2; chrt -o -p 0 $1
    first=$1; shift; set -- "$@" $first
done
C
changes=0
while [ $(ls done-* 2>/dev/null | wc -l) -lt $tasks ]; do
    changes=$((changes+1)); [ $changes -lt 60 ] || fail "only $(ls done-*) after $changes rounds of changes"
    chrt -f 5 sh change.sh $workers >out 2>&1 || fail "a change: $(tail -n 1 out)"
done
[ $changes -gt 1 ] || fail "they were over before"
for worker in $workers; do
    [ "$(taskset -p $worker | sed 's/.* //')" = f ] || fail "a mask: $(taskset -p $worker)"
    grep -q '^policy *: *0$' /proc/$worker/sched || fail "a class: $(grep '^policy' /proc/$worker/sched)"
    grep -q '^prio *: *120$' /proc/$worker/sched || fail "a priority: $(grep '^prio' /proc/$worker/sched)"
done
unload
kill $workers
