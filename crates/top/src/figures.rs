// SPDX-License-Identifier: GPL-2.0-only
//! Figures of the time between two readings of the meter.

use std::collections::BTreeMap;

use live::{Cpu, Reading, Table, Use};
use policy::Topology;
use serde::Serialize;
use service::status::Status;

/// All that is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// The meter's sums.
    pub reading: Reading,
    /// The scheduler in charge; `default` is Linux's own class.
    pub scheduler: String,
    /// The service's state, if it runs.
    pub status: Option<Status>,
    /// Energy so far, J, by the part of the machine.
    pub energy: BTreeMap<String, f64>,
}

/// What happened between two moments.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Time between both, s.
    pub span_s: f64,
    /// The scheduler in charge at the second one; `default` is Linux's own class.
    pub scheduler: String,
    /// By number.
    pub cpus: Vec<CpuFigures>,
    /// CPUs of one kind of core on one memory node.
    pub places: Vec<Place>,
    /// The busiest first.
    pub cgroups: Vec<UseFigures>,
    /// The busiest first.
    pub programs: Vec<UseFigures>,
    /// What the policy counts, each second. Empty: the service does not run, or its policy counts nothing.
    pub counts_per_s: BTreeMap<String, f64>,
    /// Power of the parts of the machine, W. None: the machine has no such counters.
    pub power_w: Option<BTreeMap<String, f64>>,
    /// The service's state, if it runs.
    pub service: Option<Status>,
}

/// A CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CpuFigures {
    /// Its number.
    pub cpu: usize,
    /// Its kind of core; 0 is the fastest.
    pub kind: u16,
    /// Its memory node.
    pub node: u16,
    /// The part of the time in which it had a task.
    pub busy: f64,
    /// Switches each second.
    pub switches_per_s: f64,
    /// Switches each second from a task that could have gone on.
    pub preemptions_per_s: f64,
    /// Tasks each second that came from another CPU.
    pub migrations_per_s: f64,
    /// What runs on it now; None: nothing, or nothing that has switched since the meter began.
    pub task: Option<TaskFigures>,
}

/// A task that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskFigures {
    /// The kernel's number of it.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Its process's name.
    pub program: String,
    /// How long it has run, s.
    pub for_s: f64,
}

/// CPUs of one kind of core on one memory node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Place {
    /// The kind of core; 0 is the fastest.
    pub kind: u16,
    /// The memory node.
    pub node: u16,
    /// How many.
    pub cpus: usize,
    /// The part of their time in which they had tasks.
    pub busy: f64,
}

/// A cgroup or a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UseFigures {
    /// Its path, or its name. All that has no name for want of room: [`REST`].
    pub name: String,
    /// CPU time for each second: 1 is a CPU.
    pub cpus: f64,
    /// Waits that ended each second.
    pub waits_per_s: f64,
    /// Half of the waits were no longer than this, s. None: there was none.
    pub wait_p50_s: Option<f64>,
    /// 99 of 100 waits were no longer than this, s.
    pub wait_p99_s: Option<f64>,
}

/// The name of all that has no name of its own.
pub const REST: &str = "(others)";

impl Figures {
    /// Of the time from one moment to another.
    pub fn between(before: &Moment, now: &Moment, topology: &Topology) -> Self {
        let span_s = now.reading.at_ns.saturating_sub(before.reading.at_ns).max(1) as f64 / 1e9;
        let none = Cpu::default();
        let cpus: Vec<CpuFigures> = now
            .reading
            .cpus
            .iter()
            .map(|(cpu, of)| {
                let was = before.reading.cpus.get(cpu).unwrap_or(&none);
                cpu_figures(*cpu, of, was, topology, span_s)
            })
            .collect();
        let (was, is) = (&before.reading, &now.reading);
        Figures {
            span_s,
            scheduler: now.scheduler.clone(),
            places: places(&cpus),
            cpus,
            cgroups: uses(&is.cgroups, &was.cgroups, span_s),
            programs: uses(&is.programs, &was.programs, span_s),
            counts_per_s: counts(before.status.as_ref(), now.status.as_ref(), span_s),
            power_w: (!now.energy.is_empty()).then(|| each(&now.energy, &before.energy, span_s)),
            service: now.status.clone(),
        }
    }

    /// The part of all CPUs' time in which they had tasks.
    pub fn busy(&self) -> f64 {
        let sum: f64 = self.cpus.iter().map(|cpu| cpu.busy).sum();
        sum / self.cpus.len().max(1) as f64
    }

    /// A sum over all CPUs.
    pub fn sum(&self, of: impl Fn(&CpuFigures) -> f64) -> f64 {
        self.cpus.iter().map(of).sum()
    }
}

fn cpu_figures(cpu: usize, of: &Cpu, was: &Cpu, topology: &Topology, span_s: f64) -> CpuFigures {
    let at = |table: &[u16]| table.get(cpu).copied().unwrap_or(0);
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span_s;
    CpuFigures {
        cpu,
        kind: at(&topology.core_type),
        node: at(&topology.node),
        // Its looks are not taken in the very same moment as the span's.
        busy: (rate(of.busy_ns, was.busy_ns) / 1e9).min(1.0),
        switches_per_s: rate(of.switches, was.switches),
        preemptions_per_s: rate(of.preemptions, was.preemptions),
        migrations_per_s: rate(of.migrations, was.migrations),
        task: of.task.as_ref().map(|task| TaskFigures {
            tid: task.tid,
            name: task.name.clone(),
            program: task.program.clone(),
            for_s: task.for_ns as f64 / 1e9,
        }),
    }
}

fn places(cpus: &[CpuFigures]) -> Vec<Place> {
    let mut sums = BTreeMap::<(u16, u16), (usize, f64)>::new();
    for cpu in cpus {
        let sum = sums.entry((cpu.kind, cpu.node)).or_default();
        *sum = (sum.0 + 1, sum.1 + cpu.busy);
    }
    let place = |((kind, node), (cpus, busy))| Place { kind, node, cpus, busy: busy / cpus as f64 };
    sums.into_iter().map(place).collect()
}

fn uses(now: &Table, before: &Table, span_s: f64) -> Vec<UseFigures> {
    let none = Use::default();
    let named = now.of.iter().map(|(name, of)| (name, of, before.of.get(name).unwrap_or(&none)));
    let figures = |name: &str, of: &Use, was: &Use| {
        let more = of.since(was);
        let wait_s = |part| more.quantile_ns(part).map(|ns| ns / 1e9);
        UseFigures {
            name: name.to_string(),
            cpus: more.run_ns as f64 / 1e9 / span_s,
            waits_per_s: more.waits as f64 / span_s,
            wait_p50_s: wait_s(0.5),
            wait_p99_s: wait_s(0.99),
        }
    };
    let mut all: Vec<UseFigures> = named.map(|(name, of, was)| figures(name, of, was)).collect();
    all.retain(|of| of.cpus > 0.0 || of.waits_per_s > 0.0);
    all.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    let rest = now.rest.as_ref();
    all.extend(rest.map(|rest| figures(REST, rest, before.rest.as_ref().unwrap_or(&none))));
    all
}

/// Counters of a policy each second; nothing if it is another one than before, for its counters begin at 0.
fn counts(before: Option<&Status>, now: Option<&Status>, span_s: f64) -> BTreeMap<String, f64> {
    let (Some(before), Some(now)) = (before, now) else { return BTreeMap::new() };
    match before.loads == now.loads {
        true => each(&now.counts, &before.counts, span_s),
        false => BTreeMap::new(),
    }
}

fn each(
    now: &BTreeMap<String, f64>,
    before: &BTreeMap<String, f64>,
    span_s: f64,
) -> BTreeMap<String, f64> {
    let rate = |(name, value): (&String, &f64)| {
        let was = before.get(name).copied().unwrap_or(0.0);
        (name.clone(), (value - was).max(0.0) / span_s)
    };
    now.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_s: u64, busy_s: [u64; 2], waits: u64) -> Moment {
        let cpu = |busy_s: u64| Cpu {
            busy_ns: busy_s * 1_000_000_000,
            switches: 10 * busy_s,
            ..Cpu::default()
        };
        let mut of = Use { run_ns: busy_s[0] * 1_000_000_000, waits, ..Use::default() };
        of.buckets[20] = waits;
        let table = Table {
            of: [("/web".to_string(), of), ("/idle".to_string(), Use::default())].into(),
            ..Table::default()
        };
        let reading = Reading {
            at_ns: at_s * 1_000_000_000,
            cpus: busy_s.map(cpu).into_iter().enumerate().collect(),
            cgroups: table,
            ..Reading::default()
        };
        let status = Status {
            counts: [("refunded_ns".to_string(), waits as f64)].into(),
            loads: 1,
            ..Status::default()
        };
        Moment { reading, scheduler: "cas".into(), status: Some(status), energy: BTreeMap::new() }
    }

    fn two() -> Topology {
        Topology { core_type: vec![0, 1], node: vec![0, 0], ..Topology::default() }
    }

    #[test]
    fn figures_are_of_the_time_between_two_moments() {
        let figures = Figures::between(&moment(10, [3, 0], 100), &moment(14, [7, 2], 140), &two());
        assert_eq!((figures.span_s, figures.busy()), (4.0, 0.75));
        assert_eq!(figures.places.iter().map(|place| place.busy).collect::<Vec<_>>(), [1.0, 0.5]);
        assert_eq!(figures.cpus[1].switches_per_s, 5.0);
        let [web] = &figures.cgroups[..] else { panic!("{:?}", figures.cgroups) };
        assert_eq!((web.cpus, web.waits_per_s), (1.0, 10.0));
        assert!(web.wait_p99_s.is_some_and(|wait_s| wait_s > web.wait_p50_s.unwrap()));
        assert_eq!(figures.counts_per_s["refunded_ns"], 10.0);
        assert_eq!(figures.power_w, None, "the machine has no counters of energy");
    }

    #[test]
    fn another_policy_begins_to_count_anew() {
        let (before, mut now) = (moment(10, [3, 0], 100), moment(14, [7, 2], 20));
        now.status.as_mut().unwrap().loads = 2;
        assert!(Figures::between(&before, &now, &two()).counts_per_s.is_empty());
    }
}
