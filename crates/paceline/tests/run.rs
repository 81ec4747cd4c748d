// SPDX-License-Identifier: GPL-2.0-only
//! `run` on a real kernel: inside a guest, where it is what a comparison runs.

use std::process::{Command, Output};

const BIN: &str = env!("CARGO_BIN_EXE_paceline");

/// For the scripts: the command, the state of sched_ext, and an end with a reason.
const PRELUDE: &str = r#"
    state() { cat /sys/kernel/sched_ext/state; }
    fail() { echo "failed: $* [$(tail -n 3 err | tr '\n' '|')]"; exit 1; }
    await() { i=0; until eval "$1"; do i=$((i+1)); [ $i -lt 400 ] || fail "never: $1"; sleep 0.05; done; }
    cd /tmp
"#;

/// Runs a shell script as root in a guest with two CPUs side by side.
fn in_guest(script: &str) {
    in_guest_of(2, script);
}

/// The same with more of them.
fn in_guest_of(cpus: usize, script: &str) {
    let script = format!("P={BIN}\n{PRELUDE}\n{script}");
    let hackbench = vm::which("hackbench".as_ref()).expect("hackbench is installed");
    let mut command = Command::new(BIN);
    command.args(["compare", "--on", "vm", "--clock", "threads", "--boots", "1", "--cpus"]);
    command.arg(cpus.to_string());
    command.args(["--runs", "1", "--policy", "default", "--with", BIN, "--with"]);
    let Output { status, stderr, .. } =
        command.arg(hackbench).args(["--", "sh", "-c", &script]).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
}

#[test]
fn it_goes_when_its_time_its_command_or_somebody_ends_it() {
    in_guest(
        r#"
        $P run fifo --for 500ms 2>err || fail "time: $?"
        grep -q 'unloaded after 0.* s, its time is over' err || fail "what it said"
        [ "$(state)" = disabled ] || fail "still $(state)"

        $P run flsched:slice=5ms -- sh -c 'cd /sys/kernel/sched_ext; cat root/ops; exit 3' >out 2>err
        status=$?; [ $status = 3 ] || fail "status $status"
        grep -qx flsched out || fail "who was in charge: $(cat out)"
        $P run cas -- sh -c 'kill -KILL $$' 2>err
        status=$?; [ $status = 137 ] || fail "a signal: $status"

        for signal in INT TERM HUP; do
            $P run cas 2>err & pid=$!
            await '[ "$(state)" = enabled ]'
            kill -$signal $pid
            wait $pid; status=$?
            [ $status = 130 ] || fail "$signal: $status"
            grep -q 'interrupted' err || fail "what it said"
            [ "$(state)" = disabled ] || fail "still $(state)"
        done"#,
    );
}

#[test]
fn what_cannot_be_loaded_is_one_line() {
    in_guest(
        r#"
        refused() {
            "$@" >out 2>err; status=$?
            [ $status = 2 ] && [ $(wc -l <err) = 1 ] || fail "$* gave $status: $(cat err)"
        }
        refused $P run default;              grep -q 'there are: flsched' err || fail names
        refused $P run fifo --for 0s;        grep -q 'such as 10s' err || fail zero
        refused $P run fifo -- no-such-one;  grep -q 'no-such-one' err || fail command
        [ "$(state)" = disabled ] || fail "still $(state)"
        $P run fifo 2>first & pid=$!
        await '[ "$(state)" = enabled ]'
        refused $P run cas;                  grep -q 'fifo is enabled here: stop it first' err || fail second
        [ "$(cd /sys/kernel/sched_ext; cat root/ops)" = fifo ] || fail "the first is gone"
        kill $pid; wait $pid
        chmod 755 $(dirname $P)
        refused su nobody -s /bin/sh -c "$P run fifo"; grep -q 'needs root' err || fail root

        mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
        echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
        mkdir -p /sys/fs/cgroup/half
        echo '50000 100000' >/sys/fs/cgroup/half/cpu.max
        refused $P run fifo --for 1s;        grep -q '/half/cpu.max is 50000 100000' err || fail limits
        $P run fifo --for 300ms --ignore-cgroup-limits 2>err || fail "told to ignore them"
        $P run fifo --partial -- true 2>err || fail "they are not its own"
        rmdir /sys/fs/cgroup/half"#,
    );
}

#[test]
fn the_kernel_gets_its_own_class_back_whatever_ends_it() {
    in_guest(
        r#"
        $P run flsched 2>err & pid=$!
        await '[ "$(state)" = enabled ]'
        hackbench -g 1 -l 400 >out 2>&1 & load=$!
        sleep 0.3
        kill -KILL $pid; wait $pid
        await '[ "$(state)" = disabled ]'
        wait $load || fail "hackbench: $? $(cat out)"

        $P run flsched --json -- sh -c 'sleep 1; echo S >/proc/sysrq-trigger; sleep 1' >out 2>err
        status=$?; [ $status = 1 ] || fail "sysrq: $status"
        grep -q '"ended":"the kernel stopped it' out || fail "end: $(tail -n 1 out | head -c 300)"
        grep -q '"reason":"disabled by sysrq-S"' out || fail "reason: $(tail -n 1 out | head -c 300)"
        [ "$(state)" = disabled ] || fail "still $(state)"

        # Whoever holds a policy is above it: a signal is answered by a process whose other threads starve.
        sh -c "renice -n 19 -p \$\$ && exec $P run starve" >out 2>err & pid=$!
        await '[ "$(state)" = enabled ]'
        kill -INT $pid
        wait $pid; status=$?; [ $status = 130 ] || fail "starved by its own policy: $status"

        $P run starve -- sh -c 'renice -n 19 $$; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done' 2>err
        status=$?; [ $status = 1 ] || fail "watchdog: $status"
        grep -q 'the kernel stopped it: runnable task stall' err || fail "reason"
        grep -q '^CPU states' err || fail "no dump"
        [ "$(state)" = disabled ] || fail "still $(state)""#,
    );
}

#[test]
fn partial_mode_takes_who_asks() {
    in_guest(
        r#"
        class() { sed -n 's/^policy *: *//p' /proc/$1/sched; }
        sleep 100 & other=$!
        $P run cas --partial -- sh -c 'sed -n "s/^policy *: *//p" /proc/$$/sched; sleep 0.2' >out 2>err || fail run
        [ "$(cat out)" = 7 ] || fail "the command's class is $(cat out)"
        [ "$(class $other)" = 0 ] || fail "another's is $(class $other)"
        kill $other

        $P run cas --stats 200ms --for 1s --json >out 2>err || fail "statistics: $?"
        [ $(grep -c '"switches_per_s":' out) -ge 3 ] || fail "lines: $(cat out)"
        grep -q '"ended":"its time is over"' out || fail "end"

        # The lines' reader goes: so does the policy, but not before it is said, nor without the command's status.
        { $P run fifo --json --stats 100ms -- sh -c 'sleep 1; exit 3' 2>err; echo $? >status; } | head -n 1 >out
        [ "$(cat status)" = 3 ] || fail "status without a reader: $(cat status)"
        grep -q 'unloaded after .* nobody reads its lines' err || fail "what it said without a reader"
        $P run fifo --json --stats 100ms -- sh -c 'sleep 1; touch ended' >/dev/full 2>err; status=$?
        [ $status = 2 ] && [ -e ended ] || fail "a full disk: $status""#,
    );
}

/// CPUs come and go under load, for every policy that is not a cheat: it stays, and the load ends well.
#[test]
fn cpus_come_and_go() {
    in_guest_of(
        4,
        r#"
        cpus=/sys/devices/system/cpu
        for policy in flsched flsched:pull=true cas cas:slack=3ms,aggregate=2 rr fifo; do
            rm -f loaded
            $P run $policy -- sh -c '
                taskset 8 hackbench -g 1 -l 100 -p & bound=$!
                sleep 0.3; touch loaded
                hackbench -g 2 -l 150 -p && wait $bound' >out 2>err & pid=$!
            await '[ -e loaded ]'
            rounds=0
            while kill -0 $pid 2>/dev/null && [ $rounds -lt 8 ]; do
                rounds=$((rounds+1))
                for cpu in 3 1; do
                    echo 0 >$cpus/cpu$cpu/online || fail "$policy: cpu$cpu does not go"
                done
                for cpu in 1 3; do
                    echo 1 >$cpus/cpu$cpu/online || fail "$policy: cpu$cpu does not come"
                done
            done
            [ $rounds -gt 0 ] || fail "$policy: the load was over before"
            wait $pid; status=$?
            [ $status = 0 ] || fail "$policy: $status after $rounds rounds"
            grep -q 'unloaded after .* the command has ended' err || fail "$policy: what it said"
            [ "$(state)" = disabled ] || fail "still $(state)"
        done"#,
    );
}
