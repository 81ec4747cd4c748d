// SPDX-License-Identifier: GPL-2.0-only
//! The control plane: those of DINO, min-fair and avx-fair side by side, each at its own pace, if its mechanism works.

use policy::{Control, Instance, Limits, Profile, Sources, Together, Topology, View};

use crate::mechanisms::{Has, KNOBS, Mechanism, Wanted, mechanisms};
use crate::weights::{Weights, are_heeded};

/// The control planes of all mechanisms that work.
pub struct Composed {
    mechanisms: [Mechanism; 4],
    parts: Together,
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
    Box::new(Composed { mechanisms, parts })
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
        let next_ns = self.parts.step(view);
        // Domains cost something in the data plane, so they wait for a task that needs one.
        let [place, ..] = &self.mechanisms;
        let idle = place.on && view.table.tasks().iter().all(|task| task.home == 0);
        let works = |one: &&Mechanism| one.on && !(idle && one.bit == place.bit);
        view.table.set_working(self.mechanisms.iter().filter(works).map(|one| one.bit).sum());
        next_ns
    }

    fn sources(&self) -> Sources {
        self.parts.sources()
    }

    fn says(&self) -> Option<String> {
        let says = |one: &Mechanism| {
            format!("{} {}: {}", one.name, if one.on { "on" } else { "off" }, one.why)
        };
        let all = self.mechanisms.iter().map(says).chain(self.parts.says());
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
        fn new(policy: &str) -> Self {
            let instance = Instance::parse(policy, crate::ALL).unwrap();
            let topology = Topology {
                llc: vec![0, 0, 1, 1],
                core: vec![0, 1, 2, 3],
                node: vec![0, 0, 1, 1],
                core_type: vec![0; 4],
                ..Topology::default()
            };
            let control = begin(&instance, &topology, &Profile::new());
            Bench { keeper: Keeper::new(), control }
        }

        /// What works after a step.
        fn step(&mut self, now_ns: u64) -> u64 {
            let view = View {
                now_ns,
                table: self.keeper.table(),
                name_of: &|_| None,
                program_of: &|_| None,
                parent_of: &|_| None,
                cgroup_of: &|_| None,
                memory: &NoMemory,
            };
            self.control.step(&view);
            self.keeper.table().working()
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

    #[test]
    fn a_mechanism_that_is_off_stays_off() {
        let mut bench = Bench::new("paceline:place=off");
        bench.keeper.enter(7, 7, 100).unwrap();
        let task = bench.keeper.table().tasks()[0];
        bench.keeper.table().set_home(&task, Some(1));
        assert_eq!(bench.step(0), 0);
    }
}
