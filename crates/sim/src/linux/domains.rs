// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling domains: around each CPU its core, its cache, its node, the machine.
//!
//! As in the kernel a level that adds no CPU is left out, and a domain's groups are the domains of
//! the level below.

use machine::{Cpu, CpuSet, Machine};

use crate::ids::CpuId;

/// The resource that the CPUs of a domain share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// A core: SMT.
    Core,
    /// A last-level cache: MC.
    Cache,
    /// A node: CPU, later PKG.
    Node,
    /// The machine, if it has several nodes: NUMA.
    Machine,
}

/// A domain; CPUs of one span share it.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub level: Level,
    pub span: CpuSet,
    pub groups: Vec<CpuSet>,
}

/// All domains of a machine.
#[derive(Clone, Debug)]
pub(super) struct Domains {
    pub all: Vec<Domain>,
    /// By CPU, the narrowest first.
    of: Vec<Vec<usize>>,
}

/// A CPU's place on one level.
type Place = fn(&Cpu) -> u16;

const LEVELS: [(Level, Place); 4] = [
    (Level::Core, |cpu| cpu.core),
    (Level::Cache, |cpu| cpu.llc),
    (Level::Node, |cpu| cpu.node),
    (Level::Machine, |_| 0),
];

impl Domains {
    pub fn new(machine: &Machine) -> Self {
        let cpus = machine.cpus.len();
        let mut domains = Domains { all: Vec::new(), of: vec![Vec::new(); cpus] };
        for (level, place) in LEVELS {
            let span_of = |cpu: CpuId| -> CpuSet {
                let here = place(&machine.cpus[cpu]);
                (0..cpus).filter(|other| place(&machine.cpus[*other]) == here).collect()
            };
            for cpu in 0..cpus {
                let span = span_of(cpu);
                if span.lowest() == Some(cpu) {
                    domains.add(level, span);
                }
            }
        }
        domains
    }

    fn add(&mut self, level: Level, span: CpuSet) {
        let child_of = |cpu: CpuId| match self.of[cpu].last() {
            Some(domain) => self.all[*domain].span,
            None => [cpu].into_iter().collect(),
        };
        let mut groups: Vec<CpuSet> = Vec::new();
        for cpu in span.iter() {
            if !groups.iter().any(|group| group.has(cpu)) {
                groups.push(child_of(cpu));
            }
        }
        if groups.len() < 2 {
            return;
        }
        let index = self.all.len();
        self.all.push(Domain { level, span, groups });
        span.iter().for_each(|cpu| self.of[cpu].push(index));
    }

    /// Indices of the domains around a CPU, the narrowest first.
    pub fn around(&self, cpu: CpuId) -> &[usize] {
        &self.of[cpu]
    }

    /// `imb_numa_nr` of a domain of nodes: how many tasks may run on one node while others are idle. A few if a node
    /// has one cache, and one for each cache if it has several.
    pub fn numa_allowed(&self, domain: usize) -> usize {
        let node = self.all[domain].groups.first().map_or(CpuSet::EMPTY, |group| *group);
        let cache = node.lowest().and_then(|cpu| self.cache(cpu)).map_or(1, |it| it.span.len());
        let caches = node.len() / cache.max(1);
        if caches > 1 { caches } else { (node.len() >> 3).max(1) }
    }

    /// The widest domain around a CPU in which all CPUs share a cache.
    pub fn cache(&self, cpu: CpuId) -> Option<&Domain> {
        let sharing = self.of[cpu].iter().map(|domain| &self.all[*domain]);
        sharing.rev().find(|domain| domain.level <= Level::Cache)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(name: &str) -> Vec<(Level, usize, usize)> {
        let domains = Domains::new(&machine::find(name).unwrap());
        let shape = |domain: &usize| {
            let domain = &domains.all[*domain];
            (domain.level, domain.span.len(), domain.groups.len())
        };
        domains.around(0).iter().map(shape).collect()
    }

    #[test]
    fn levels_that_add_no_cpu_are_left_out() {
        assert_eq!(levels("xeon-phi-31s1p"), [(Level::Core, 4, 4), (Level::Node, 228, 57)]);
        assert_eq!(levels("xeon-e5-2699"), [(Level::Core, 2, 2), (Level::Cache, 36, 18)]);
        assert_eq!(levels("numa-2x4"), [(Level::Cache, 4, 4), (Level::Machine, 8, 2)]);
    }

    #[test]
    fn groups_part_their_domain() {
        for name in machine::names() {
            for domain in Domains::new(&machine::find(name).unwrap()).all {
                let sum: usize = domain.groups.iter().map(CpuSet::len).sum();
                assert_eq!(sum, domain.span.len());
                assert!(domain.groups.iter().all(|group| group.within(&domain.span)));
            }
        }
    }

    #[test]
    fn few_may_stay_on_a_node_of_one_cache_and_one_under_each_of_several() {
        let allowed = |name: &str| {
            let domains = Domains::new(&machine::find(name).unwrap());
            domains.numa_allowed(*domains.around(0).last().unwrap())
        };
        assert_eq!(allowed("numa-2x4"), 1);
        assert_eq!(allowed("opteron-8356"), 1, "of four CPUs");
    }

    #[test]
    fn a_core_of_its_own_is_a_cache_of_its_own() {
        let domains = Domains::new(&machine::find("xeon-phi-31s1p").unwrap());
        assert_eq!(domains.cache(5).unwrap().span.iter().collect::<Vec<_>>(), [4, 5, 6, 7]);
    }
}
