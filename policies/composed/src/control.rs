// SPDX-License-Identifier: GPL-2.0-only
//! The control plane: DINO's and min-fair's side by side, each at its own pace, if its mechanism works.

use policy::{Control, Instance, Profile, Sources, Topology, View};

use crate::mechanisms::{Mechanism, Wanted, mechanisms};

/// A control plane of a mechanism.
struct Part {
    control: Box<dyn Control>,
    /// When it is to be called next, ns.
    due_ns: u64,
}

/// The control planes of all mechanisms that work.
pub struct Composed {
    mechanisms: [Mechanism; 2],
    parts: Vec<Part>,
}

/// The control plane of an instance.
pub(crate) fn begin(
    instance: &Instance,
    topology: &Topology,
    profile: &Profile,
) -> Box<dyn Control> {
    let wanted = ["place", "share"].map(|knob| Wanted::of(instance.get(knob)));
    let mechanisms = mechanisms(domains(topology), topology.kinds(), wanted);
    let [place, share] = &mechanisms;
    let mut parts = Vec::new();
    if place.on {
        parts.push(Part { control: dino::homes(topology, &Profile::new()), due_ns: 0 });
    }
    if share.on {
        let control = uneven::shares(instance.decimal("target"), topology, profile);
        parts.push(Part { control, due_ns: 0 });
    }
    Box::new(Composed { mechanisms, parts })
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
        Some(self.mechanisms.iter().map(says).collect::<Vec<_>>().join("; "))
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
