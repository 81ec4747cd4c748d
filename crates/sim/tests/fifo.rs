// SPDX-License-Identifier: GPL-2.0-only
//! The bare FIFO policy runs message passing, and does it the same way each time.

use policy::Instance;
use sim::{Scenario, Scheduler, run};
use workload::hackbench::{Channel, Hackbench, Worker};

fn hackbench(channel: Channel) -> workload::Workload {
    Hackbench { groups: 2, loops: 20, channel, worker: Worker::Process, ..Hackbench::default() }.build()
}

fn scenario(channel: Channel, seed: u64) -> Scenario {
    let machine = machine::find("numa-2x4").unwrap();
    let fifo = Scheduler::Policy(Instance::default(&baseline::FIFO));
    Scenario::new(machine, hackbench(channel), fifo).seed(seed)
}

#[test]
fn hackbench_ends() {
    for channel in [Channel::Pipe, Channel::Socket] {
        let outcome = run(&scenario(channel, 1)).unwrap();
        println!("{} {:?} {:?} {:?}", outcome.elapsed_ns, outcome.observed.context_switches, outcome.locks, outcome.extra);
        println!("{:?}", outcome.functions);
        assert!(outcome.elapsed_ns > 0 && outcome.observed.context_switches > 100);
    }
}
