// SPDX-License-Identifier: GPL-2.0-only
//! Other tools' text as a recording: each text beside what was made of it. `UPDATE=1` writes that anew.

use std::fs;
use std::path::Path;

use record::Reader;
use record::import::{ImportError, import, survey};

/// What is read back of a recording that was made of a text.
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
fn a_line_without_an_end_takes_no_memory() {
    let mut text = b"a-1 [000] 1.5: sched_switch: a:1 [120] S ==> b:2 [120]\n".to_vec();
    text.extend(b"b-2 [000] 1.6: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n");
    text.resize(text.len() + (3 << 20), b'x');
    assert!(imported(&text).unwrap().lines().count() == 5, "two threads, two events and a heading");
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

#[test]
fn what_a_full_buffer_has_overwritten_is_lost() {
    let text = "# tracer: nop\n# entries-in-buffer/entries-written: 2/1002   #P:1\n\
                a-1 [000] 1.5: sched_switch: a:1 [120] S ==> b:2 [120]\n\
                b-2 [000] 1.6: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n";
    assert_eq!(survey(text.as_bytes()).unwrap().lost, 1000);
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
