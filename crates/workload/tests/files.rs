// SPDX-License-Identifier: GPL-2.0-only
//! The workload files that come with the program.

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
