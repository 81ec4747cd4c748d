# SPDX-License-Identifier: GPL-2.0-only
# The service: its ladder, switches that succeed and that fail, knobs in place, and its own end.
status() { $P status --json; }
says() { status | grep -q "$1" || fail "no $1 in $(status)"; }

# Without a service its clients say how to start one, and a wrong file is one line.
refused $P status
grep -q 'systemctl start paceline' err || fail "no advice"
echo 'policy = "flshed"' >$config
refused $P serve --check
grep -q "$config: policy: no policy is called .flshed.; did you mean flsched" err || fail "no line"
refused $P serve

# A policy that the kernel ejects makes room for the next one, and is left alone.
printf 'policy = ["starve", "flsched"]\n' >$config
$P serve --check >out 2>err || fail "a right file is refused"
grep -q 'starve, then flsched, then default' out || fail "$(cat out)"
begin
await 'in_charge_is starve'
spin; spin
# starve leaves such a task waiting.
nice -n 19 sh -c 'while :; do :; done' & spinners="$spinners $!"
await 'in_charge_is flsched'
says '"ejections": 1'
says '"in_charge": "flsched"'
says 'runnable task stall'
set -- /var/lib/paceline/dumps/*-starve.txt
[ $# = 1 ] && grep -q 'runnable task stall' "$1" || fail "no dump"
[ "$(stat -c %a "$1")" = 600 ] && [ "$(stat -c %a /var/lib/paceline)" = 700 ] || fail "others can read it"
progress $spinners
refused $P serve
grep -q 'a service of Paceline runs here already' err || fail "a second one: $(cat err)"
says '"in_charge": "flsched"'

# A switch, a knob, and what is refused leaves all as it is.
$P switch cas >out 2>err || fail "no switch"
grep -q 'cas is in charge, after flsched; default was in charge in between, for at most [0-9]* ms' out || fail "$(cat out)"
in_charge_is cas || fail "$(ops)"
loads=$(cat /sys/kernel/sched_ext/enable_seq)
$P set slice=50ms >out 2>err || fail "no set: $(cat log)"
grep -q 'cas:slice=50ms: slice is 50ms, and was 100ms' out || fail "$(cat out)"
refused $P set slice=5h
refused $P set slices=5ms
refused $P set slice
refused $P switch csa
refused $P switch 'cas:slice=9h'
sleep 1
[ "$(cat /sys/kernel/sched_ext/enable_seq)" = $loads ] || fail "it was loaded again"
says '"in_charge": "cas:slice=50ms"'
$P switch flsched:pull=true >out 2>err || fail "no switch"
refused $P set pull=false
grep -q 'load it again with: paceline switch flsched$' err || fail "no advice"

# One that fails within its grace time: the one before is back.
$P switch starve >out 2>err || fail "no switch"
await 'in_charge_is starve'
await 'in_charge_is flsched'
says '"in_charge": "flsched:pull=true"'
progress $spinners

# The config file: a wrong one changes nothing, by request or by signal; a right one is followed.
echo 'polcy = "cas"' >$config
refused $P reload
kill -HUP $pid
sleep 1
says '"in_charge": "flsched:pull=true"'
printf 'policy = "cas"\nafter_crash = "class"\n' >$config
kill -HUP $pid
await 'in_charge_is cas'
$P reload >out && grep -q 'what is in charge stays' out || fail "$(cat out)"
$P switch default >out 2>err || fail "no switch"
[ "$(state)" = disabled ] || fail "$(state)"
sleep 1
[ "$(state)" = disabled ] || fail "it came back"
$P reload >out 2>err || fail "no reload"
in_charge_is cas || fail "it is not followed"

# A limit that the policy would ignore is the machine's, and no failure of the policy.
mkdir /sys/fs/cgroup/limited
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
echo '50000 100000' >/sys/fs/cgroup/limited/cpu.max
refused $P switch fifo
grep -q '/limited/cpu.max is 50000 100000; remove the limits, or set ignore_cgroup_limits = true; cas is in charge' err ||
    fail "no way out: $(cat err)"
says '"count": 0'
rmdir /sys/fs/cgroup/limited
in_charge_is cas || fail "$(ops)"

# Requests of no sense.
for words in '' '{' '{"switch":1}' '"status"x' '{"set":{"knob":"slice"}}'; do
    echo "$words" | socat -t 5 - UNIX-CONNECT:/run/paceline/control | grep -q '"refused"' || fail "$words is taken"
done
says '"in_charge": "cas"'

# An administrator's key ends it for good.
echo S >/proc/sysrq-trigger
await '[ "$(state)" = disabled ]'
sleep 2
[ "$(state)" = disabled ] || fail "it came back against the administrator"
says '"chosen": "default"'
kill -TERM $pid
wait $pid || fail "it ended with $?"
begin
await '$P status >out 2>&1'
sleep 1
[ "$(state)" = disabled ] || fail "a restart brought it back against the administrator"
says '"chosen": "default"'
$P reload >out 2>err || fail "no reload"

# Killed: Linux's own class is back at once, and stays if the config file says so.
kill -KILL $pid
wait $pid
await '[ "$(state)" = disabled ]'
begin
await '[ -S /run/paceline/control ] && $P status >out 2>&1'
sleep 1
[ "$(state)" = disabled ] || fail "after_crash does not hold"
printf 'policy = ["cas", "flsched"]\n' >$config
$P reload >out 2>err || fail "no reload"
in_charge_is cas || fail "$(ops)"
kill -KILL $pid
wait $pid
begin
# It was killed within the grace time of cas.
await 'in_charge_is flsched'
says 'the service was killed within its grace time'
# The machine goes down within the grace time of flsched: after the boot it is left alone, too.
kill -KILL $pid
wait $pid
sed -i 's/"boot": ".*"/"boot": "another"/' /var/lib/paceline/state.json
begin
await '$P status >out 2>&1'
says 'the machine went down within its grace time'
[ "$(state)" = disabled ] || fail "$(ops) is in charge after the machine went down"

# Told to end, it ends well; another scheduler is heeded.
kill -TERM $pid
wait $pid; status=$?
[ $status = 0 ] && [ "$(state)" = disabled ] || fail "it ended with $status, $(state): $(cat log)"
[ ! -e /run/paceline/control ] || fail "its socket is there"
$P run fifo >/dev/null 2>&1 & other=$!
await 'in_charge_is fifo'
refused $P serve
grep -q 'fifo is enabled here' err || fail "no word of it"
kill -INT $other
wait $other
kill -KILL $spinners
