// SPDX-License-Identifier: GPL-2.0-only
//! Which task had each CPU over time, and how many tasks waited, at the resolution of a picture. Memory does not grow
//! with time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{IDLE, MmId, Tid};

/// Columns that a picture has at most.
const COLUMNS: usize = 512;
/// The time of the first so many threads of a column is summed up. Intervals of later threads count one by one.
const SHARERS: usize = 16;
/// Length of a column at first, ns. It doubles whenever there are too many.
const COLUMN_NS: u64 = 1024;

/// The thread that had each CPU for the longest part of each of some stretches of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Length of a stretch, ns.
    pub column_ns: u64,
    /// By CPU: a thread for each stretch; 0 is its idle task.
    pub cpus: Vec<Vec<Tid>>,
    /// Address spaces of those threads, where they have one.
    pub spaces: BTreeMap<Tid, MmId>,
    /// By CPU: which kind of core it is, the fastest 0.
    pub kinds: Vec<u16>,
    /// How many tasks waited, and how many CPUs idled that one of these might have used: by stretch.
    #[serde(default)]
    pub waits: Vec<Waits>,
}

/// Waiting and idling in a stretch of time, as sums over it. Divided by the stretch's length they are means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Task-nanoseconds of waiting for a CPU.
    pub waiting_ns: u64,
    /// CPU-nanoseconds of idling while a task waited that might have run there.
    pub idle_ns: u64,
}

/// Makes one.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    column_ns: u64,
    cpus: Vec<Cpu>,
    waits: Vec<Waits>,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    /// The thread that had most of each column so far, and for how long.
    columns: Vec<(Tid, u64)>,
    /// How long each thread had the last column: the first threads only, where there are many.
    last: Vec<(Tid, u64)>,
}

impl Columns {
    pub fn new(cpus: usize) -> Self {
        Columns { column_ns: COLUMN_NS, cpus: vec![Cpu::default(); cpus], waits: Vec::new() }
    }

    /// Forgets what was recorded so far.
    pub fn restart(&mut self) {
        self.column_ns = COLUMN_NS;
        self.cpus.iter_mut().for_each(|cpu| *cpu = Cpu::default());
        self.waits.clear();
    }

    /// Makes columns long enough for a run until `to_ns`.
    fn reach(&mut self, to_ns: u64) {
        while to_ns > self.column_ns * COLUMNS as u64 {
            self.column_ns *= 2;
            self.cpus.iter_mut().for_each(Cpu::halve);
            self.waits = self.waits.chunks(2).map(Waits::sum).collect();
        }
    }

    /// `tasks` tasks waited from one time to another, ns since the start, and `idle` CPUs idled that they might have
    /// used.
    pub fn waited(&mut self, tasks: u64, idle: u64, from_ns: u64, to_ns: u64) {
        if tasks == 0 || to_ns <= from_ns {
            return;
        }
        self.reach(to_ns);
        let digits = self.column_ns.trailing_zeros();
        let last = ((to_ns - 1) >> digits) as usize;
        if self.waits.len() <= last {
            self.waits.resize(last + 1, Waits::default());
        }
        let mut at_ns = from_ns;
        while at_ns < to_ns {
            let column = (at_ns >> digits) as usize;
            let end_ns = to_ns.min((column as u64 + 1) << digits);
            self.waits[column].waiting_ns += tasks * (end_ns - at_ns);
            self.waits[column].idle_ns += idle * (end_ns - at_ns);
            at_ns = end_ns;
        }
    }

    /// A thread had a CPU from one time to another, ns since the start.
    pub fn ran(&mut self, cpu: usize, tid: Tid, from_ns: u64, to_ns: u64) {
        self.reach(to_ns);
        // A shift: it is a power of two.
        let digits = self.column_ns.trailing_zeros();
        let begins = |column: usize| (column as u64) << digits;
        let cpu = &mut self.cpus[cpu];
        let mut at_ns = from_ns;
        while at_ns < to_ns {
            let (column, last) = ((at_ns >> digits) as usize, (to_ns >> digits) as usize);
            if column < last && column >= cpu.columns.len() && begins(column) == at_ns {
                cpu.add_whole(column..last, tid, self.column_ns);
                at_ns = begins(last);
                continue;
            }
            let end_ns = to_ns.min(begins(column + 1));
            cpu.add(column, tid, end_ns - at_ns);
            at_ns = end_ns;
        }
    }

    /// The picture, of cores of these kinds and threads of these address spaces.
    pub fn finish(self, kinds: Vec<u16>, mms: impl Iterator<Item = (Tid, MmId)>) -> Timeline {
        let columns = |cpu: &Cpu| cpu.columns.iter().map(|(tid, _)| *tid).collect();
        let cpus: Vec<Vec<Tid>> = self.cpus.iter().map(columns).collect();
        let seen: BTreeSet<Tid> = cpus.iter().flatten().copied().collect();
        let spaces = mms.filter(|(tid, _)| *tid != IDLE && seen.contains(tid)).collect();
        Timeline { column_ns: self.column_ns, cpus, spaces, kinds, waits: self.waits }
    }
}

impl Waits {
    fn sum(all: &[Waits]) -> Waits {
        Waits {
            waiting_ns: all.iter().map(|one| one.waiting_ns).sum(),
            idle_ns: all.iter().map(|one| one.idle_ns).sum(),
        }
    }
}

impl Cpu {
    /// One thread had all of these columns, and no thread had any of them before.
    fn add_whole(&mut self, columns: Range<usize>, tid: Tid, column_ns: u64) {
        self.columns.resize(columns.start, (IDLE, 0));
        self.columns.resize(columns.end, (tid, column_ns));
        self.last.clear();
        self.last.push((tid, column_ns));
    }

    fn add(&mut self, column: usize, tid: Tid, ns: u64) {
        if column >= self.columns.len() {
            self.columns.resize(column + 1, (IDLE, 0));
            self.last.clear();
        }
        let had_ns = match self.last.iter_mut().find(|(other, _)| *other == tid) {
            Some((_, had_ns)) => {
                *had_ns += ns;
                *had_ns
            }
            None => {
                if self.last.len() < SHARERS {
                    self.last.push((tid, ns));
                }
                ns
            }
        };
        if had_ns > self.columns[column].1 {
            self.columns[column] = (tid, had_ns);
        }
    }

    /// Merges pairs of columns: the thread that had more of the pair, as far as is still known, gets both.
    fn halve(&mut self) {
        let one = |pair: &[(Tid, u64)]| match *pair {
            [(a, of_a), (b, of_b)] if a == b => (a, of_a + of_b),
            [a, b] => {
                if b.1 > a.1 {
                    b
                } else {
                    a
                }
            }
            ref other => other[0],
        };
        let whole = self.columns.len().is_multiple_of(2);
        self.columns = self.columns.chunks(2).map(one).collect();
        // The next interval begins a column, or goes on in the last.
        if whole {
            self.last.clear();
        }
        if let Some((tid, ns)) = self.columns.last().copied() {
            self.last.retain(|(other, _)| *other != tid);
            self.last.push((tid, ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_with_most_of_a_column_gets_it() {
        let mut columns = Columns::new(2);
        columns.ran(0, 7, 0, 500);
        columns.ran(0, 8, 500, 700);
        columns.ran(0, 7, 700, 1500);
        columns.ran(0, 8, 1500, 3000);
        let mms = [(7, 70), (9, 90)].into_iter();
        let Timeline { column_ns, cpus, spaces, .. } = columns.finish(vec![0; 2], mms);
        assert_eq!((column_ns, cpus), (1024, vec![vec![7, 8, 8], vec![]]));
        assert_eq!(spaces, [(7, 70)].into(), "a task that is not in the picture needs no space");
    }

    #[test]
    fn a_long_run_has_longer_columns() {
        let mut columns = Columns::new(1);
        for turn in 0..10_000 {
            let from_ns = turn * 4096;
            columns.ran(0, 1 + (turn / 5000) as Tid, from_ns, from_ns + 3000);
            columns.ran(0, 0, from_ns + 3000, from_ns + 4096);
        }
        let Timeline { column_ns, cpus, .. } = columns.finish(vec![0], std::iter::empty());
        assert!(cpus[0].len() <= COLUMNS && cpus[0].len() > COLUMNS / 2, "{}", cpus[0].len());
        assert_eq!(cpus[0].len() as u64, (10_000 * 4096u64).div_ceil(column_ns));
        let half = cpus[0].len() / 2;
        assert!(cpus[0][..half - 1].iter().all(|tid| *tid == 1), "{cpus:?}");
        assert!(cpus[0][half + 1..].iter().all(|tid| *tid == 2), "{cpus:?}");
    }

    #[test]
    fn waits_are_kept_whole_however_long_columns_become() {
        let mut columns = Columns::new(1);
        for turn in 0..10_000 {
            columns.waited(3, 1, turn * 4096 + 100, turn * 4096 + 2100);
            columns.waited(0, 0, turn * 4096 + 2100, turn * 4096 + 4096);
        }
        let Timeline { column_ns, waits, .. } = columns.finish(vec![0], std::iter::empty());
        let all = Waits::sum(&waits);
        assert_eq!((all.waiting_ns, all.idle_ns), (3 * 20_000_000, 20_000_000));
        assert!(waits.len() <= COLUMNS && waits.iter().all(|one| one.idle_ns <= column_ns));
    }

    #[test]
    fn it_may_start_again() {
        let mut columns = Columns::new(1);
        columns.ran(0, 5, 0, 1 << 30);
        columns.restart();
        columns.ran(0, 6, 0, 10);
        assert_eq!(columns.finish(vec![0], std::iter::empty()).cpus, [[6]]);
    }
}
