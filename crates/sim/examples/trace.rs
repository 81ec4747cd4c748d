// SPDX-License-Identifier: GPL-2.0-only
//! Runs an rt-app file in the simulator and writes every scheduling event, one file a run, in the form of
//! `crates/vm/examples/compare.rs` with EVENTS: to find where two grounds diverge.
//!
//! `trace MACHINE POLICY SEEDS FILE FOLDER`, POLICY being `default` or one of `flsched` and `fifo`.

use std::path::Path;

use policy::{Instance, Policy};
use sim::{Record, Scenario, Scheduler, run_traced};

static REGISTRY: &[&Policy] = &[&baseline::FIFO, &flsched::FLSCHED];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [machine, policy, seeds, file, folder] = &words[..] else {
        panic!("trace MACHINE POLICY SEEDS FILE FOLDER")
    };
    let scheduler = match policy.as_str() {
        "default" => Scheduler::Default,
        name => Scheduler::Policy(Instance::parse(name, REGISTRY).expect("a policy")),
    };
    let text = std::fs::read_to_string(file).expect("the file can be read");
    let workload = workload::rtapp::parse(file, &text).expect("an rt-app file");
    let machine = machine::find(machine).expect("a machine");
    for seed in 1..=seeds.parse().expect("a number of seeds") {
        let mut scenario =
            Scenario::new(machine.clone(), workload.clone(), scheduler.clone()).seed(seed);
        scenario.options.record = Record { events: true, ..Record::default() };
        scenario.options.together = true;
        let traced = run_traced(&scenario).expect("the run ends well");
        let lines = traced.events.iter().map(|event| format!("{event:?}\n"));
        let names = traced.outcome.names.iter().map(|it| format!("{it:?}\n"));
        let text: String = names.chain(lines).collect();
        let path = Path::new(folder).join(format!("{policy}-0-{}", seed - 1));
        std::fs::write(path, text).expect("the folder takes the file");
    }
}
