// SPDX-License-Identifier: GPL-2.0-only
//! A cgroup's tasks have no more CPU time than its `cpu.max`.
//!
//! In any span of time they have the limit's part of it, and at most what is listed at [`Quota::new`] more.

use std::collections::BTreeMap;

use machine::Machine;
use trace::{Event, IDLE, Kind, Tid};
use workload::{Max, Workload};

use super::checker::{Checker, Hint, in_flight_ns};
use crate::ids::tid;

/// A scheduler does not see the time that a switch takes, ns: of its own, and for each CPU that may hold a lock first.
const SWITCH_NS: f64 = 10_000.0;
const LOCK_NS: f64 = 2_000.0;
/// A policy knows of a new cgroup's limit within this time.
const KNOWN_NS: u64 = 200_000_000;

/// A limit and what its tasks have had.
struct Limit {
    path: String,
    /// In CPUs.
    rate: f64,
    /// How much more than that they may have at a time, ns.
    more_ns: f64,
    /// How much more they have had lately, ns: 0 once they have had less.
    had_ns: f64,
    /// How many of its tasks run.
    running: f64,
}

pub(super) struct Quota {
    limits: Vec<Limit>,
    /// Which limits each task is in.
    of: BTreeMap<Tid, Vec<usize>>,
    now_ns: u64,
    switch_ns: f64,
}

impl Quota {
    /// More than the limit are: what is left at the end of a period, a quota and its burst, and the whole quota of the
    /// next; less the limit of the time that all CPUs need for it. Also what runs until the next tick on each CPU: a
    /// policy takes it from the next period. Linux's own class also has up to `ahead_ns` in advance on each CPU, from an
    /// earlier period.
    pub fn new(machine: &Machine, workload: &Workload, ahead_ns: u64) -> Self {
        let late_ns = machine.costs.tick_period_ns + (in_flight_ns(machine) + ahead_ns) as f64;
        let cpus = machine.cpus.len() as f64;
        let limited = |(at, group): (usize, &workload::Group)| Some((at, group.max?));
        let found: Vec<(usize, Max)> =
            workload.groups.iter().enumerate().filter_map(limited).collect();
        let limits = found.iter().map(|(at, max)| {
            let rate = max.quota_us as f64 / max.period_us as f64;
            let at_once_ns = (2 * max.quota_us + max.burst_us) as f64 * 1e3;
            Limit {
                path: workload.groups[*at].path.clone(),
                rate,
                more_ns: at_once_ns * (1.0 - rate / cpus).max(0.0) + late_ns * cpus,
                had_ns: 0.0,
                running: 0.0,
            }
        });
        let of = |group: usize| {
            let holds = |(_, (at, _)): &(usize, &(usize, Max))| {
                workload.groups[group].is_within(&workload.groups[*at])
            };
            found.iter().enumerate().filter(holds).map(|(at, _)| at).collect()
        };
        let tasks = workload.tasks.iter().enumerate();
        let of = tasks.filter_map(|(at, task)| Some((tid(at), of(task.group?)))).collect();
        let switch_ns = SWITCH_NS + LOCK_NS * cpus;
        Quota { limits: limits.collect(), of, now_ns: 0, switch_ns }
    }

    fn count(&mut self, tid: Tid, by: f64) {
        for at in self.of.get(&tid).into_iter().flatten() {
            let limit = &mut self.limits[*at];
            limit.running += by;
            limit.had_ns = (limit.had_ns - self.switch_ns / 2.0).max(0.0);
        }
    }
}

impl Checker for Quota {
    fn name(&self) -> &'static str {
        "quota"
    }

    fn hint(&mut self, _: u64, _: u32, hint: Hint) {
        if hint == Hint::Regrouped {
            self.limits.clear();
            self.of.clear();
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let Kind::Switch { prev, next, .. } = event.kind else { return Ok(()) };
        let passed_ns = event.t_ns.saturating_sub(self.now_ns) as f64;
        self.now_ns = self.now_ns.max(event.t_ns);
        for limit in &mut self.limits {
            let more_ns = (limit.running - limit.rate) * passed_ns;
            limit.had_ns =
                if event.t_ns < KNOWN_NS { 0.0 } else { (limit.had_ns + more_ns).max(0.0) };
            if limit.had_ns > limit.more_ns {
                return Err(format!(
                    "{} had {:.1} ms more than its cpu.max: {:.1} were promised",
                    limit.path,
                    limit.had_ns / 1e6,
                    limit.more_ns / 1e6
                ));
            }
        }
        for (tid, by) in [(prev, -1.0), (next, 1.0)] {
            if tid != IDLE {
                self.count(tid, by);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use workload::{Group, Task};

    use super::super::testing::{say, switch};
    use super::*;

    const MS: u64 = 1_000_000;

    /// Two tasks of a group of half a CPU run for so long.
    fn both_run(ms: u64, group: &str) -> Result<(), String> {
        let max = Max { quota_us: 50_000, period_us: 100_000, burst_us: 0 };
        let limited = Group { max: Some(max), ..Group::new("/web") };
        let task = Task { group: Some(1), ..Task::default() };
        let workload = Workload {
            tasks: vec![task.clone(), task],
            groups: vec![limited, Group::new(group)],
            ..Workload::default()
        };
        let checker = Quota::new(&machine::find("plain-2").unwrap(), &workload, 0);
        let begin = [switch(KNOWN_NS, 0, IDLE, 1, false), switch(KNOWN_NS, 1, IDLE, 2, false)];
        let end = switch(KNOWN_NS + ms * MS, 0, 1, IDLE, true);
        say(checker, &[&begin[..], &[end]].concat())
    }

    #[test]
    fn tasks_that_run_for_longer_than_their_limit_are_found() {
        assert_eq!(both_run(30, "/web/workers"), Ok(()));
        assert!(both_run(60, "/web/workers").is_err());
        assert_eq!(both_run(60, "/webs"), Ok(()), "it is not in the group");
    }
}
