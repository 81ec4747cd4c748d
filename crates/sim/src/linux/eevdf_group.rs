// SPDX-License-Identifier: GPL-2.0-only
//! Load of a group of CPUs, for balancing and for the placement of a new task: `struct sg_lb_stats`.

use std::cmp::Ordering;

use machine::CpuSet;

use super::domains::Level;
use super::eevdf::{Eevdf, Habit};
use crate::account::Func;
use crate::ids::TaskId;
use crate::kernel::Kernel;

/// Between nodes a difference of so many tasks is allowed if few run: `NUMA_IMBALANCE_MIN`.
const NUMA_IMBALANCE_MIN: usize = 2;

/// `enum group_type`, the part that is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    HasSpare,
    FullyBusy,
    /// A task has too little room on its CPU, or would have on each of these.
    Misfit,
    Overloaded,
}

/// `struct sg_lb_stats`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// The CPUs under consideration.
    pub cpus: CpuSet,
    /// Number of online CPUs in the whole group.
    pub weight: usize,
    pub kind: Kind,
    pub load: f64,
    pub util: f64,
    pub runnable: f64,
    /// The sum of its CPUs' capacities, less the time of real-time tasks.
    pub capacity: f64,
    /// The greatest and the least capacity of a CPU.
    pub most: f64,
    pub least: f64,
    /// The greatest load of a task that has too little room here; 0: none (`group_misfit_task_load`).
    pub misfit_load: f64,
    pub nr: usize,
    pub idle: usize,
}

impl Group {
    pub fn avg_load(&self) -> f64 {
        self.load * 1024.0 / self.capacity.max(1.0)
    }

    /// `update_sd_pick_busiest`.
    pub fn busier(&self, than: &Group) -> bool {
        match self.kind.cmp(&than.kind) {
            Ordering::Equal if self.kind == Kind::HasSpare => {
                (than.idle, self.nr) > (self.idle, than.nr)
            }
            Ordering::Equal if self.kind == Kind::Misfit => self.misfit_load > than.misfit_load,
            Ordering::Equal => self.avg_load() > than.avg_load(),
            order => order.is_gt(),
        }
    }

    /// `update_pick_idlest`.
    pub fn idler(&self, than: &Group) -> bool {
        match self.kind.cmp(&than.kind) {
            Ordering::Equal if self.kind == Kind::HasSpare => {
                self.idle > than.idle || self.idle == than.idle && self.util < than.util
            }
            Ordering::Equal if self.kind == Kind::Misfit => self.most > than.most,
            Ordering::Equal => self.avg_load() < than.avg_load(),
            order => order.is_lt(),
        }
    }

    /// `group_classify`.
    fn classify(&mut self, imbalance_pct: f64) {
        let lacks_util = self.capacity * 100.0 < self.util * imbalance_pct;
        let lacks_time = self.capacity * imbalance_pct < self.runnable * 100.0;
        let lacks = lacks_util || lacks_time;
        self.kind = match self.nr.cmp(&self.weight) {
            Ordering::Greater if lacks => Kind::Overloaded,
            _ if self.misfit_load > 0.0 => Kind::Misfit,
            Ordering::Less => Kind::HasSpare,
            _ if lacks || self.capacity * 100.0 == self.util * imbalance_pct => Kind::FullyBusy,
            _ => Kind::HasSpare,
        };
    }
}

/// `adjust_numa_imbalance`: the surplus of tasks on the other node, if `running` would run on this one.
pub(super) fn numa_imbalance(more: usize, running: usize, allowed: usize) -> usize {
    if running <= allowed && more <= NUMA_IMBALANCE_MIN { 0 } else { more }
}

impl Eevdf {
    /// `update_sg_lb_stats`: reads the runqueue of each of these CPUs of a group of a domain. For a task's placement it
    /// is `update_sg_wakeup_stats`, which leaves the task `without` out. `func` is charged for each CPU.
    pub(super) fn group_stats(
        &mut self,
        k: &mut Kernel,
        group: &CpuSet,
        of: &CpuSet,
        domain: usize,
        without: Option<TaskId>,
        func: Func,
    ) -> Group {
        let online = group.and(&k.online);
        let (most, least) = self.capacity.range(group);
        let mut stats = Group {
            cpus: online.and(of),
            weight: online.len(),
            kind: Kind::HasSpare,
            load: 0.0,
            util: 0.0,
            runnable: 0.0,
            capacity: 0.0,
            most,
            least,
            misfit_load: 0.0,
            nr: 0,
            idle: 0,
        };
        for cpu in online.iter() {
            stats.capacity += self.capacity_of(k, cpu);
        }
        if self.capacity.differs[domain] {
            stats.misfit_load = match without {
                Some(task) if online.iter().any(|cpu| self.has_room(k, cpu, task)) => 0.0,
                Some(_) => 1.0,
                None => stats.cpus.iter().map(|cpu| self.rqs[cpu].misfit_load).fold(0.0, f64::max),
            };
        }
        for cpu in stats.cpus.iter() {
            k.call(func);
            k.read(&mut self.rqs[cpu].line);
            self.update_cfs(k.now_ns(), cpu);
            self.update_blocked(k, cpu);
            let rq = &self.rqs[cpu];
            let mut avg = self.cfs[cpu].avg;
            let mut estimated = rq.estimated;
            let has = |cfs: usize| self.tree.cpu(cfs) == cpu;
            let own = without.filter(|task| self.habits[*task].cfs.is_some_and(has));
            let runs = own.is_some_and(|task| k.cpus[cpu].curr == Some(task));
            if let Some(task) = own {
                let Habit { avg: own, estimate, .. } = &self.habits[task];
                avg.sub(&own.with_load(self.h_load(task)));
                estimated -= if runs { estimate.util } else { 0.0 };
            }
            let nr = rq.runnable + usize::from(k.runs_realtime(cpu)) - usize::from(runs);
            stats.load += avg.load;
            // `cpu_util`
            stats.util += avg.util.max(estimated).min(1024.0);
            stats.runnable += avg.runnable;
            stats.nr += nr;
            stats.idle += usize::from((k.cpus[cpu].idle() || runs) && nr == 0);
        }
        stats.classify(self.imbalance_pct(domain) as f64);
        stats
    }

    /// `imbalance_pct`: more than this, of 100, is uneven.
    pub(super) fn imbalance_pct(&self, domain: usize) -> u64 {
        if self.domains.all[domain].level == Level::Core { 110 } else { 117 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(nr: usize, util: f64, runnable: f64) -> Group {
        let cpus = CpuSet::first(4);
        let (load, capacity, idle) = (0.0, 4096.0, 4_usize.saturating_sub(nr));
        let kind = Kind::HasSpare;
        let mut group = Group {
            cpus,
            weight: 4,
            kind,
            load,
            util,
            runnable,
            capacity,
            most: 1024.0,
            least: 1024.0,
            misfit_load: 0.0,
            nr,
            idle,
        };
        group.classify(117.0);
        group
    }

    #[test]
    fn a_group_is_full_by_what_its_tasks_ask_for_and_not_by_their_number() {
        let kinds = [group(3, 4096.0, 9000.0), group(6, 1000.0, 1000.0), group(4, 4000.0, 4000.0)];
        assert_eq!(
            kinds.map(|group| group.kind),
            [Kind::HasSpare, Kind::HasSpare, Kind::FullyBusy]
        );
        assert_eq!(group(5, 4000.0, 4000.0).kind, Kind::Overloaded);
        assert_eq!(group(5, 1000.0, 5000.0).kind, Kind::Overloaded, "they wait for each other");
    }

    #[test]
    fn of_two_as_idle_the_one_that_has_done_less_is_idler() {
        assert!(group(2, 500.0, 500.0).idler(&group(2, 600.0, 600.0)));
        assert!(!group(2, 600.0, 600.0).idler(&group(2, 500.0, 500.0)));
        assert!(group(1, 900.0, 900.0).idler(&group(2, 500.0, 500.0)));
        assert!(group(2, 500.0, 500.0).idler(&group(5, 4000.0, 4000.0)));
    }

    #[test]
    fn pair_may_stay_on_a_node_without_other_tasks() {
        assert_eq!(numa_imbalance(2, 1, 1), 0);
        assert_eq!(numa_imbalance(2, 2, 1), 2);
        assert_eq!(numa_imbalance(3, 1, 1), 3);
    }
}
