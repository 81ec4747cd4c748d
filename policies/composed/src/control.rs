// SPDX-License-Identifier: GPL-2.0-only
//! The control plane: those of DINO, min-fair and avx-fair side by side, each at its own pace, if its mechanism works.

use policy::{Control, Instance, Limits, Profile, Sources, Topology, View};

use crate::mechanisms::{Has, KNOBS, Mechanism, Wanted, mechanisms};
use crate::weights::{Weights, are_heeded};

/// A control plane of a mechanism.
struct Part {
    control: Box<dyn Control>,
    /// When it is to be called next, ns.
    due_ns: u64,
}

/// The control planes of all mechanisms that work.
pub struct Composed {
    mechanisms: [Mechanism; 4],
    parts: Vec<Part>,
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
    let mut parts = Vec::new();
    if are_heeded(instance) {
        let weights = Box::new(Weights::new(topology.llc.len()));
        parts.push(Part { control: weights, due_ns: 0 });
        parts.push(Part { control: Box::new(Limits::default()), due_ns: 0 });
    }
    if place.on {
        parts.push(Part { control: dino::homes(topology, &Profile::new()), due_ns: 0 });
    }
    if share.on {
        let control = uneven::shares(instance.decimal("target"), topology, profile);
        parts.push(Part { control, due_ns: 0 });
    }
    // Shares hold either those of kinds of cores, or levels [level_told].
    if charge.on && topology.kinds() == 1 {
        parts.push(Part { control: avx::levels(profile), due_ns: 0 });
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

/// A control plane without parts has nothing to do for so long, ns.
const NOTHING_NS: u64 = 1_000_000_000;

impl Control for Composed {
    fn step(&mut self, view: &View<'_>) -> u64 {
        let now_ns = view.now_ns;
        for part in self.parts.iter_mut().filter(|part| part.due_ns <= now_ns) {
            part.due_ns = now_ns + part.control.step(view);
        }
        // Domains cost something in the data plane, so they wait for a task that needs one.
        let [place, ..] = &self.mechanisms;
        let idle = place.on && view.table.tasks().iter().all(|task| task.home == 0);
        let works = |one: &&Mechanism| one.on && !(idle && one.bit == place.bit);
        view.table.set_working(self.mechanisms.iter().filter(works).map(|one| one.bit).sum());
        let next_ns = self.parts.iter().map(|part| part.due_ns - now_ns).min();
        next_ns.unwrap_or(NOTHING_NS)
    }

    fn sources(&self) -> Sources {
        self.parts.last().map_or(Sources::default(), |part| part.control.sources())
    }

    fn says(&self) -> Option<String> {
        let says = |one: &Mechanism| {
            format!("{} {}: {}", one.name, if one.on { "on" } else { "off" }, one.why)
        };
        let parts = self.parts.iter().filter_map(|part| part.control.says());
        Some(self.mechanisms.iter().map(says).chain(parts).collect::<Vec<_>>().join("; "))
    }

    fn learned(&self) -> Profile {
        self.parts.iter().flat_map(|part| part.control.learned()).collect()
    }

    fn measured(&self, tell: &mut dyn FnMut(u32, &[f64])) {
        self.parts.iter().for_each(|part| part.control.measured(tell));
    }

    fn placed(&self) -> Vec<(u32, usize)> {
        self.parts.iter().flat_map(|part| part.control.placed()).collect()
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
