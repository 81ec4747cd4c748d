// SPDX-License-Identifier: GPL-2.0-only
//! CPU time of the control plane of `paceline` with 10,000 tasks in 1,000 cgroups, for each second of its work.
//!
//! Each second 100 cgroups are removed with their tasks, and as many are made. A control plane has a twentieth of a CPU,
//! 50 ms in a second (`SHARE` of crates/live/src/control.rs). One that needs more makes longer pauses.

use std::collections::VecDeque;

use policy::{Cgroup, Instance, Keeper, NoMemory, Place, Profile, Quota, Topology, View};
use rustix::time::{ClockId, clock_gettime};

const CPUS: u16 = 64;
const CGROUPS: u64 = 1_000;
const TASKS_OF_EACH: u32 = 10;
/// Cgroups that are made in a second.
const MADE: u64 = 100;
const SECONDS: u64 = 20;
/// The root, with ten cgroups in it that have all others.
const ROOT: u64 = 1;
const FIRST: u64 = 100;

/// A cgroup by its number. Each tenth has a limit.
fn cgroup(id: u64) -> Option<Cgroup> {
    let quota = Quota { quota_ns: 400_000_000, period_ns: 100_000_000, burst_ns: 0 };
    Some(match id {
        ROOT => Cgroup::ROOT,
        2..FIRST => Cgroup { parent: ROOT, ..Cgroup::ROOT },
        _ => Cgroup {
            parent: 2 + id % 10,
            weight: 100 + 100 * (id % 3) as u32,
            quota: (id / 10).is_multiple_of(10).then_some(quota),
            ..Cgroup::ROOT
        },
    })
}

/// Tasks by cgroup, the oldest first.
struct Load {
    keeper: Keeper,
    groups: VecDeque<Vec<Place>>,
    made: u64,
    tasks: u32,
    /// One task in this many runs.
    one_in: u32,
}

impl Load {
    fn new(one_in: u32) -> Self {
        let groups = (0..CGROUPS).map(|_| Vec::new()).collect();
        let mut load = Load { keeper: Keeper::new(), groups, made: CGROUPS, tasks: 0, one_in };
        // Neighbours in the table are of different cgroups.
        for _ in 0..TASKS_OF_EACH {
            for at in 0..CGROUPS {
                let place = load.enter(FIRST + at);
                load.groups[at as usize].push(place);
            }
        }
        load
    }

    fn enter(&mut self, cgroup: u64) -> Place {
        self.tasks += 1;
        let place = self.keeper.enter(self.tasks, self.tasks, 100).expect("there is room");
        self.keeper.put_in(&place, cgroup);
        place
    }

    fn make(&mut self) {
        let places = (0..TASKS_OF_EACH).map(|_| self.enter(FIRST + self.made)).collect();
        self.made += 1;
        self.groups.push_back(places);
    }

    fn remove(&mut self) {
        let places = self.groups.pop_front().into_iter().flatten();
        places.for_each(|place| self.keeper.leave(place));
    }

    /// All CPUs run for so long.
    fn run(&mut self, passed_ns: u64) {
        let all = u64::from(CPUS) * passed_ns;
        let each = all * u64::from(self.one_in) / (CGROUPS * u64::from(TASKS_OF_EACH));
        let places = self.groups.iter().flatten();
        for (at, place) in
            places.enumerate().filter(|(at, _)| (*at as u32).is_multiple_of(self.one_in))
        {
            let kind = at / self.one_in as usize % 2;
            self.keeper.charge(place, kind, each.min(passed_ns), Some(each));
        }
    }
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time of the control plane in a second, and of its longest step, ns.
fn cost(topology: &Topology, one_in: u32) -> [u64; 2] {
    let instance = Instance::parse("paceline", composed::ALL).expect("it is one of them");
    let plan = instance.policy.control.expect("it has a control plane");
    let mut control = (plan.begin)(&instance, topology, &Profile::new());
    let mut load = Load::new(one_in);
    let begin_ns = 1_000_000_000;
    let (mut now_ns, mut made, mut spent, mut longest) = (begin_ns, 0, 0, 0);
    while now_ns < begin_ns + SECONDS * 1_000_000_000 {
        let before = cpu_ns();
        let pause_ns = control.step(&View {
            now_ns,
            table: load.keeper.table(),
            name_of: &|_| None,
            program_of: &|_| None,
            parent_of: &|_| None,
            cgroup_of: &cgroup,
            memory: &NoMemory,
            read: Default::default(),
        });
        let took = cpu_ns() - before;
        (spent, longest) = (spent + took, longest.max(took));
        now_ns += pause_ns;
        load.run(pause_ns);
        while made < (now_ns - begin_ns) * MADE / 1_000_000_000 {
            load.remove();
            load.make();
            made += 1;
        }
    }
    [spent / SECONDS, longest]
}

fn main() {
    let cpus = 0..CPUS;
    let alike = Topology {
        llc: vec![0; CPUS.into()],
        core: cpus.clone().collect(),
        node: vec![0; CPUS.into()],
        core_type: vec![0; CPUS.into()],
        ..Topology::default()
    };
    let halves: Vec<u16> = cpus.map(|cpu| cpu / (CPUS / 2)).collect();
    let uneven =
        Topology { llc: halves.clone(), node: halves.clone(), core_type: halves, ..alike.clone() };
    for (name, topology) in [("all CPUs alike", &alike), ("two domains and two kinds", &uneven)] {
        for one_in in [100, 1] {
            let [spent, longest] = cost(topology, one_in).map(|ns| ns as f64 / 1e6);
            println!(
                "{name}, 1 task in {one_in} runs: {spent:.1} ms/s, a step {longest:.1} ms at most"
            );
        }
    }
}
