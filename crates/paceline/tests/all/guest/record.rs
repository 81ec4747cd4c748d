// SPDX-License-Identifier: GPL-2.0-only
//! `record` on a real kernel: inside a guest, where a test may fill the disk and the kernel may refuse.

#[allow(dead_code)]
use crate::guest::{in_guest, in_guest_beside, in_guest_by};
use vm::Clock;

#[test]
fn what_was_recorded_is_kept_whatever_ends_it() {
    in_guest(
        r#"
        replayed() {
            $P compare --on sim --machine icount-1 --policy default --workload $1 --report $1.html \
                >$1.out 2>$1.err || fail "$1: $(cat $1.err)"
        }
        $P record -o ctrl-c -- hackbench -g 1 -l 300 >/dev/null 2>err & pid=$!
        await '[ "$(cat .tmp* 2>/dev/null | wc -c)" -gt 20000 ]'
        kill -INT $pid
        wait $pid || fail "its command's status was 0, and it gave $?"
        grep -q 'ctrl-c: .* events in' err || fail "what it said: $(cat err)"
        replayed ctrl-c
        grep -q 'cut off' ctrl-c.err && fail "it has an end"

        $P record -o whole --for 1h 2>err & pid=$!
        await '[ "$(cat .tmp* 2>/dev/null | wc -c)" -gt 1000 ]'
        kill -INT $pid
        wait $pid; status=$?; [ $status = 130 ] || fail "nobody has a status but it: $status"
        grep -q 'whole: .* events in' err && [ -s whole ] || fail "what it said: $(cat err)"

        mkdir small; mount -t tmpfs -o size=48k none small
        $P record -o small/trace -- hackbench -g 1 -l 300 >/dev/null 2>err
        status=$?; [ $status = 1 ] || fail "a full disk: $status"
        grep -q 'ends early' err || fail "what it said: $(cat err)"
        cp small/trace full
        replayed full
        grep -q 'cut off' full.err || fail "it has no end: $(cat full.err)"
        echo before >small/trace; head -c 1048576 /dev/zero >small/rest 2>err
        $P record -o small/trace -- true 2>err && fail "there is no room: $(cat err)"
        grep -q 'cannot write small/trace: No space left' err || fail "what it said: $(cat err)"
        [ "$(cat small/trace)" = before ] || fail "the file is gone"
        [ "$(ls -A small | wc -l)" = 2 ] || fail "left: $(ls -A small)"
        umount small

        chmod 755 $(dirname $P)
        mkdir -m 777 open; cd open
        echo before >there; chmod 666 there
        su nobody -s /bin/sh -c "$P record --calls -o there -- true" 2>err
        status=$?; [ $status = 2 ] || fail "no rights: $status"
        [ $(wc -l <err) = 1 ] && grep -q 'lacks CAP_SYS_ADMIN' err || fail "said: $(cat err)"
        [ "$(cat there)" = before ] || fail "the file is gone"
        su nobody -s /bin/sh -c "$P record -o there -- sh -c 'sleep 0.1; exit 3'" 2>err
        status=$?; [ $status = 3 ] || fail "its command's status was 3, and it gave $status: $(cat err)"
        grep -q 'so the recording is coarse' err || fail "said: $(cat err)"
        replayed there
        grep -q 'coarse: sampled from procfs' there.out || fail "nobody is told: $(cat there.out)""#,
    );
}

/// cyclictest's threads are SCHED_FIFO, and report how late they were: at most 10 ms, or the test would show nothing.
/// The replay agrees within a millisecond, even under a policy that does not know real-time tasks.
#[test]
fn a_realtime_task_beside_hogs_waits_in_a_replay_as_it_did() {
    in_guest_by(
        Clock::Icount,
        1,
        r#"
        cat >load <<'END'
        (while :; do :; done) & one=$!
        (while :; do :; done) & two=$!
        cyclictest -q -t1 -p50 -i10000 -l60 >late
        kill $one $two
END
        $P record -o fifo -- sh load 2>err || fail "$?: $(cat err)"
        late_us=$(sed -n 's/.*Max: *\([0-9]*\).*/\1/p' late)
        [ "$late_us" -lt 10000 ] || fail "it was late: $(cat late)"
        for policy in default flsched; do
            $P compare --on sim --machine icount-1 --policy $policy --workload fifo --json >json 2>err ||
                fail "$(cat err)"
            waited_us=$(tr '{' '\n' <json | grep '"cyclictest"' |
                sed 's/.*"wait_max_s": *\([0-9.e-]*\).*/\1/' |
                awk '{ if ($1 * 1e6 > max) max = $1 * 1e6 } END { printf "%d", max }')
            [ -n "$waited_us" ] && [ "$waited_us" -lt $((late_us + 1000)) ] ||
                fail "$policy: it waited $waited_us us, and was $late_us us late: $(cat json)"
        done"#,
    );
}

/// The guide's commands that record with perf and with trace-cmd: their replay takes as long as the recorded run.
#[test]
fn recipes_of_the_guide_record_what_a_replay_needs() {
    const GUIDE: &str = include_str!("../../../../../docs/src/guides/record-and-replay.md");
    let recipe = |program: &str| {
        let lines: Vec<&str> =
            GUIDE.lines().skip_while(|line| !line.starts_with(program)).collect();
        let end = lines
            .iter()
            .position(|line| line.starts_with("paceline import"))
            .expect("it is imported");
        lines[..end].join("\n").replace("./job", "sh job")
    };
    let script = format!(
        r#"
        mount -t debugfs none /sys/kernel/debug 2>/dev/null
        # A timer preempts a hog.
        cat >job <<'END'
awk 'BEGIN {{ while (i++ < 20000000) n += i }}' & hog=$!
cyclictest -q -t1 -p0 -i10000 -l100 >/dev/null
kill $hog
END
        recorded() {{
            "$P" import job.txt -o $1.trace --json >$1.json 2>$1.err || fail "$1: $(cat $1.err)"
            grep -q '"interrupts":true' $1.json || fail "$1: $(cat $1.json)"
            grep -q '"lost":0' $1.json || fail "$1: $(cat $1.json $1.err)"
            $P compare --on sim --policy default --workload $1.trace --json >$1.replay 2>$1.err ||
                fail "$1: $(cat $1.err)"
            span_s=$(sed -n 's/.*"span_s":\([0-9.]*\).*/\1/p' $1.json)
            took_s=$(tr ',' '\n' <$1.replay | sed -n 's/.*"elapsed_s": *\([0-9.]*\).*/\1/p' | head -n 1)
            awk "BEGIN {{ off = $took_s / $span_s - 1; exit !(off < 0.05 && off > -0.05) }}" ||
                fail "$1: $took_s s in the replay, $span_s s in the recording"
        }}
        ({perf}) >said 2>&1 || fail "perf: $(cat said)"
        recorded perf
        ({trace_cmd}) >said 2>&1 || fail "trace-cmd: $(cat said)"
        recorded trace-cmd"#,
        perf = recipe("perf record"),
        trace_cmd = recipe("trace-cmd record"),
    );
    in_guest_beside(&["perf", "trace-cmd"], &script);
}

/// Tasks are interrupted in the middle of calls, and of the hooks that write those down. An interrupt within another
/// one's hook may count as lost.
#[test]
fn no_call_is_missed_where_many_share_a_cpu() {
    in_guest(
        r#"
        $P record --calls -o calls -- taskset 1 hackbench -g 2 -l 60 -p >/dev/null 2>err || fail "$?: $(cat err)"
        lost=$(sed -n 's/.*, \([0-9]*\) LOST.*/\1/p' err)
        grep -q ' events in' err && [ "${lost:-0}" -le 100 ] || fail "$(cat err)"
        [ $(wc -c <calls) -gt $((2 * 48000 * 16)) ] || fail "48,000 messages: $(cat err)""#,
    );
}

/// In a container, or where tracefs is not mounted. The recorder's own mount is not visible to its command.
#[test]
fn tracepoints_are_found_where_tracefs_is_not_mounted() {
    in_guest(
        r#"
        umount /sys/kernel/tracing 2>err || fail "$(cat err)"
        $P record --calls -o bare -- sh -c 'ls /sys/kernel/tracing | wc -l' >seen 2>err || fail "$?: $(cat err)"
        grep -q ' events in' err || fail "$(cat err)"
        [ "$(cat seen)" = 0 ] || fail "the command sees $(cat seen) files"
        grep -q ' /sys/kernel/tracing ' /proc/mounts && fail "it is mounted for all"; true"#,
    );
}

/// A replay is fitted to the scheduler in charge.
#[test]
fn a_recording_knows_the_scheduler_in_charge() {
    in_guest(
        r#"
        made() { $P run $1 -- $P record -o $2 -- sh -c 'sleep 0.01' 2>err || fail "$?: $(cat err)"; }
        made flsched ours
        made fifo:slice=5ms with-knobs
        made avx-fair another
        made "cas --partial" partial
        said() {
            $P compare --on sim --machine icount-1 --policy default --workload $1 >out 2>&1 || fail "$1: $(cat out)"
            grep -c 'it was made under' out
        }
        [ "$(said ours)" = 2 ] || fail "flsched: $(cat out)"
        grep -q 'it was made under flsched, whose knobs it does not tell' out || fail "flsched: $(cat out)"
        [ "$(said with-knobs)" = 2 ] || fail "fifo: $(cat out)"
        [ "$(said another)" = 2 ] && grep -q 'under avx-fair' out || fail "avx-fair: $(cat out)"
        [ "$(said partial)" = 0 ] || fail "partial: $(cat out)"
        "#,
    );
}

#[test]
fn a_name_commands_neither_page_nor_terminal() {
    in_guest(
        r#"
        escape=$(printf '\033')
        $P record -o named -- sh -c 'printf "\033[2J<i>&" >/proc/self/comm; sleep 0.01; sleep 0.01' 2>err ||
            fail "$?: $(cat err)"
        $P compare --on sim --machine icount-1 --policy default --workload named --report named.html >out 2>&1 ||
            fail "$(cat out)"
        grep -q '&lt;i&gt;&amp;' named.html || fail "it is not there"
        grep -q '<i>' named.html && fail "it is HTML"
        grep -q "$escape" named.html out err && fail "it commands"; true"#,
    );
}
