// SPDX-License-Identifier: GPL-2.0-only
//! Which policy is to be in charge: a pure state machine. The policies are the rungs of a ladder, the preferred one at
//! the top, and Linux's own class is the ground below it. A policy that fails is left alone for a time that doubles with
//! each failure; meanwhile the next one is in charge. A policy that an administrator chose goes before all rungs.

use std::collections::BTreeMap;
use std::time::Duration;

use comparison::contender::instance;
use serde::{Deserialize, Serialize};
use terminal::Failure;

/// The name of Linux's own class where a policy is named.
pub const CLASS: &str = "default";

/// What is in charge of the tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A policy, by its name with its knobs.
    Policy(String),
    /// Linux's own class.
    #[default]
    Class,
}

impl Place {
    /// `default`, or a policy with its knobs.
    pub fn named(name: &str) -> Result<Self, Failure> {
        match name {
            CLASS => Ok(Place::Class),
            _ => Ok(Place::Policy(instance(name)?.label)),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Place::Policy(label) => label,
            Place::Class => CLASS,
        }
    }
}

/// How often a policy failed, and when it may be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Failures in a row.
    pub count: u32,
    /// No earlier than this is it loaded again, s since 1970.
    pub not_before_s: u64,
    /// The last failure's reason, in the kernel's words where it gave one.
    pub why: String,
}

/// Times of a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A policy that fails sooner than this after it was loaded makes room for the one before it.
    pub grace: Duration,
    /// How long a policy is left alone after its first failure. It doubles with each one.
    pub backoff: Duration,
    /// The longest that a policy is left alone.
    pub longest_backoff: Duration,
}

/// How long a policy is left alone that the machine lets not be loaded.
const HINDERED: Duration = Duration::from_secs(60);

/// What an administrator chose.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    place: Place,
    /// The choice in force before. It returns if this one fails at once, or within its grace time.
    before: Option<Place>,
}

/// The state.
#[derive(Clone, Debug)]
pub struct Ladder {
    rungs: Vec<String>,
    times: Times,
    faults: BTreeMap<String, Fault>,
    chosen: Option<Choice>,
    /// What the power profile puts before the rungs.
    preferred: Option<Place>,
    /// What is in charge, and since when, s since 1970.
    in_charge: (Place, u64),
}

impl Ladder {
    /// A ladder with Linux's own class in charge. `faults` are those of an earlier life.
    pub fn new(
        rungs: Vec<String>,
        times: Times,
        faults: BTreeMap<String, Fault>,
        now_s: u64,
    ) -> Self {
        let in_charge = (Place::Class, now_s);
        Ladder { rungs, times, faults, chosen: None, preferred: None, in_charge }
    }

    /// What should be in charge now.
    pub fn wanted(&self, now_s: u64) -> Place {
        if let Some(chosen) = &self.chosen {
            return chosen.place.clone();
        }
        if let Some(preferred) = &self.preferred {
            match preferred {
                Place::Policy(label) if self.is_left_alone(label, now_s) => {}
                place => return place.clone(),
            }
        }
        let free = self.rungs.iter().find(|rung| !self.is_left_alone(rung, now_s));
        free.map_or(Place::Class, |rung| Place::Policy(rung.clone()))
    }

    /// What is in charge.
    pub fn in_charge(&self) -> &Place {
        &self.in_charge.0
    }

    /// An administrator's choice goes before the rungs, until it fails or [`Ladder::follow`] is called.
    pub fn choose(&mut self, place: Place) {
        if let Place::Policy(label) = &place {
            self.faults.remove(label);
        }
        let before = match self.chosen.take() {
            Some(same) if same.place == place => same.before,
            other => other.map(|other| other.place),
        };
        self.chosen = Some(Choice { place, before });
    }

    /// What the power profile puts before the rungs. An administrator's choice goes before it.
    pub fn prefer(&mut self, place: Option<Place>) {
        self.preferred = place;
    }

    /// The policy in charge has other knobs since an administrator changed them.
    pub fn adjusted(&mut self, label: String) {
        let place = Place::Policy(label);
        self.in_charge.0 = place.clone();
        let before = self.chosen.take().and_then(|chosen| chosen.before);
        self.chosen = Some(Choice { place, before });
    }

    /// What an administrator chose, if that is in force.
    pub fn chosen(&self) -> Option<&Place> {
        self.chosen.as_ref().map(|chosen| &chosen.place)
    }

    /// New rungs and times. They are followed at once: what was chosen, and earlier failures, are forgotten.
    pub fn follow(&mut self, rungs: Vec<String>, times: Times) {
        (self.rungs, self.times, self.chosen) = (rungs, times, None);
        self.faults.clear();
    }

    /// A policy was loaded, or Linux's own class is in charge.
    pub fn took_over(&mut self, place: Place, now_s: u64) {
        self.in_charge = (place, now_s);
    }

    /// Since when it is in charge, s since 1970.
    pub fn since_s(&self) -> u64 {
        self.in_charge.1
    }

    /// The policy in charge, if it is still within its grace time.
    pub fn on_trial(&self, now_s: u64) -> Option<&str> {
        match &self.in_charge {
            (Place::Policy(label), since_s) => {
                let is_new = now_s.saturating_sub(*since_s) < self.times.grace.as_secs();
                is_new.then_some(label)
            }
            _ => None,
        }
    }

    /// A policy could not be loaded, or the kernel ejected it, or it ended otherwise than it was told to. If it was in
    /// charge, Linux's own class is now. Returns how long it is left alone.
    pub fn failed(&mut self, label: &str, why: String, now_s: u64) -> Duration {
        let own = Place::Policy(label.to_string());
        let was_in_charge = self.in_charge.0 == own;
        let ran_s = if was_in_charge { now_s.saturating_sub(self.in_charge.1) } else { 0 };
        let earlier = self.faults.get(label).map_or(0, |fault| fault.count);
        // One that worked for as long as it would be left alone begins anew.
        let count = if ran_s >= self.backoff(earlier.max(1)).as_secs() { 1 } else { earlier + 1 };
        let pause = self.backoff(count);
        let not_before_s = now_s + pause.as_secs();
        self.faults.insert(label.to_string(), Fault { count, not_before_s, why });
        if let Some(chosen) = self.chosen.take_if(|chosen| chosen.place == own) {
            let early = !was_in_charge || ran_s < self.times.grace.as_secs();
            let before = chosen.before.filter(|_| early);
            self.chosen = before.map(|place| Choice { place, before: None });
        }
        if was_in_charge {
            self.in_charge = (Place::Class, now_s);
        }
        pause
    }

    /// The machine lets no such policy be loaded now, which is no fault of the policy: it is tried again soon. Returns
    /// whether that is news.
    pub fn hindered(&mut self, label: &str, why: String, now_s: u64) -> bool {
        let earlier = self.faults.get(label);
        let is_news = earlier.is_none_or(|fault| fault.why != why);
        let count = earlier.map_or(0, |fault| fault.count);
        let not_before_s = now_s + HINDERED.min(self.times.backoff).as_secs();
        self.faults.insert(label.to_string(), Fault { count, not_before_s, why });
        let own = Place::Policy(label.to_string());
        if let Some(chosen) = self.chosen.take_if(|chosen| chosen.place == own) {
            self.chosen = chosen.before.map(|place| Choice { place, before: None });
        }
        is_news
    }

    /// Failures by policy.
    pub fn faults(&self) -> &BTreeMap<String, Fault> {
        &self.faults
    }

    /// Forgets policies that are due again and are no rung.
    pub fn forget_old(&mut self, now_s: u64) {
        let Ladder { faults, rungs, .. } = self;
        faults.retain(|label, fault| rungs.contains(label) || now_s < fault.not_before_s);
    }

    fn backoff(&self, count: u32) -> Duration {
        let times = 1_u32.checked_shl(count.saturating_sub(1)).unwrap_or(u32::MAX);
        self.times.backoff.saturating_mul(times).min(self.times.longest_backoff)
    }

    /// A clock that was set back does not prolong a pause beyond the longest one.
    fn is_left_alone(&self, label: &str, now_s: u64) -> bool {
        self.faults.get(label).is_some_and(|fault| {
            let left_s = fault.not_before_s.saturating_sub(now_s);
            0 < left_s && left_s <= self.times.longest_backoff.as_secs()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMES: Times = Times {
        grace: Duration::from_secs(30),
        backoff: Duration::from_secs(600),
        longest_backoff: Duration::from_secs(86400),
    };

    fn ladder(rungs: &[&str]) -> Ladder {
        let rungs = rungs.iter().map(|rung| rung.to_string()).collect();
        Ladder::new(rungs, TIMES, BTreeMap::new(), 0)
    }

    fn policy(name: &str) -> Place {
        Place::Policy(name.to_string())
    }

    /// Each policy named in `ejected_after_s` is ejected so long after it was loaded. Returns the loads, by second.
    fn run(
        ladder: &mut Ladder,
        ejected_after_s: &[(&str, u64)],
        from_s: u64,
        to_s: u64,
    ) -> Vec<(u64, Place)> {
        let mut loads = Vec::new();
        let mut since_s = from_s;
        for now_s in from_s..to_s {
            if let Place::Policy(label) = ladder.in_charge().clone() {
                let after = ejected_after_s.iter().find(|(name, _)| *name == label);
                if after.is_some_and(|(_, after_s)| now_s - since_s >= *after_s) {
                    ladder.failed(&label, "stall".into(), now_s);
                }
            }
            let wanted = ladder.wanted(now_s);
            if wanted != *ladder.in_charge() {
                ladder.took_over(wanted.clone(), now_s);
                since_s = now_s;
                loads.push((now_s, wanted));
            }
        }
        loads
    }

    #[test]
    fn the_next_policy_is_in_charge_while_one_is_left_alone() {
        let mut ladder = ladder(&["a", "b"]);
        let loads = run(&mut ladder, &[("a", 5)], 0, 4000);
        let wanted = [(0, "a"), (5, "b"), (605, "a"), (610, "b"), (1810, "a"), (1815, "b")];
        assert_eq!(loads, wanted.map(|(at, name)| (at, policy(name))));
        assert_eq!(ladder.faults()["a"].count, 3);
    }

    #[test]
    fn after_the_last_policy_comes_the_own_class() {
        let mut ladder = ladder(&["a", "b"]);
        let loads = run(&mut ladder, &[("a", 5), ("b", 5)], 0, 600);
        assert_eq!(loads, [(0, policy("a")), (5, policy("b"))]);
        assert_eq!(*ladder.in_charge(), Place::Class);
    }

    #[test]
    fn a_policy_that_worked_for_long_begins_anew() {
        let mut ladder = ladder(&["a"]);
        let loads = run(&mut ladder, &[("a", 5000)], 0, 20_000);
        let at: Vec<u64> =
            loads.iter().filter(|(_, it)| *it == policy("a")).map(|it| it.0).collect();
        assert_eq!(at, [0, 5600, 11_200, 16_800]);
    }

    #[test]
    fn a_choice_goes_before_the_rungs_and_what_was_before_returns_if_it_fails_early() {
        let mut ladder = ladder(&["a"]);
        run(&mut ladder, &[], 0, 10);
        ladder.choose(policy("b"));
        assert_eq!(run(&mut ladder, &[], 10, 20), [(10, policy("b"))]);
        ladder.choose(policy("c"));
        ladder.took_over(policy("c"), 20);
        assert_eq!((ladder.on_trial(49), ladder.on_trial(50)), (Some("c"), None));
        ladder.failed("c", "stall".into(), 49);
        assert_eq!(ladder.wanted(49), policy("b"), "the choice before");
        ladder.took_over(policy("b"), 49);
        ladder.failed("b", "stall".into(), 5000);
        assert_eq!(ladder.wanted(5000), policy("a"), "it had its grace time: the rungs follow");
        ladder.choose(Place::Class);
        assert_eq!(ladder.wanted(9000), Place::Class);
        ladder.follow(vec!["a".into()], TIMES);
        assert_eq!(ladder.wanted(9000), policy("a"));
    }

    #[test]
    fn a_choice_that_cannot_be_loaded_leaves_the_one_before() {
        let mut ladder = ladder(&["a"]);
        ladder.choose(policy("b"));
        run(&mut ladder, &[], 0, 100);
        ladder.choose(policy("c"));
        ladder.failed("c", "refused".into(), 100);
        assert_eq!((ladder.wanted(100), ladder.in_charge()), (policy("b"), &policy("b")));
        ladder.adjusted("b:slice=5ms".into());
        assert_eq!(ladder.wanted(100), *ladder.in_charge());
        ladder.failed("b:slice=5ms", "stall".into(), 101);
        assert_eq!(ladder.wanted(101), policy("a"));
    }

    #[test]
    fn the_choice_before_outlasts_a_repeated_choice_and_a_knob() {
        let mut ladder = ladder(&["a"]);
        ladder.choose(policy("b"));
        run(&mut ladder, &[], 0, 100);
        ladder.choose(policy("c"));
        ladder.took_over(policy("c"), 100);
        ladder.choose(policy("c"));
        ladder.adjusted("c:slice=5ms".into());
        ladder.failed("c:slice=5ms", "stall".into(), 101);
        assert_eq!(ladder.wanted(101), policy("b"));
    }

    #[test]
    fn what_the_machine_does_not_permit_is_tried_each_minute_and_doubles_nothing() {
        let mut ladder = ladder(&["a", "b"]);
        assert!(ladder.hindered("a", "a cookie".into(), 0));
        assert_eq!((ladder.wanted(59), ladder.wanted(60)), (policy("b"), policy("a")));
        assert!(!ladder.hindered("a", "a cookie".into(), 60), "it is known");
        assert_eq!((ladder.wanted(119), ladder.wanted(120)), (policy("b"), policy("a")));
        ladder.took_over(policy("a"), 120);
        assert_eq!(ladder.failed("a", "stall".into(), 121), TIMES.backoff);
        ladder.choose(policy("c"));
        ladder.hindered("c", "a cookie".into(), 122);
        assert_eq!(ladder.chosen(), None);
    }

    #[test]
    fn what_a_power_profile_prefers_is_between_the_choice_and_the_rungs() {
        let mut ladder = ladder(&["a"]);
        ladder.prefer(Some(policy("b")));
        assert_eq!(run(&mut ladder, &[("b", 5)], 0, 10), [(0, policy("b")), (5, policy("a"))]);
        assert_eq!(ladder.wanted(605), policy("b"), "its pause is over");
        ladder.choose(policy("c"));
        assert_eq!(ladder.wanted(700), policy("c"));
        ladder.prefer(Some(Place::Class));
        assert_eq!(ladder.wanted(700), policy("c"));
        ladder.follow(vec!["a".into()], TIMES);
        assert_eq!(ladder.wanted(700), Place::Class);
        ladder.prefer(None);
        assert_eq!(ladder.wanted(700), policy("a"));
    }

    #[test]
    fn a_choice_that_is_chosen_again_is_tried_at_once() {
        let mut ladder = ladder(&["a"]);
        run(&mut ladder, &[("a", 5)], 0, 10);
        assert_eq!(ladder.wanted(10), Place::Class);
        ladder.choose(policy("a"));
        assert_eq!(ladder.wanted(10), policy("a"));
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_nothing_alone_for_ever() {
        let mut ladder = ladder(&["a"]);
        run(&mut ladder, &[("a", 5)], 1_000_000, 1_000_010);
        assert_eq!(ladder.wanted(10), policy("a"));
    }

    #[test]
    fn many_failures_are_no_overflow() {
        let mut ladder = ladder(&["a"]);
        for now_s in 0..100 {
            ladder.failed("a", "stall".into(), now_s);
        }
        assert_eq!(ladder.faults()["a"].not_before_s, 99 + 86400);
    }

    proptest! {
        /// However soon policies are ejected, there are no more than three loads in ten minutes for two policies, and
        /// one of them, or Linux's own class, is in charge at any time.
        #[test]
        fn it_does_not_flap(first in 1_u64..2000, second in prop::option::of(1_u64..2000)) {
            let mut ladder = ladder(&["a", "b"]);
            let mut fails = vec![("a", first)];
            fails.extend(second.map(|after_s| ("b", after_s)));
            let loads = run(&mut ladder, &fails, 0, 20_000);
            let at: Vec<u64> = loads.iter().filter(|(_, it)| *it != Place::Class).map(|it| it.0).collect();
            for window in at.windows(4) {
                prop_assert!(window[3] - window[0] > 600, "{window:?}");
            }
        }
    }
}
