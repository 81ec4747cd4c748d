# SPDX-License-Identifier: GPL-2.0-only
# How long a scrape takes with a thousand cgroups that all have waited, beyond a request that is refused.
mkdir /sys/fs/cgroup/many
for n in $(seq 1000); do
    mkdir /sys/fs/cgroup/many/$n
    (echo 0 >/sys/fs/cgroup/many/$n/cgroup.procs; exec sleep 1000000) & sleepers="$sleepers $!"
done
printf 'policy = "cas"\n[metrics]\nnames = 2000\n' >$config
begin
await 'in_charge_is cas'
await '[ -S /run/paceline/metrics ]'
# Each of them is woken twice, so that it has CPU time and waits.
for turn in 1 2; do
    for pid_of in $sleepers; do kill -STOP $pid_of; kill -CONT $pid_of; done
    sleep 1
done
# Sets $now, in ns.
look() { while read -r word at now unit; do [ "$word" != now ] || return 0; done </proc/timer_list; }
# Sets $took, in us.
ask() {
    sleep 1
    look; from=$now
    # As Prometheus asks. A small buffer would count what the client takes.
    printf 'GET /%s HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n' "$1" | socat -b 262144 - UNIX-CONNECT:/run/paceline/metrics >page 2>err || fail "no answer: $(cat log)"
    look; took=$(((now - from) / 1000))
}
ask metrics
ask nothing
least=$took
longest=0
for n in 1 2 3 4 5; do
    ask metrics
    [ $((took - least)) -le $longest ] || longest=$((took - least))
done
told=$(grep -c '^paceline_cgroup_cpu_seconds_total' page)
[ "$told" -ge 1000 ] || fail "only $told cgroups are told"
echo "a scrape of $told cgroups and $(wc -c <page) bytes takes $longest us"
[ $longest -le 50000 ] || fail "a scrape of $told cgroups and $(wc -c <page) bytes takes $longest us"
kill -KILL $sleepers
kill -TERM $pid
wait $pid || fail "it ended with $?"
