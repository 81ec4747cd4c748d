// SPDX-License-Identifier: GPL-2.0-only
//! Checkers: what a run must keep, watched from outside the scheduler.

use trace::Event;

/// Something that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which checker says so.
    pub checker: &'static str,
    /// When it was first seen.
    pub t_ns: u64,
    /// What was not kept.
    pub what: String,
}

/// Watches a run.
pub(crate) trait Checker {
    /// Its name.
    fn name(&self) -> &'static str;
    /// An event, in the order of time.
    fn event(&mut self, event: &Event) -> Result<(), String>;
    /// The end.
    fn finish(&mut self, _t_ns: u64) -> Result<(), String> {
        Ok(())
    }
}

/// All checkers of a run.
#[derive(Default)]
pub(crate) struct Checkers {
    checkers: Vec<Box<dyn Checker>>,
    pub violations: Vec<Violation>,
}

impl Checkers {
    pub fn add(&mut self, checker: impl Checker + 'static) {
        self.checkers.push(Box::new(checker));
    }

    pub fn event(&mut self, event: &Event) {
        self.ask(event.t_ns, |checker| checker.event(event));
    }

    pub fn finish(&mut self, t_ns: u64) {
        self.ask(t_ns, |checker| checker.finish(t_ns));
    }

    /// A checker that has complained once is asked no more.
    fn ask(&mut self, t_ns: u64, ask: impl Fn(&mut dyn Checker) -> Result<(), String>) {
        let violations = &mut self.violations;
        self.checkers.retain_mut(|checker| match ask(checker.as_mut()) {
            Ok(()) => true,
            Err(what) => {
                violations.push(Violation { checker: checker.name(), t_ns, what });
                false
            }
        });
    }
}
