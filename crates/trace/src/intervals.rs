// SPDX-License-Identifier: GPL-2.0-only
//! Which thread had which CPU, from when to when.

use crate::{Event, IDLE, Kind, MmId, Tid};

/// A thread had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Which CPU.
    pub cpu: u32,
    /// Which thread.
    pub tid: Tid,
    /// Its address space; None: it had the CPU before anything was seen.
    pub mm: Option<MmId>,
    /// From when on, ns.
    pub from_ns: u64,
    /// Until when, ns.
    pub to_ns: u64,
}

/// All intervals of a run of `elapsed_ns`, in the order in which they ended. Idle intervals are left out.
pub fn intervals(events: &[Event], elapsed_ns: u64) -> Vec<Interval> {
    let mut open = std::collections::BTreeMap::<u32, Interval>::new();
    let mut all = Vec::new();
    for event in events {
        let Kind::Switch { prev, next, next_mm, .. } = event.kind else { continue };
        let (cpu, t_ns) = (event.cpu, event.t_ns);
        let before = || Interval { cpu, tid: prev, mm: None, from_ns: 0, to_ns: 0 };
        let ended = open.remove(&cpu).unwrap_or_else(before);
        all.extend((ended.tid != IDLE).then_some(Interval { to_ns: t_ns, ..ended }));
        open.insert(cpu, Interval { cpu, tid: next, mm: Some(next_mm), from_ns: t_ns, to_ns: 0 });
    }
    let last = open.into_values().filter(|open| open.tid != IDLE && open.from_ns < elapsed_ns);
    all.extend(last.map(|open| Interval { to_ns: elapsed_ns, ..open }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_belongs_to_a_thread_until_it_switches() {
        let switch = |t_ns, cpu, prev, next| Event {
            t_ns,
            cpu,
            kind: Kind::Switch { prev, next, prev_runnable: false, next_mm: 9 },
        };
        let events = [switch(5, 0, 3, IDLE), switch(7, 1, IDLE, 4), switch(8, 0, IDLE, 3)];
        let one = |cpu, tid, mm, from_ns, to_ns| Interval { cpu, tid, mm, from_ns, to_ns };
        let wanted = [one(0, 3, None, 0, 5), one(0, 3, Some(9), 8, 10), one(1, 4, Some(9), 7, 10)];
        assert_eq!(intervals(&events, 10), wanted);
    }
}
