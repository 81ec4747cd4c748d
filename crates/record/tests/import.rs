// SPDX-License-Identifier: GPL-2.0-only
//! Other tools' text as a recording: each text beside its result. `UPDATE=1` writes the results anew.

use std::fs;
use std::io::Read;
use std::path::Path;

use record::import::{ImportError, import, survey};
use record::{Reader, Replay};

/// The events of the recording of a text.
fn imported(text: &[u8]) -> Result<String, ImportError> {
    let found = survey(text)?;
    let (file, ..) = import(text, &found, "text", Vec::new())?;
    let mut reader = Reader::new(&file[..]).expect("it is a recording");
    let mut said = format!("{} CPUs, {} lost\n", reader.header().cpus, found.lost);
    while let Some(event) = reader.next_event().expect("it is sound") {
        said += &format!("{} {} {:?}\n", event.t_ns, event.cpu, event.kind);
    }
    assert!(reader.summary().ending.is_some() && reader.summary().disordered == 0);
    Ok(said)
}

#[test]
fn texts_are_what_they_were() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    for name in ["perf", "ftrace", "trace-cmd"] {
        let text = fs::read(folder.join(format!("{name}.txt"))).unwrap();
        let said = imported(&text).unwrap();
        let golden = folder.join(format!("{name}.events"));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&golden, &said).unwrap();
        }
        assert_eq!(said, fs::read_to_string(golden).unwrap(), "{name}");
    }
}

#[test]
fn what_is_no_such_text_is_told() {
    let told = |text: &[u8]| imported(text).unwrap_err().to_string();
    let switch = "a-1 [000] 1.5: sched_switch: a:1 [120] S ==> b:2 [120]\n";
    let wakeup = "a-1 [000] 1.5: sched_wakeup: b:2 [120] CPU:000\n";
    assert!(told(b"").contains("it is empty"));
    assert!(told(b"PERFILE2....").contains("run `perf script -i`"));
    assert!(told(b"\x17\x08\x44tracing6").contains("run `trace-cmd report`"));
    assert!(
        told(b"Lorem ipsum [dolor]\n\xff\xfe\n").contains("no line of it is a scheduling event")
    );
    assert!(told(switch.as_bytes()).contains("no sched_waking"));
    assert!(told(wakeup.as_bytes()).contains("no sched_switch"));
    let far = format!("{switch}{wakeup}{}", switch.replace("[000]", "[9999]"));
    assert!(told(far.as_bytes()).contains("line 3 names CPU 9999"));
}

#[test]
fn a_line_without_an_end_is_refused_in_bounded_memory() {
    let text = b"a-1 [000] 1.5: sched_switch: a:1 [120] S ==> b:2 [120]\n".to_vec();
    let endless = std::io::repeat(b'x').take(1 << 40);
    let refused = survey(std::io::BufReader::new(text.chain(endless))).unwrap_err();
    assert!(refused.to_string().contains("line 2 is longer than a megabyte"), "{refused}");
}

#[test]
fn a_line_of_half_a_megabyte_is_one_line() {
    let switch = "a-1 [000] 1.5: sched_switch: a:1 [120] S ==> b:2 [120]";
    let long = format!("{} {switch}\n", "x".repeat(1 << 19));
    let text = long + "b-2 [000] 1.6: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n";
    assert_eq!(survey(text.as_bytes()).unwrap().events, 2);
}

#[test]
fn json_and_compressed_data_are_refused_with_the_command_that_opens_them() {
    let line =
        r"hog-50 [000] d..2 99.9: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 ";
    let json =
        format!("{{\"traceEvents\": [], \"systemTraceEvents\": \"# tracer: nop\\n {line}\"}}");
    let starts: [(&[u8], &str); 6] = [
        (json.as_bytes(), "JSON of a trace viewer"),
        (b"\n [{\"ph\": \"X\"}]", "JSON of a trace viewer"),
        (b"\x28\xb5\x2f\xfd....", "`zstd -dc`"),
        (b"\xfd7zXZ\0....", "`xz -dc`"),
        (b"BZh9....", "`bzip2 -dc`"),
        (b"PK\x03\x04....", "`unzip -p`"),
    ];
    for (text, why) in starts {
        let refused = survey(text).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

/// The event in a form without a column, or with time differences as times.
#[test]
fn text_in_a_form_that_lacks_something_is_refused_for_that() {
    let fields = "sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 \
                  next_prio=120";
    let waking = "sched_waking: comm=a pid=1 prio=120 target_cpu=000";
    let text = |columns: &str| format!("{columns}{fields}\n{columns}{waking}\n");
    let refused = |text: &str| survey(text.as_bytes()).unwrap_err().to_string();
    let no_cpu = refused(&text("a     1 100.010000: sched:"));
    assert!(no_cpu.contains("line 1 names no CPU") && no_cpu.contains("-F comm"), "{no_cpu}");
    let no_time = refused(&text("a     1 [000] sched:"));
    assert!(no_time.contains("line 1 has no time"), "{no_time}");
    let differences: String =
        (0..50).map(|n| text(&format!("a 1 [000] 0.00{}000: sched:", [5, 1, 9][n % 3]))).collect();
    let backwards = refused(&differences);
    assert!(backwards.contains("without --deltatime"), "{backwards}");
    let files =
        format!("{}{}", text("host.dat: a-1 [000] 1.5: "), text("guest.dat: a-1 [000] 1.5: "));
    assert!(refused(&files).contains("(guest.dat, host.dat)"), "{}", refused(&files));
}

/// A timer wakes `pulse` on `hog`'s CPU each 10 ms; `late` of 1000 wakeups come a little later.
#[test]
fn an_even_pace_shows_a_timer_where_interrupts_are_not_recorded() {
    let text = |jitter_us: u64| -> String {
        let switch = |us: u64, prev, left, next| {
            format!(
                "x 1 [000] {}.{:06}: sched:sched_switch: {prev} [120] {left} ==> {next} [120]\n",
                us / 1_000_000,
                us % 1_000_000
            )
        };
        let mut text = switch(0, "swapper/0:0", "R", "hog:50");
        for n in 1..60 {
            let us = n * 10_000 + n * n * 31 % (jitter_us + 1);
            text += &format!(
                "x 1 [000] 0.{us:06}: sched:sched_waking: comm=pulse pid=60 prio=120 target_cpu=000\n"
            );
            text += &switch(us + 5, "hog:50", "R+", "pulse:60");
            text += &switch(us + 3_005, "pulse:60", "S", "hog:50");
        }
        text
    };
    let timed = |text: &str| survey(text.as_bytes()).unwrap().timed.into_iter().collect::<Vec<_>>();
    assert_eq!(timed(&text(50)), [60]);
    assert_eq!(timed(&text(4_000)), [0; 0], "it comes at any time");
    assert!(imported(text(50).as_bytes()).unwrap().contains("Wake { tid: 60, by: Timer"));
    // Two tasks that wake each other in turn do so at an even pace as well.
    let turn = |n: u64| {
        let (us, own, other) = (n * 1_000, 101 + n % 2, 102 - n % 2);
        format!(
            "x 1 [000] 0.{:06}: sched:sched_waking: comm=srv pid={other} prio=120 target_cpu=000\n\
             x 1 [000] 0.{:06}: sched:sched_switch: srv:{own} [120] S ==> srv:{other} [120]\n",
            us + 900,
            us + 1_000
        )
    };
    assert_eq!(timed(&(0..80).map(turn).collect::<String>()), [0; 0]);
}

#[test]
fn a_clock_that_jumps_leaves_nothing_between() {
    let capture = |from: u64| {
        format!(
            "a-1 [000] {from}.100000: sched_switch: a:1 [120] S ==> b:2 [120]\n\
             b-2 [000] {from}.200000: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n\
             b-2 [000] {from}.300000: sched_switch: b:2 [120] R ==> a:1 [120]\n"
        )
    };
    for (second, jumps) in [(1050, 0), (950, 1), (9000, 1)] {
        let text = capture(1000) + &capture(second);
        let found = survey(text.as_bytes()).unwrap();
        assert_eq!(found.jumps, jumps, "{second}");
        let said = imported(text.as_bytes()).unwrap();
        let last_ns: u64 = said.lines().last().unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(last_ns, if jumps == 0 { 50_200_000_000 } else { 400_000_000 }, "{second}");
    }
}

/// perf turns its events off CPU by CPU. A task that CPU 0 wakes meanwhile runs on CPU 1, which still records.
#[test]
fn a_wakeup_is_not_lost_where_recording_has_ended_before() {
    let switch = |s: f64, cpu: u32, prev: &str, next: &str| {
        format!("x-1 [00{cpu}] {s:.6}: sched_switch: {prev} [120] S ==> {next} [120]\n")
    };
    let lost = |cpu0_ends_s: f64, last_s: f64| {
        let text = switch(1.0, 0, "a:1", "swapper/0:0")
            + "x-1 [000] 1.100000: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n"
            + &switch(cpu0_ends_s, 0, "swapper/0:0", "b:2")
            + &switch(last_s - 0.001, 1, "swapper/1:0", "a:1")
            + &switch(last_s, 1, "a:1", "swapper/1:0");
        survey(text.as_bytes()).unwrap().lost
    };
    assert_eq!(lost(1.9, 2.0), 0, "CPU 0 is silent at the end");
    assert_eq!(lost(1.9995, 2.0), 1, "CPU 0 still records");
    let early = switch(1.4, 1, "swapper/1:0", "a:1") + &switch(1.5, 1, "a:1", "swapper/1:0");
    let text = switch(1.0, 0, "a:1", "b:2")
        + "x-1 [000] 1.100000: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n"
        + &early
        + &switch(2.0, 1, "swapper/1:0", "c:3");
    assert_eq!(survey(text.as_bytes()).unwrap().lost, 1, "it is too early for the end");
}

#[test]
fn what_a_full_buffer_has_overwritten_is_lost() {
    let text = "# tracer: nop\n# entries-in-buffer/entries-written: 2/1002   #P:1\n\
                a-1 [000] 1.5: sched_switch: a:1 [120] S ==> b:2 [120]\n\
                b-2 [000] 1.6: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n";
    assert_eq!(survey(text.as_bytes()).unwrap().lost, 1000);
}

/// CPU 1's buffer was full: its events begin with thread 9 there, which was on CPU 0 until shortly before.
#[test]
fn a_thread_on_an_overwritten_cpu_is_not_charged_for_it() {
    let switch = |cpu, ms, prev, next| {
        format!("a-1 [00{cpu}] 1.{ms:03}000: sched_switch: a:{prev} [120] S ==> a:{next} [120]\n")
    };
    let text = [
        switch(0, 0, 0, 9),
        "b-2 [000] 1.001000: sched_waking: comm=a pid=8 prio=120 target_cpu=000\n".to_string(),
        switch(0, 2, 9, 0),
        "##### CPU 1 buffer started ####\n".to_string(),
        switch(1, 500, 9, 7),
        switch(1, 501, 7, 0),
    ];
    let worked = |text: &str| {
        let found = survey(text.as_bytes()).unwrap();
        let (file, ..) = import(text.as_bytes(), &found, "text", Vec::new()).unwrap();
        let mut reader = Reader::new(&file[..]).unwrap();
        let mut replay = Replay::new(reader.header(), 0.0);
        while let Some(event) = reader.next_event().unwrap() {
            replay.event(&event);
        }
        replay.finish(reader.summary().ending.as_ref());
        let recorded = replay.recorded();
        recorded.iter().map(|task| (task.tid, task.cpu_ns)).collect::<Vec<_>>()
    };
    let of_nine = |worked: Vec<(u32, u64)>| worked.iter().find(|(tid, _)| *tid == 9).unwrap().1;
    assert_eq!(of_nine(worked(&text.concat())), 2_000_000);
    // The same if only the late first event shows that.
    let unmarked = [&text[..3], &text[4..]].concat().concat();
    assert_eq!(of_nine(worked(&unmarked)), 2_000_000);
    let found = survey(unmarked.as_bytes()).unwrap();
    assert_eq!(found.doubts.late, [(1, 500_000_000)]);
    let refused = found.check_whole().unwrap_err().to_string();
    assert!(refused.contains("the events of CPU 1 begin 0.5 s late"), "{refused}");
}

/// Thread 2 makes 3. In the first text only a fork says so, in the second nothing does.
#[test]
fn a_thread_with_an_unseen_start_starts_where_it_is_first_seen() {
    let text = |fork: &str| {
        format!(
            "a-1 [000] 1.000000: sched_switch: a:1 [120] S ==> b:2 [120]\n\
             b-2 [000] 1.001000: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n{fork}\
             b-2 [001] 1.005000: sched_switch: swapper/1:0 [120] R ==> c:3 [120]\n\
             b-2 [001] 1.006000: sched_switch: c:3 [120] X ==> swapper/1:0 [120]\n"
        )
    };
    let fork = "b-2 [000] 1.004000: sched_process_fork: comm=b pid=2 child_comm=b child_pid=3\n";
    for (fork, parent) in [(fork, 2), ("", 0)] {
        let text = text(fork);
        assert!(survey(text.as_bytes()).unwrap().no_starts, "{parent}");
        let said = imported(text.as_bytes()).unwrap();
        let begins = said.find("5000000 1 Start { tid: 3, target: 1 }").expect(&said);
        let forked = said.find(&format!("Fork {{ parent: {parent}, child: 3 }}")).expect(&said);
        assert!(forked < begins && begins < said.find("prev: 0, next: 3").unwrap(), "{said}");
    }
    let told =
        text(fork) + "b-2 [000] 1.1: sched_wakeup_new: comm=d pid=4 prio=120 target_cpu=000\n";
    assert!(!survey(told.as_bytes()).unwrap().no_starts);
}

#[test]
fn a_text_that_grows_is_refused() {
    let text = "a-1 [000] 1.5: sched_switch: a:1 [120] S ==> b:2 [120]\n\
                b-2 [000] 1.6: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n";
    let found = survey(text.as_bytes()).unwrap();
    let grown = text.to_string() + &text.replace("[000]", "[003]");
    let refused = import(grown.as_bytes(), &found, "text", Vec::new()).unwrap_err();
    assert!(refused.to_string().contains("has changed"), "{refused}");
}

mod perfettos {
    use quick_protobuf::Writer as Protobuf;
    use record::import::{Timeline, may_be_perfetto};
    use record::{Event, Kind, Left, Reader, TaskInfo};
    use trace::perfetto::{Perfetto, State};

    /// The events of the recording of a trace.
    fn imported(bytes: &[u8]) -> Vec<Event> {
        let timeline = Timeline::read(bytes, None).unwrap();
        let found = timeline.survey().unwrap();
        let (file, ..) = timeline.import(&found, "trace", Vec::new()).unwrap();
        let mut reader = Reader::new(&file[..]).unwrap();
        let mut events = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            events.push(event);
        }
        assert_eq!(reader.summary().disordered, 0);
        events
    }

    fn written() -> Vec<u8> {
        let mut file = Perfetto::new(Vec::new(), 2);
        file.thread(300, 300, "make").unwrap();
        file.thread(301, 300, "worker").unwrap();
        file.switch(1_000_000, 1, 0, State::Runnable, 301).unwrap();
        file.waking(1_000_500, 1, 300, 0).unwrap();
        file.switch(1_000_700, 0, 0, State::Runnable, 300).unwrap();
        file.switch(1_001_000, 1, 301, State::Asleep, 0).unwrap();
        file.switch(1_002_000, 0, 300, State::Dead, 0).unwrap();
        file.finish().unwrap()
    }

    #[test]
    fn a_machine_of_several_has_to_be_named() {
        let of = |machine: u64, comm: &[u8]| {
            let event =
                [vec![1 << 3, 5], bytes(4, &[bytes(5, comm), vec![6 << 3, 7]].concat())].concat();
            let waking =
                [vec![1 << 3, 6], bytes(20, &[bytes(1, comm), vec![2 << 3, 7]].concat())].concat();
            let bundle = [vec![1 << 3, 0], bytes(2, &event), bytes(2, &waking)].concat();
            let mut packet = bytes(1, &bundle);
            if machine > 0 {
                let mut writer = Protobuf::new(&mut packet);
                writer.write_tag(98 << 3).unwrap();
                writer.write_uint64(machine).unwrap();
            }
            bytes(1, &packet)
        };
        let both = [of(0, b"server"), of(77, b"client")].concat();
        let read = |machine| Timeline::read(&both, machine);
        let refused = read(None).unwrap_err().to_string();
        assert!(refused.contains("(0, 77); name one with --machine-id"), "{refused}");
        let refused = read(Some(5)).unwrap_err().to_string();
        assert!(refused.contains("no machine 5, but 0, 77"), "{refused}");
        for (machine, comm) in [(0, "server"), (77, "client")] {
            let timeline = read(Some(machine)).unwrap();
            let found = timeline.survey().unwrap();
            let (file, ..) = timeline.import(&found, "trace", Vec::new()).unwrap();
            let text = String::from_utf8_lossy(&file).into_owned();
            assert_eq!(found.events, 2);
            assert!(
                text.contains(&comm[..6])
                    && !text.contains(if comm == "server" { "client" } else { "server" })
            );
        }
        assert!(Timeline::read(&of(77, b"client"), None).is_ok(), "there is but one");
    }

    /// CPU 1 was overwritten up to 3 s: its bundle says so, or an older recorder's field.
    #[test]
    fn a_bundle_says_from_when_on_a_cpu_is_known() {
        let event = |t_ns: u64, prev: u64, next: u64| {
            let mut event = Vec::new();
            let mut writer = Protobuf::new(&mut event);
            writer.write_tag(1 << 3).unwrap();
            writer.write_uint64(t_ns).unwrap();
            let numbers = |field: u8, value: u64| vec![field << 3, value as u8];
            event.extend(bytes(4, &[numbers(2, prev), numbers(4, 1), numbers(6, next)].concat()));
            bytes(2, &event)
        };
        let waking = bytes(2, &[vec![1 << 3, 7], bytes(20, &[2 << 3, 9])].concat());
        for field in [9u32, 10] {
            let mut second = vec![1 << 3, 1];
            let mut writer = Protobuf::new(&mut second);
            writer.write_tag(field << 3).unwrap();
            writer.write_uint64(3_000_000_007).unwrap();
            second.extend(event(3_400_000_007, 5, 0));
            let first = [vec![1 << 3, 0], waking.clone(), event(4_000_000_007, 0, 0)].concat();
            let trace = [bytes(1, &bytes(1, &first)), bytes(1, &bytes(1, &second))].concat();
            let timeline = Timeline::read(&trace, None).unwrap();
            let found = timeline.survey().unwrap();
            assert_eq!(found.doubts.late, [(1, 3_000_000_000)]);
            let events = imported(&trace);
            let came = events.iter().find(|it| matches!(it.kind, Kind::Switch { next: 5, .. }));
            assert_eq!(came.map(|it| it.t_ns), Some(3_000_000_000), "field {field}");
        }
    }

    #[test]
    fn what_was_written_for_perfetto_is_read_back() {
        assert!(may_be_perfetto(&written()) && !may_be_perfetto(b"\nperf 1 [000] 1.5: x:"));
        let cut = written().len() - 3;
        assert!(may_be_perfetto(&written()[..cut]) && may_be_perfetto(&bytes(1, &[0; 2])));
        let events = imported(&written());
        let named = |event: &Event| match &event.kind {
            Kind::Task(TaskInfo { tid, pid, name, .. }) => Some((*tid, *pid, name.clone())),
            _ => None,
        };
        let threads: Vec<_> = events.iter().filter_map(named).collect();
        let of = |tid, name: &str| (tid, 300, name.to_string());
        assert_eq!(threads[..2], [of(301, "worker"), of(300, "make")], "of one process");
        let switches: Vec<_> = events
            .iter()
            .filter_map(|event| match event.kind {
                Kind::Switch { prev, next, left } => {
                    Some((event.t_ns, event.cpu, prev, next, left))
                }
                _ => None,
            })
            .collect();
        assert_eq!(
            switches,
            [
                (0, 1, 0, 301, Left::Preempted),
                (700, 0, 0, 300, Left::Preempted),
                (1_000, 1, 301, 0, Left::Blocked),
                (2_000, 0, 300, 0, Left::Dead),
            ]
        );
        let wakes = |event: &&Event| matches!(event.kind, Kind::Wake { tid: 300, .. });
        assert_eq!(events.iter().find(wakes).map(|event| (event.t_ns, event.cpu)), Some((500, 1)));
    }

    /// A field of bytes.
    fn bytes(number: u32, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Protobuf::new(&mut out);
        writer.write_tag(number << 3 | 2).unwrap();
        writer.write_bytes(value).unwrap();
        out
    }

    fn packed(number: u32, values: &[u64]) -> Vec<u8> {
        let mut all = Vec::new();
        let mut writer = Protobuf::new(&mut all);
        values.iter().for_each(|value| writer.write_uint64(*value).unwrap());
        bytes(number, &all)
    }

    /// The default of recorders: columns, times as differences, and packed packets.
    #[test]
    fn compact_and_packed_events_are_the_same_events() {
        let columns = [
            bytes(5, b"make"),
            bytes(5, b"swapper"),
            packed(1, &[1_000_000, 500, 250]),
            packed(2, &[0, 1, 0]),
            packed(3, &[300, 0, 300]),
            packed(4, &[110, 120, 110]),
            packed(6, &[0, 1, 0]),
            packed(7, &[1_000_600]),
            packed(8, &[300]),
            packed(9, &[0]),
            packed(10, &[110]),
            packed(11, &[0]),
            packed(12, &[0x08]),
        ];
        let cpu = [1 << 3, 0];
        let bundle = [&cpu[..], &bytes(4, &columns.concat())].concat();
        let plain = bytes(1, &bytes(1, &bundle));
        let squeezed = miniz_oxide::deflate::compress_to_vec_zlib(&plain, 6);
        let events = imported(&plain);
        assert_eq!(events, imported(&bytes(1, &bytes(50, &squeezed))));
        let said: Vec<String> =
            events.iter().map(|event| format!("{} {:?}", event.t_ns, event.kind)).collect();
        assert!(said[0].contains("nice: -10") && said[0].contains("make"), "{said:?}");
        assert_eq!(
            said[1..],
            [
                "0 Switch { prev: 0, next: 300, left: Preempted }",
                "500 Switch { prev: 300, next: 0, left: Blocked }",
                "600 Wake { tid: 300, by: Interrupt, object: 0 }",
                "750 Switch { prev: 0, next: 300, left: Preempted }",
            ]
        );
    }

    /// A packet may begin with a line's end, and a thread may have any name.
    #[test]
    fn a_text_that_begins_with_an_empty_line_is_no_trace() {
        let line = "\x1b[1m-1 [000] 1.5: sched_switch: a:1 [120] S ==> b:2 [120]\n";
        for text in [format!("\n{line}"), format!("\n\n{line}"), format!("\n{}", line.repeat(9))] {
            assert!(!may_be_perfetto(text.as_bytes()), "{text:?}");
        }
        let long = bytes(1, &[0; 1 << 20]);
        assert!(may_be_perfetto(&long[..1 << 19]), "of one packet that is longer");
    }

    /// A group of packets, as recorders pack them.
    fn group(packets: &[u8]) -> Vec<u8> {
        bytes(1, &bytes(50, &miniz_oxide::deflate::compress_to_vec_zlib(packets, 6)))
    }

    #[test]
    fn a_group_within_a_group_is_lost() {
        let lost = |within: &[u8]| Timeline::read(within, None).unwrap().survey().unwrap().lost;
        let [one, two] = [group(&written()), group(&group(&written()))];
        assert_eq!((lost(&one), lost(&[written(), two].concat())), (0, 1));
    }

    #[test]
    fn a_small_trace_unpacks_to_no_great_one() {
        let zeros = group(&bytes(99, &vec![0; 60 << 20]));
        let bomb = [written(), zeros.repeat(3)].concat();
        assert!(bomb.len() < 1 << 18);
        assert_eq!(Timeline::read(&bomb, None).unwrap().survey().unwrap().lost, 2);
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_read_as_far_as_it_goes() {
        let whole = written();
        for length in 0..whole.len() {
            if let Ok(timeline) = Timeline::read(&whole[..length], None) {
                let _ = timeline.survey();
            }
        }
        let cut = Timeline::read(&whole[..whole.len() - 3], None).unwrap();
        assert_eq!(cut.survey().map(|found| found.lost).unwrap_or(1), 1);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            let Ok(timeline) = Timeline::read(&damaged, None) else { continue };
            if let Ok(found) = timeline.survey() {
                timeline.import(&found, "trace", Vec::new()).unwrap();
            }
        }
    }
}
