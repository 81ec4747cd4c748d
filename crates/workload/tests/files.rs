// SPDX-License-Identifier: GPL-2.0-only
//! The workload files that come with the program, and rt-app's own.

use std::fs;
use std::path::Path;

use workload::{Dialect, rtapp::parse, write};

const FILES: &[(&str, &str, bool)] = &[
    ("agree-1", include_str!("../../../workloads/agree-1.json"), true),
    ("agree-2", include_str!("../../../workloads/agree-2.json"), true),
    ("agree-3", include_str!("../../../workloads/agree-3.json"), true),
];

#[test]
fn they_can_be_read_and_rtapp_runs_those_that_say_so() {
    for (name, text, rtapp) in FILES {
        let workload = parse(&format!("{name}.json"), text).unwrap_or_else(|e| panic!("{e}"));
        assert!(workload.tasks.len() > 8, "{name} fills a machine of 8 CPUs");
        assert!(workload.duration_ns.is_some());
        assert_eq!(write(&workload, Dialect::RtApp).is_ok(), *rtapp, "{name}");
        // Objects are renumbered by their first place in the text; after that nothing changes.
        let again = |text: &str| {
            write(&parse(&format!("{name}.json"), text).unwrap(), Dialect::Paceline).unwrap()
        };
        let once = again(text);
        assert_eq!(again(&once), again(&again(&once)), "{name}");
    }
}

/// The examples of Debian's rt-app 1.0-1 (/usr/share/doc/rt-app; GPL-2.0, as the package's copyright file says), with
/// the error that refuses them, if any. The examples of `merge` and `taskset` use a language that rt-app itself has
/// given up.
const EXAMPLES: &[(&str, Option<&str>)] = &[
    ("example1", None),
    ("example2", None),
    ("example3", None),
    ("example4", Some("\"global\" has no \"duration\"")),
    ("example5", None),
    ("example6", None),
    ("example7", None),
    ("example8", None),
    ("template", None),
    ("spreading-tasks", None),
    ("browser-short", None),
    ("browser-long", None),
    ("mp3-short", None),
    ("mp3-long", None),
    ("video-short", None),
    ("video-long", None),
    ("calibration", None),
    ("dvfs", None),
    ("global", Some("expected an object \"tasks\"")),
    ("resources", Some("expected an object \"tasks\"")),
    ("thread0", Some("\"exec\" of rt-app is not modelled")),
    ("thread1", Some("\"exec\" of rt-app is not modelled")),
    ("thread2", Some("\"exec\" of rt-app is not modelled")),
    ("thread3", Some("\"exec\" of rt-app is not modelled")),
    ("taskset", Some("\"exec\" of rt-app is not modelled")),
];

#[test]
fn rtapps_own_examples_load_or_are_refused_by_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rt-app");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), EXAMPLES.len());
    for (name, refused) in EXAMPLES {
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        match (parse(name, &text), refused) {
            (Ok(workload), None) => assert!(!workload.tasks.is_empty(), "{name}"),
            (Err(error), Some(why)) => {
                assert!(error.to_string().contains(why), "{error}");
            }
            (Ok(_), Some(why)) => panic!("{name} loads, and was refused for {why}"),
            (Err(error), None) => panic!("{error}"),
        }
    }
}
