# SPDX-License-Identifier: GPL-2.0-only
# $policy; top: under Linux's own class and under a policy, as text, as JSON and on a screen.
spin; spin
mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
mkdir /sys/fs/cgroup/jobs
echo ${spinners##* } >/sys/fs/cgroup/jobs/cgroup.procs

$P top --once >out 2>err || fail "$(cat err)"
grep -q "^Linux's own class is in charge$" out || fail "$(cat out)"
grep -Eq '^(9[0-9]|100) % busy, [0-9,]+ switches/s' out || fail "$(cat out)"
grep -Eq '^\| [01] .* sh\[[0-9]+\]' out || fail "no task: $(cat out)"
grep -Eq '^\| /jobs +\| [01]\.[0-9]' out || fail "no cgroup: $(cat out)"

load
$P top --json --once --every 2s >out 2>err || fail "$(cat err)"
grep -q '"scheduler":"cas"' out || fail "$(cat out)"
grep -q '"service":null' out && grep -q '"power_w":null' out || fail "$(cat out)"
[ "$(wc -l <out)" = 1 ] || fail "more than a line"

# A screen: the keys turn its tables and end it, and the terminal is put back; so it is if a signal ends it.
echo "stty rows 24 cols 80; exec $P top --every 500ms" >on-screen
on_screen() { timeout 60 socat -t 30 - "EXEC:sh on-screen,pty,setsid,ctty" >screen 2>err; }
(sleep 4; printf '\t'; sleep 2; printf q) | on_screen
for words in 'cas is in charge' 'CPUs' '/jobs' '\[?1049l' '\[?25h'; do
    grep -q "$words" screen || fail "no $words: $(tr '\033' '^' <screen | head -c 3000)"
done
(
    sleep 4
    for task in /proc/[0-9]*; do
        case $(tr '\0' ' ' <$task/cmdline 2>/dev/null) in "$P top "*) kill -TERM ${task#/proc/} ;; esac
    done
    sleep 2
) | on_screen
grep -q interrupted err && grep -q '\[?25h' screen || fail "not put back: $(tr '\033' '^' <screen | tail -c 300)"

# What it lacks is one line.
refused $P top
grep -q 'top needs a terminal; without one, say --once or --json' err || fail "$(cat err)"
setpriv --reuid 65534 --regid 65534 --clear-groups $P top --once 2>err && fail "without rights"
grep -q 'run it with sudo' err || fail "$(cat err)"
in_charge
