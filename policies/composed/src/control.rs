// SPDX-License-Identifier: GPL-2.0-only
//! The control plane: those of DINO, min-fair and avx-fair side by side, each at its own pace, if its mechanism works.

use policy::table::TaskView;
use policy::{
    Control, Counts, Instance, Limits, Memory, Profile, Sources, Together, Topology, View,
};

use crate::mechanisms::{Has, KNOBS, Mechanism, Wanted, mechanisms};
use crate::trial::{Counted, Executed, Trials};
use crate::weights::{Weights, are_heeded};

/// The control planes of all mechanisms that work.
pub struct Composed {
    mechanisms: [Mechanism; 4],
    parts: Together,
    trials: Trials,
    /// Mechanisms that a user has not forced, a bit for each.
    free: u64,
    /// Mechanisms that rest, in the same way.
    rests: u64,
}

/// Memory that stays where it is.
struct Still<'a>(&'a dyn Memory);

impl Memory for Still<'_> {
    fn counts(&self, tid: u32) -> Option<Counts> {
        self.0.counts(tid)
    }

    fn resident(&self, pid: u32) -> Vec<u64> {
        self.0.resident(pid)
    }

    fn traffic(&self) -> Vec<u64> {
        self.0.traffic()
    }
}

/// The control plane of an instance.
pub(crate) fn begin(
    instance: &Instance,
    topology: &Topology,
    profile: &Profile,
) -> Box<dyn Control> {
    let wanted = KNOBS.map(|knob| Wanted::of(instance.get(knob)));
    let mechanisms = mechanisms(has(topology), wanted);
    let [place, share, charge, _] = &mechanisms;
    let mut parts = Together::default();
    if are_heeded(instance) {
        parts.add(Box::new(Weights::new(topology.llc.len())));
        parts.add(Box::new(Limits::default()));
    }
    if place.on {
        parts.add(dino::homes(topology, &Profile::new()));
    }
    if share.on {
        parts.add(uneven::shares(instance.decimal("target"), topology, profile));
    }
    // Shares hold either those of kinds of cores, or levels [level_told].
    if charge.on && topology.kinds() == 1 {
        parts.add(avx::levels(profile));
    }
    let free = mechanisms.iter().zip(wanted).filter(|(_, wanted)| *wanted == Wanted::Auto);
    let free = free.map(|(one, _)| one.bit).sum();
    let trials = Trials::new(mechanisms.len(), instance.get("trial"));
    Box::new(Composed { mechanisms, parts, trials, free, rests: 0 })
}

fn has(topology: &Topology) -> Has {
    let known = !topology.clocks.turbo_khz.is_empty();
    let levels = if known { topology.clocks.license_levels as usize } else { 0 };
    let untagged = topology.tlb_tags == Some(false);
    Has { domains: domains(topology), kinds: topology.kinds(), levels, untagged }
}

/// Memory nodes if there are several, else last-level caches.
fn domains(topology: &Topology) -> usize {
    let count = |of: &[u16]| 1 + of.iter().copied().max().map_or(0, usize::from);
    match count(&topology.node) {
        1 => count(&topology.llc),
        nodes => nodes,
    }
}

impl Control for Composed {
    fn step(&mut self, view: &View<'_>) -> u64 {
        let still = Still(view.memory);
        let rests = self.rests & self.mechanisms[0].bit != 0;
        let memory = if rests { &still } else { view.memory };
        let view = &View { memory, read: Default::default(), ..*view };
        let next_ns = self.parts.step(view);
        // Domains cost something in the data plane, so they wait for a task that needs one.
        let [place, ..] = &self.mechanisms;
        let idle = place.on && !view.table.any_has_home();
        let has_work = |one: &&Mechanism| one.on && !(idle && one.bit == place.bit);
        let have_work: u64 = self.mechanisms.iter().filter(has_work).map(|one| one.bit).sum();
        let now = self.trials.step(view.now_ns, have_work & self.free, &|| executed(view));
        self.rests = now.rest;
        view.table.set_working(have_work & !now.rest);
        next_ns.min(now.next_ns)
    }

    fn sources(&self) -> Sources {
        self.parts.sources()
    }

    fn says(&self) -> Option<String> {
        let says = |(at, one): (usize, &Mechanism)| match self.trials.cost(at) {
            Some(cost) => format!("{} off: it costs {:.1} % here", one.name, 100.0 * cost),
            None => format!("{} {}: {}", one.name, if one.on { "on" } else { "off" }, one.why),
        };
        let all = self.mechanisms.iter().enumerate().map(says).chain(self.parts.says());
        Some(all.collect::<Vec<_>>().join("; "))
    }

    fn learned(&self) -> Profile {
        self.parts.learned()
    }

    fn measured(&self, tell: &mut dyn FnMut(u32, &[f64])) {
        self.parts.measured(tell);
    }

    fn placed(&self) -> Vec<(u32, usize)> {
        self.parts.placed()
    }
}

/// What each task has executed: counted by the data plane, or for memory domains.
fn executed(view: &View<'_>) -> Counted {
    let of = |task: &TaskView| {
        let counted = task.instructions.iter().sum();
        let elsewhere = || view.memory.counts(task.pid).map(|counts| counts.instructions);
        let instructions = if counted > 0 { Some(counted) } else { elsewhere() }?;
        let executed = Executed { instructions, ran_ns: task.runtime_ns };
        Some(((task.slot, task.generation), executed))
    };
    view.tasks().iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::{Keeper, NoMemory};

    /// A data plane without tasks, and the control plane of a machine with two nodes.
    struct Bench {
        keeper: Keeper,
        control: Box<dyn Control>,
    }

    impl Bench {
        /// With two nodes.
        fn new(policy: &str) -> Self {
            Bench::on(&[0, 0, 1, 1], &[0; 4], policy)
        }

        /// With these nodes and kinds of cores.
        fn on(node: &[u16], core_type: &[u16], policy: &str) -> Self {
            let instance = Instance::parse(policy, crate::ALL).unwrap();
            let topology = Topology {
                llc: node.to_vec(),
                core: (0..node.len() as u16).collect(),
                node: node.to_vec(),
                core_type: core_type.to_vec(),
                ..Topology::default()
            };
            let control = begin(&instance, &topology, &Profile::new());
            Bench { keeper: Keeper::new(), control }
        }

        /// What works after a step.
        fn step(&mut self, now_ns: u64) -> u64 {
            self.step_to(now_ns).0
        }

        /// The same, and when the next step is due, ns from now.
        fn step_to(&mut self, now_ns: u64) -> (u64, u64) {
            let view = View {
                now_ns,
                table: self.keeper.table(),
                name_of: &|_| None,
                program_of: &|_| None,
                parent_of: &|_| None,
                cgroup_of: &|_| None,
                memory: &NoMemory,
                read: Default::default(),
            };
            let next_ns = self.control.step(&view);
            (self.keeper.table().working(), next_ns)
        }
    }

    #[test]
    fn domains_wait_for_a_task_that_belongs_to_one() {
        let mut bench = Bench::new("paceline");
        assert_eq!(bench.step(0), 0, "one kind of core, and no task");
        bench.keeper.enter(7, 7, 100).unwrap();
        assert_eq!(bench.step(1), 0, "a task that belongs nowhere");
        let task = bench.keeper.table().tasks()[0];
        bench.keeper.table().set_home(&task, Some(1));
        assert_eq!(bench.step(2), 1);
        bench.keeper.table().set_home(&task, None);
        assert_eq!(bench.step(3), 0);
    }

    /// What works after a minute in which two hogs execute `with` times as much while they share two kinds of cores.
    fn minute(policy: &str, with: f64) -> (u64, String) {
        let mut bench = Bench::on(&[0, 0], &[0, 1], policy);
        let hogs = [1, 2].map(|pid| bench.keeper.enter(pid, pid, 100).unwrap());
        let (mut now_ns, mut working) = (0, 0);
        while now_ns < 60_000_000_000 {
            let next_ns;
            (working, next_ns) = bench.step_to(now_ns);
            let rate = if working & 2 == 0 { 1.0 } else { with };
            for (kind, hog) in hogs.iter().enumerate() {
                let instructions = next_ns as f64 * rate / (1 + kind) as f64;
                bench.keeper.charge(hog, kind, next_ns, Some(instructions as u64));
            }
            now_ns += next_ns;
        }
        (working, bench.control.says().unwrap())
    }

    #[test]
    fn a_mechanism_that_costs_more_than_it_gains_rests_unless_it_is_forced() {
        let (working, says) = minute("paceline", 0.96);
        assert_eq!(working, 0);
        assert!(says.contains("share off: it costs 4.0 % here"), "{says}");
        assert_eq!(minute("paceline", 1.04).0, 2);
        assert_eq!(minute("paceline:share=on", 0.96).0, 2);
        assert_eq!(minute("paceline:trial=0s", 0.96).0, 2);
    }

    #[test]
    fn a_mechanism_that_is_off_stays_off() {
        let mut bench = Bench::new("paceline:place=off");
        bench.keeper.enter(7, 7, 100).unwrap();
        let task = bench.keeper.table().tasks()[0];
        bench.keeper.table().set_home(&task, Some(1));
        assert_eq!(bench.step(0), 0);
    }
}
