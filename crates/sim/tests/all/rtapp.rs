// SPDX-License-Identifier: GPL-2.0-only
//! The examples of rt-app itself, from Debian's package, run.

use std::fs;
use std::path::Path;

use policy::Instance;
use sim::{Scenario, Scheduler, run};
use workload::rtapp::parse;

use crate::common::MS;

/// Long enough for all of their tasks to begin.
const DURATION_NS: u64 = 1_500 * MS;

#[test]
fn rtapps_own_examples_run_under_every_class() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/tests/rt-app");
    let mut ran = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(mut workload) = parse(path.to_str().unwrap(), &fs::read_to_string(&path).unwrap())
        else {
            continue;
        };
        let shortened = workload.duration_ns.is_some_and(|ns| ns > DURATION_NS);
        if shortened {
            workload.duration_ns = Some(DURATION_NS);
        }
        let fifo = Scheduler::Policy(Instance::default(&baseline::FIFO));
        for scheduler in [fifo, Scheduler::Default, Scheduler::Cfs] {
            let machine = machine::find("numa-2x4").unwrap();
            let outcome = run(&Scenario::new(machine, workload.clone(), scheduler));
            let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", workload.name));
            assert!(!shortened || outcome.elapsed_ns == DURATION_NS, "{}", workload.name);
            let cpu_ns =
                |at: usize| outcome.observed.tasks.get(&(at as u32 + 1)).map_or(0, |of| of.cpu_ns);
            for (at, task) in workload.tasks.iter().enumerate() {
                assert!(cpu_ns(at) > 0, "{}: {} did not run", workload.name, task.name);
            }
        }
        ran.push(workload.name);
    }
    assert_eq!(ran.len(), 17, "{ran:?}");
}
