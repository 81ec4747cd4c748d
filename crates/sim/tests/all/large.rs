// SPDX-License-Identifier: GPL-2.0-only
//! 228 hardware threads under a message storm: the checkers of every run hold here, too.

use policy::{Instance, Policy};
use sim::{Scenario, Scheduler, run_all};
use workload::hackbench::{Channel, Hackbench};

#[test]
fn a_storm_on_228_threads_keeps_its_promises() {
    let policies: [&'static Policy; 3] = [&flsched::FLSCHED, &baseline::FIFO, &baseline::RR];
    let policies = policies.map(|policy| Scheduler::Policy(Instance::default(policy)));
    let schedulers = [Scheduler::Default, Scheduler::Cfs].into_iter().chain(policies);
    let mut scenarios = Vec::new();
    for scheduler in schedulers {
        for channel in [Channel::Pipe, Channel::Socket] {
            let storm = Hackbench { groups: 8, loops: 10, channel, ..Hackbench::default() }.build();
            let machine = machine::find("xeon-phi-31s1p").unwrap();
            let mut scenario = Scenario::new(machine, storm, scheduler.clone());
            scenario.options.check = true;
            scenarios.push(scenario);
        }
    }
    for (outcome, scenario) in run_all(&scenarios).into_iter().zip(&scenarios) {
        let outcome = outcome.unwrap_or_else(|error| panic!("{:?}: {error}", scenario.scheduler));
        println!(
            "{} {} {:.4} s",
            outcome.policy,
            scenario.workload.name,
            outcome.elapsed_ns as f64 / 1e9
        );
    }
}
