// SPDX-License-Identifier: GPL-2.0-only
//! Several control planes side by side, as one.

use crate::{Binds, Control, Limits, Profile, Sources, View};

/// Control planes that do not touch the same fields of the table. Each is called at its own pace.
#[derive(Default)]
pub struct Together {
    parts: Vec<Part>,
}

struct Part {
    control: Box<dyn Control>,
    /// When it is to be called next, ns.
    due_ns: u64,
}

/// Gives a control plane the limits of cgroups beside what it does.
pub fn heeding_limits(own: Box<dyn Control>) -> Box<dyn Control> {
    let mut both = Together::default();
    both.add(Box::new(Limits::default()));
    both.add(own);
    Box::new(both)
}

impl Together {
    /// Adds one behind the others. The last one says what shares mean, and where speeds are from.
    pub fn add(&mut self, control: Box<dyn Control>) {
        self.parts.push(Part { control, due_ns: 0 });
    }

    fn all(&self) -> impl Iterator<Item = &dyn Control> {
        self.parts.iter().map(|part| &*part.control)
    }
}

/// If there are none, there is nothing to do for so long, ns.
const NOTHING_NS: u64 = 1_000_000_000;

impl Control for Together {
    fn step(&mut self, view: &View<'_>) -> u64 {
        let now_ns = view.now_ns;
        for part in self.parts.iter_mut().filter(|part| part.due_ns <= now_ns) {
            part.due_ns = now_ns + part.control.step(view);
        }
        let next_ns = self.parts.iter().map(|part| part.due_ns - now_ns).min();
        next_ns.unwrap_or(NOTHING_NS)
    }

    fn binds(&self) -> Binds {
        self.all().last().map_or(Binds::Nothing, Control::binds)
    }

    fn sources(&self) -> Sources {
        self.all().last().map_or(Sources::default(), Control::sources)
    }

    fn says(&self) -> Option<String> {
        let all: Vec<String> = self.all().filter_map(Control::says).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn learned(&self) -> Profile {
        self.all().flat_map(Control::learned).collect()
    }

    fn measured(&self, tell: &mut dyn FnMut(u32, &[f64])) {
        self.all().for_each(|control| control.measured(tell));
    }

    fn placed(&self) -> Vec<(u32, usize)> {
        self.all().flat_map(Control::placed).collect()
    }
}
