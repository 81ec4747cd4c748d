// SPDX-License-Identifier: GPL-2.0-only
//! One seed, one result, bit for bit; another seed, another.

use policy::Instance;
use sim::{Record, Scenario, Scheduler, run_all, run_traced};
use workload::hackbench::{Channel, Hackbench};

fn scenario(scheduler: Scheduler, seed: u64) -> Scenario {
    let workload =
        Hackbench { groups: 1, loops: 10, channel: Channel::Pipe, ..Hackbench::default() };
    Scenario::new(machine::find("numa-2x4").unwrap(), workload.build(), scheduler).seed(seed)
}

fn schedulers() -> Vec<Scheduler> {
    let policy = |policy| Scheduler::Policy(Instance::default(policy));
    vec![policy(&baseline::FIFO), policy(&flsched::FLSCHED), Scheduler::Default, Scheduler::Cfs]
}

#[test]
fn the_same_seed_gives_the_same_events() {
    for scheduler in schedulers() {
        let mut scenario = scenario(scheduler, 7);
        scenario.options.record = Record { events: true, callbacks: true, ..Record::default() };
        let (a, b) = (run_traced(&scenario).unwrap(), run_traced(&scenario).unwrap());
        assert!(a.events.len() > 100);
        assert_eq!(a.events, b.events);
        assert_eq!(a.callbacks, b.callbacks);
        assert_eq!(format!("{:?}", a.outcome), format!("{:?}", b.outcome));
    }
}

#[test]
fn runs_side_by_side_do_not_disturb_each_other() {
    let many: Vec<Scenario> = schedulers()
        .into_iter()
        .flat_map(|scheduler| (0..8).map(move |seed| scenario(scheduler.clone(), seed)))
        .collect();
    let together: Vec<String> =
        run_all(&many).into_iter().map(|outcome| format!("{:?}", outcome.unwrap())).collect();
    for (scenario, outcome) in many.iter().zip(&together).step_by(5) {
        assert_eq!(&format!("{:?}", sim::run(scenario).unwrap()), outcome);
    }
}

#[test]
fn another_seed_gives_another_result() {
    for scheduler in schedulers() {
        let elapsed = |seed| sim::run(&scenario(scheduler.clone(), seed)).unwrap().elapsed_ns;
        assert_ne!(elapsed(1), elapsed(2));
    }
}
