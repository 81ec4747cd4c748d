// SPDX-License-Identifier: GPL-2.0-only
//! How loaded this machine is between two looks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;

use crate::kernel::FOLDER;

const STAT: &str = "/proc/stat";
/// Its file in sched_ext's folder.
const EVENTS: &str = "root/events";

/// Counters of the machine since boot, at one moment.
#[derive(Clone, Debug)]
pub struct Glance {
    at: Instant,
    busy: u64,
    all: u64,
    switches: u64,
    runnable: u64,
    events: BTreeMap<String, u64>,
}

/// The load between two looks.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// CPU time used, as a part of all CPU time.
    pub busy: f64,
    /// Context switches each second.
    pub switches_per_s: f64,
    /// Tasks that run or wait for a CPU, at the second look.
    pub runnable: u64,
    /// sched_ext's corrections (`SCX_EV_…`) and how often each happened; without those that did not.
    pub events: BTreeMap<String, u64>,
}

impl Glance {
    /// Reads the counters now.
    pub fn now() -> anyhow::Result<Self> {
        let text = fs::read_to_string(STAT).context(STAT)?;
        let events = fs::read_to_string(Path::new(FOLDER).join(EVENTS)).unwrap_or_default();
        Self::parse(&text, &events).with_context(|| format!("{STAT} is not as expected"))
    }

    fn parse(stat: &str, events: &str) -> Option<Self> {
        let row = |key: &str| {
            let line = stat.lines().find(|line| line.split(' ').next() == Some(key))?;
            let numbers = line[key.len()..].split_whitespace().map(|number| number.parse().ok());
            numbers.collect::<Option<Vec<u64>>>()
        };
        let times = row("cpu")?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already
        let all: u64 = times.iter().take(8).sum();
        let idle = times.get(3)? + times.get(4)?;
        let event = |line: &str| {
            let (name, count) = line.trim().rsplit_once(' ')?;
            Some((name.trim().to_string(), count.parse().ok()?))
        };
        Some(Glance {
            at: Instant::now(),
            busy: all - idle,
            all,
            switches: *row("ctxt")?.first()?,
            runnable: *row("procs_running")?.first()?,
            events: events.lines().filter_map(event).collect(),
        })
    }

    /// The load since an earlier look.
    pub fn since(&self, before: &Glance) -> Load {
        let passed = (self.at - before.at).as_secs_f64();
        let all = self.all.saturating_sub(before.all).max(1);
        let more = |(name, count): (&String, &u64)| {
            let more = count.saturating_sub(before.events.get(name).copied().unwrap_or(0));
            (more > 0).then(|| (name.clone(), more))
        };
        Load {
            busy: self.busy.saturating_sub(before.busy) as f64 / all as f64,
            switches_per_s: self.switches.saturating_sub(before.switches) as f64 / passed,
            runnable: self.runnable,
            events: self.events.iter().filter_map(more).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_what_happened_between_two_looks() {
        let look = |cpu: &str, switches: u64, events: &str| {
            let stat = format!(
                "cpu  {cpu}\ncpu0 1 2 3\nintr 5\nctxt {switches}\nbtime 1\nprocs_running 3\n"
            );
            Glance::parse(&stat, events).unwrap()
        };
        let before = look("10 0 10 70 10 0 0 0 5 5", 1000, "SCX_EV_A 1\nSCX_EV_B 0\n");
        let mut after = look("40 0 20 110 30 0 0 0 9 9", 3000, "SCX_EV_A 1\nSCX_EV_B 4\n");
        after.at = before.at + std::time::Duration::from_secs(2);
        let load = after.since(&before);
        assert_eq!((load.busy, load.switches_per_s, load.runnable), (0.4, 1000.0, 3));
        assert_eq!(load.events, [("SCX_EV_B".to_string(), 4)].into());
        assert!(Glance::parse("nonsense", "").is_none());
    }
}
