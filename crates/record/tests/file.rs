// SPDX-License-Identifier: GPL-2.0-only
//! Recordings that are complete, cut off, damaged, or of another format.

use proptest::prelude::*;
use record::{
    Carrier, Ending, Event, Header, Kind, Left, Raw, ReadError, Reader, Summary, Writer, task_group,
};

fn wake(t_ns: u64, cpu: u32) -> Event {
    let kind = Kind::Wake { tid: 7, by: Carrier::Task, object: 0 };
    Event { t_ns, cpu, kind }
}

fn header() -> Header {
    Header { cpus: 2, command: "make".into(), ..Header::default() }
}

/// A file of rounds: each has records of each CPU, then the time up to which they were handed over.
fn written(rounds: &[(&[Event], u64)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    for (events, until_ns) in rounds {
        for cpu in 0..2 {
            let own = events.iter().filter(|event| event.cpu == cpu);
            let raws: Vec<Raw> = own.map(|event| Raw::of(event).unwrap()).collect();
            writer.records(cpu, &raws).unwrap();
        }
        writer.time(*until_ns).unwrap();
    }
    let ending = Ending {
        end_ns: 99,
        lost: 3,
        command_ns: Some((1, 98)),
        unseen_ns: Some(4),
        others_ns: None,
    };
    writer.finish(&ending).unwrap().0
}

fn read(bytes: &[u8]) -> Result<(Vec<Event>, Summary), ReadError> {
    let mut reader = Reader::new(bytes)?;
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(event);
    }
    Ok((events, reader.summary().clone()))
}

fn times(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.t_ns).collect()
}

/// The arguments may be longer than a header may be.
#[test]
fn of_a_long_command_the_beginning_is_kept() {
    let kept = |command: &str| {
        let header = Header { command: command.into(), ..header() };
        let file = Writer::new(Vec::new(), &header).unwrap().finish(&Ending::default()).unwrap().0;
        Reader::new(&file[..]).unwrap().header().command.clone()
    };
    assert_eq!(kept(&"x".repeat(4096)), "x".repeat(4096));
    assert_eq!(kept(&"é".repeat(2 << 20)), "é".repeat(2048) + "…");
    assert_eq!(
        kept(&("x".to_string() + &"é".repeat(2048))),
        "x".to_string() + &"é".repeat(2047) + "…"
    );
    let worst = kept(&"\u{1}".repeat(2 << 20));
    assert!(worst.len() < 5000 && worst.ends_with("\u{1}…"));
}

#[test]
fn cpus_become_one_story() {
    let first = [wake(10, 0), wake(12, 0), wake(11, 1)];
    // a record from before 20 arrives with the second hand-over, which is still in time
    let second = [wake(15, 0), wake(14, 1), wake(25, 1)];
    let (events, summary) = read(&written(&[(&first, 20), (&second, 30)])).unwrap();
    assert_eq!(times(&events), [10, 11, 12, 14, 15, 25]);
    let ending = Ending {
        end_ns: 99,
        lost: 3,
        command_ns: Some((1, 98)),
        unseen_ns: Some(4),
        others_ns: None,
    };
    assert_eq!((summary.records, summary.disordered, summary.ending), (6, 0, Some(ending)));
}

#[test]
fn time_never_goes_back() {
    let first = [wake(10, 0), wake(20, 0)];
    let late = [wake(5, 1), wake(40, 1)];
    let rounds = written(&[(&first, 21), (&[], 22), (&[], 23), (&late, 50)]);
    let (events, summary) = read(&rounds).unwrap();
    assert_eq!(times(&events), [10, 20, 20, 40]);
    assert_eq!(summary.disordered, 1);
}

#[test]
fn a_file_that_was_cut_off_keeps_what_it_has() {
    let whole = written(&[(&[wake(10, 0), wake(11, 1)], 20), (&[wake(21, 0)], 30)]);
    let mut most = 0;
    for length in 0..whole.len() {
        match read(&whole[..length]) {
            Ok((events, summary)) => {
                assert_eq!(summary.ending, None);
                assert!(events.len() >= most);
                most = events.len();
            }
            Err(error) => {
                assert_eq!(most, 0);
                let empty = length == 0;
                let expected = matches!(error, ReadError::Empty) == empty
                    && (empty || matches!(error, ReadError::Short));
                assert!(expected, "{length} bytes: {error}");
            }
        }
    }
    assert_eq!(most, 3);
}

#[test]
fn what_is_no_recording_is_told_in_a_line() {
    let why = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert_eq!(why(b""), "it is empty; record again");
    assert!(why(b"perf.data or whatever it is").starts_with("it is no recording of paceline's"));
    let mut newer = written(&[]);
    newer[8] = 9;
    assert!(why(&newer).contains("layout 9"));
    let mut huge = written(&[]);
    huge[12..16].fill(0xff);
    assert!(why(&huge).contains("header is damaged"));
    let event = Event { t_ns: 1, cpu: 0, kind: Kind::Exec { tid: 1, old: 1 } };
    let mut damaged = written(&[(&[event], 5)]);
    let at = damaged.windows(4).position(|word| word == b"TIME").unwrap();
    damaged[at] = b'?';
    assert_eq!(
        why(&damaged),
        format!("it is damaged at byte {at} (no section begins there); record again")
    );
}

#[test]
fn an_impossible_time_for_writing_an_event_is_damage() {
    for hook_ns in [-1.0, -1e308, 1e7, 1e308] {
        for header in [Header { hook_ns, ..header() }, Header { call_hook_ns: hook_ns, ..header() }]
        {
            let bytes = Writer::new(Vec::new(), &header).unwrap();
            let ending = Ending { end_ns: 9, ..Ending::default() };
            let bytes = bytes.finish(&ending).unwrap().0;
            let error = read(&bytes).unwrap_err();
            assert!(matches!(error, ReadError::Header(_)), "{hook_ns}: {error}");
        }
    }
}

#[test]
fn an_end_at_no_time_is_no_end() {
    let ended = |end_ns: u64, command_ns: Option<(u64, u64)>| {
        let writer = Writer::new(Vec::new(), &header()).unwrap();
        let ending = Ending { end_ns, command_ns, ..Ending::default() };
        read(&writer.finish(&ending).unwrap().0)
    };
    for (end_ns, command_ns) in [(0, None), (9, Some((0, 9))), ((1 << 48) - 1, Some((5, 5)))] {
        assert_eq!(ended(end_ns, command_ns).unwrap().1.ending.unwrap().command_ns, command_ns);
    }
    for (end_ns, command_ns) in
        [(1 << 63, None), (9, Some((0, 10))), (9, Some((5, 4))), (1 << 48, None)]
    {
        let why = ended(end_ns, command_ns).unwrap_err().to_string();
        assert!(why.contains("an end at no time"), "{why}");
    }
}

#[test]
fn threads_are_described_between_other_records() {
    let info = record::TaskInfo {
        tid: 5,
        pid: 5,
        nice: 3,
        class: record::Class::RoundRobin(7),
        kernel: false,
        cpus: 2,
        wakee_flips: 255,
        name: "\u{1b}[2J<b>".into(),
    };
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let [thread, cpus, class, name] = task_group(4, &info);
    let switch = Kind::Switch { prev: 0, next: 5, left: Left::Blocked };
    let switch = Raw::of(&Event { t_ns: 5, cpu: 1, kind: switch }).unwrap();
    writer.records(1, &[thread, cpus]).unwrap();
    writer.records(0, &[switch]).unwrap();
    writer.records(1, &[switch, class, name]).unwrap();
    let (events, _) = read(&writer.finish(&Ending::default()).unwrap().0).unwrap();
    assert_eq!(events[0], Event { t_ns: 4, cpu: 1, kind: Kind::Task(info) });
    assert_eq!(events.len(), 3);
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_fall_over(
        mut tail in prop::collection::vec(any::<u8>(), 0..400),
        cut in 0usize..200,
    ) {
        let mut bytes = written(&[(&[wake(10, 0), wake(11, 1)], 20)]);
        bytes.truncate(cut.max(16));
        bytes.append(&mut tail);
        let _ = read(&bytes);
    }
}
