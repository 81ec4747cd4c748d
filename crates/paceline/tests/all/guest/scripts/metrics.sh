# SPDX-License-Identifier: GPL-2.0-only
# Metrics: what a scrape says of two cgroups under a policy and under Linux's own class, of names for which there is no
# room, and of hostile ones.
scrape() { printf 'GET /metrics HTTP/1.1\r\n\r\n' | socat - UNIX-CONNECT:/run/paceline/metrics >page 2>err || fail "no scrape: $(cat err log page | head -c 2000)"; sleep 0.6; }
# The value of a line of the page; 0 if it is not there.
value() { grep -v '^#' page | grep -F "paceline_$1 " | head -n 1 | awk '{ print $NF } END { if (!NR) print 0 }'; }
more() { awk "BEGIN { exit !($1 > $2) }" || fail "$3: $1 is not more than $2: $(grep -F "$3" page)"; }

mkdir -p /sys/fs/cgroup/crowd /sys/fs/cgroup/alone
# In the background only.
in_group() { group=$1; shift; echo 0 >/sys/fs/cgroup/"$group"/cgroup.procs; exec "$@"; }
printf 'policy = "cas"\nscx_stats = true\n[metrics]\nlisten = "127.0.0.1:9469"\n' >$config
ip link set lo up
begin
await 'in_charge_is cas'
# Tools of scx have the policy's figures where they look for them, as long as it is in charge.
ask_scx() { echo "$1" | socat -t 5 - UNIX-CONNECT:/run/scx/root/stats >page 2>err || fail "no figures: $(cat err log)"; }
ask_scx '{"req":"stats","args":{"target":"top"}}'
grep -q '"errno":0' page && grep -q '"policy":"cas"' page || fail "$(cat page)"
ask_scx '{"req":"stats_meta","args":{}}'
grep -q '"top":"true"' page || fail "$(cat page)"
for n in 1 2 3 4; do in_group crowd sh -c 'while :; do :; done' & spinners="$spinners $!"; done
in_group alone sh -c 'while :; do sleep 0.01; done' & spinners="$spinners $!"
for class in cas default; do
    $P switch $class >/dev/null 2>err || fail "no switch: $(cat err)"
    read -r began rest </proc/uptime
    scrape
    before=$(value 'cgroup_cpu_seconds_total{cgroup="/crowd"}')
    waits=$(value 'cgroup_wait_seconds_count{cgroup="/crowd"}')
    alone=$(value 'cgroup_wait_seconds_count{cgroup="/alone"}')
    sleep 2
    scrape
    read -r now rest </proc/uptime
    # Four of them on two CPUs: both are theirs for most of the time, and they wait for each other.
    more "$(value 'cgroup_cpu_seconds_total{cgroup="/crowd"}')" "$before + 2" 'cgroup_cpu_seconds_total{cgroup="/crowd"}'
    more "$before + 2 * ($now - $began)" "$(value 'cgroup_cpu_seconds_total{cgroup="/crowd"}')" 'cgroup_cpu_seconds_total{cgroup="/crowd"}'
    more "$(value 'cgroup_wait_seconds_count{cgroup="/crowd"}')" "$waits + 5" 'cgroup_wait_seconds_count{cgroup="/crowd"}'
    more "$(value 'cgroup_wait_seconds_count{cgroup="/alone"}')" "$alone + 5" 'cgroup_wait_seconds_count{cgroup="/alone"}'
    [ "$(value "policy_in_charge{policy=\"$class\"}")" = 1.0 ] || fail "$class: $(grep in_charge page)"
    more "$(value 'program_cpu_seconds_total{program="sh"}')" 1 'program_cpu_seconds_total'
    more "$(value 'busy_seconds_total{kind="0",node="0"}')" 2 busy
    more "$(value 'preemptions_total{kind="0",node="0"}')" 5 preemptions
done
await '[ ! -e /run/scx/root/stats ]'
# A busy CPU's task has not left it for long: its time is told all the same.
grep -q 'cgroup="/"' page || fail "no root"

# On TCP, in the form that is asked for; other users cannot read the socket.
wget -q -O page http://127.0.0.1:9469/metrics || fail "not on TCP"
grep -q '^paceline_policy_loads_total 1' page || fail "$(grep loads page)"
[ "$(stat -c %a /run/paceline/metrics)" = 600 ] || fail "users can read it"

# A removed cgroup goes.
kill -KILL $spinners
wait $spinners
await 'rmdir /sys/fs/cgroup/crowd'
scrape; scrape
grep -q crowd page && fail "it is told still"

# More names than there is room for, and hostile ones.
printf 'policy = "cas"\n[metrics]\nnames = 3\nusers = true\n' >$config
$P reload >/dev/null 2>err || fail "no reload: $(cat err)"
await '[ "$(stat -c %a /run/paceline/metrics)" = 666 ]'
wget -q -O page http://127.0.0.1:9469/metrics && fail "it is on TCP still"
for n in 1 2 3 4 5; do
    mkdir "/sys/fs/cgroup/g$n\"} 1"
    in_group "g$n\"} 1" sh -c 'sleep 0.2; sleep 0.2' & jobs="$jobs $!"
done
wait $jobs
scrape
[ "$(value 'cgroups_beyond_room')" = 1.0 ] || fail "$(grep cgroup page)"
[ "$(grep -c '^paceline_cgroup_cpu_seconds_total' page)" = 4 ] || fail "$(grep cgroup_cpu page)"
more "$(value 'cgroup_wait_seconds_count{cgroup="(others)"}')" 0 others
tr -d '\r' <page | sed '1,/^$/d' | grep -vE '^(# |paceline_)' | grep . && fail "a line is broken"

# What the meter is told of is gone with the service.
kill -TERM $pid
wait $pid || fail "it ended with $?: $(cat log)"
[ ! -e /run/paceline/metrics ] || fail "its socket is there"
