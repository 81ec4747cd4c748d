// SPDX-License-Identifier: GPL-2.0-only
//! How fast the simulator is: `cargo run --release -p sim --example speed [MACHINE [GROUPS [LOOPS]]]`.

use std::time::Instant;

use policy::Instance;
use sim::{Scenario, Scheduler, run};
use workload::hackbench::{Channel, Hackbench};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let machine = arguments.next().unwrap_or_else(|| "xeon-phi-31s1p".into());
    let machine = machine::find(&machine).unwrap_or_else(|error| panic!("{error}"));
    let mut number = |or: u64| arguments.next().map_or(or, |text| text.parse().expect("a number"));
    let (groups, loops) = (number(10) as usize, number(100));
    for policy in [&flsched::FLSCHED, &baseline::FIFO] {
        for channel in [Channel::Pipe, Channel::Socket] {
            let workload = Hackbench { groups, loops, channel, ..Hackbench::default() }.build();
            let scheduler = Scheduler::Policy(Instance::default(policy));
            let start = Instant::now();
            match run(&Scenario::new(machine.clone(), workload, scheduler)) {
                Ok(outcome) => {
                    let switches = outcome.observed.context_switches;
                    let ns = start.elapsed().as_nanos() as f64;
                    println!(
                        "{} {channel:?}: {:.3} s simulated in {:.3} s, {switches} switches, \
                         {:.0} ns each, scheduler {:.3} s, waited at locks {:.3} s",
                        policy.name,
                        outcome.elapsed_ns as f64 / 1e9,
                        ns / 1e9,
                        ns / switches as f64,
                        outcome.extra["scheduler_ns"] / 1e9,
                        outcome.extra["lock_wait_ns"] / 1e9,
                    );
                }
                Err(error) => println!("{} {channel:?}: {error}", policy.name),
            }
        }
    }
}
