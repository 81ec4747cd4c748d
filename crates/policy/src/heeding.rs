// SPDX-License-Identifier: GPL-2.0-only
//! A control plane that also keeps cgroups' limits.

use crate::{Binds, Control, Limits, Profile, Sources, View};

/// Gives a control plane the limits of cgroups beside what it does.
pub fn heeding_limits(own: Box<dyn Control>) -> Box<dyn Control> {
    Box::new(Heeding { own, due_ns: [0; 2], limits: Limits::default() })
}

struct Heeding {
    own: Box<dyn Control>,
    /// When each is to be called next, ns.
    due_ns: [u64; 2],
    limits: Limits,
}

impl Control for Heeding {
    fn step(&mut self, view: &View<'_>) -> u64 {
        let both: [&mut dyn Control; 2] = [&mut *self.own, &mut self.limits];
        for (control, due_ns) in both.into_iter().zip(&mut self.due_ns) {
            if *due_ns <= view.now_ns {
                *due_ns = view.now_ns + control.step(view);
            }
        }
        self.due_ns[0].min(self.due_ns[1]) - view.now_ns
    }

    fn binds(&self) -> Binds {
        self.own.binds()
    }

    fn sources(&self) -> Sources {
        self.own.sources()
    }

    fn says(&self) -> Option<String> {
        let both: Vec<String> =
            [self.own.says(), self.limits.says()].into_iter().flatten().collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    fn learned(&self) -> Profile {
        self.own.learned()
    }

    fn measured(&self, tell: &mut dyn FnMut(u32, &[f64])) {
        self.own.measured(tell);
    }

    fn placed(&self) -> Vec<(u32, usize)> {
        self.own.placed()
    }
}
