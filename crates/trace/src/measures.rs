// SPDX-License-Identifier: GPL-2.0-only
//! The measures: switches, migrations, waits, and idle-while-runnable.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::by_tid::ByTid;
use crate::lengths::Lengths;
use crate::timeline::{Columns, Timeline};
use crate::{Event, IDLE, Kind, MmId, Tid};

/// Folds events into [`Observed`].
///
/// **Idle-while-runnable** is CPU time spent idle while a task that might have used it waits. At each instant it is the
/// size of the largest matching between idle CPUs and waiting tasks, affinity respected, integrated over time. One
/// waiting task thus never counts for two idle CPUs. The part of it during which the waiting task is already queued on
/// the idle CPU itself (the wakeup is in flight) is also given apart, as `wakeup_in_flight_ns`.
#[derive(Clone)]
pub struct Measures {
    /// Tasks that are measured; None: all.
    only: Option<BTreeSet<Tid>>,
    start_ns: Option<u64>,
    now_ns: u64,
    cpus: Vec<Cpu>,
    kinds: usize,
    tasks: ByTid<Task>,
    /// CPUs that idle, a bit each.
    idle: Vec<u64>,
    idle_cpus: usize,
    waiting_anywhere: usize,
    waiting_restricted: Vec<Tid>,
    /// Size of the matching for the present sets; None when they changed.
    matching: Option<u64>,
    search: Search,
    in_flight: u64,
    waits: Histogram<u64>,
    columns: Columns,
    total: Totals,
}

#[derive(Clone, Default)]
struct Totals {
    context_switches: u64,
    involuntary: u64,
    address_space: u64,
    migrations: u64,
    idle_ns: u64,
    idle_while_runnable_ns: u64,
    wakeup_in_flight_ns: u64,
}

#[derive(Clone, Copy)]
struct Cpu {
    current: Tid,
    since_ns: u64,
    mm: MmId,
    /// Waiting tasks queued here.
    waiting: u64,
    /// Which kind of core it is.
    kind: u16,
}

impl TaskObserved {
    fn ran(&mut self, ns: u64, kind: u16, kinds: usize) {
        self.cpu_ns += ns;
        if kinds > 1 {
            self.kind_ns.resize(kinds, 0);
            self.kind_ns[usize::from(kind)] += ns;
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Blocked,
    Waiting { since_ns: u64, cpu: u32 },
    Running,
    Dead,
}

#[derive(Clone)]
struct Task {
    /// It is one of those that are measured.
    counts: bool,
    state: State,
    exiting: bool,
    last_cpu: Option<u32>,
    allowed: Option<Vec<u64>>,
    /// Its address space when it ran last with one; 0: it never had any.
    mm: MmId,
    seen: TaskObserved,
}

impl Task {
    fn new(counts: bool) -> Self {
        Task {
            counts,
            state: State::Blocked,
            exiting: false,
            last_cpu: None,
            allowed: None,
            mm: 0,
            seen: TaskObserved::default(),
        }
    }
}

/// Observations of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskObserved {
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// The same on each kind of core, the fastest first; empty where they are all alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kind_ns: Vec<u64>,
    /// Times it left a CPU because it blocked or ended.
    pub voluntary: u64,
    /// Times it left a CPU although it could have gone on.
    pub involuntary: u64,
    /// Times it ran on another CPU than the time before.
    pub migrations: u64,
    /// Times it was waiting for a CPU and got one.
    pub waits: u64,
    /// Sum of those waits.
    pub wait_ns: u64,
    /// The longest of them, one still unfinished at the end included.
    pub wait_max_ns: u64,
    /// How long they were.
    pub wait_lengths: Lengths,
}

/// Quantiles of the time between becoming runnable (or being put back) and running.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median, in ns.
    pub p50_ns: u64,
    /// 95 % are at most this, in ns.
    pub p95_ns: u64,
    /// 99 % are at most this, in ns.
    pub p99_ns: u64,
    /// The longest, in ns, a wait still unfinished at the end included.
    pub max_ns: u64,
}

/// Observations between the first event and the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Length of the observation.
    pub elapsed_ns: u64,
    /// Times a task left a CPU, for whatever reason: voluntary and involuntary.
    pub context_switches: u64,
    /// Of those, the ones where the task could have gone on.
    pub involuntary_switches: u64,
    /// Times a CPU ran a task of another address space than the last one that had one: kernel
    /// threads and idling keep the address space, as lazy TLB does.
    pub address_space_switches: u64,
    /// Times a task ran on another CPU than the time before.
    pub migrations: u64,
    /// CPU time idle, summed over CPUs.
    pub idle_ns: u64,
    /// CPU time idle while a task that might have used it waited (see [`Measures`]).
    pub idle_while_runnable_ns: u64,
    /// The part of it where the task was already queued on the idle CPU.
    pub wakeup_in_flight_ns: u64,
    /// Waits of all tasks.
    pub wait: Quantiles,
    /// Each task that ran or waited, by thread id.
    pub tasks: BTreeMap<Tid, TaskObserved>,
    /// Which task had each CPU over time.
    pub timeline: Timeline,
}

impl Measures {
    /// For a machine of `cpus` CPUs, all idle until an event says otherwise.
    pub fn new(cpus: usize) -> Self {
        Measures {
            only: None,
            start_ns: None,
            now_ns: 0,
            cpus: vec![Cpu { current: IDLE, since_ns: 0, mm: 0, waiting: 0, kind: 0 }; cpus],
            kinds: 1,
            tasks: ByTid::default(),
            idle: (0..cpus.div_ceil(64)).map(|word| below(cpus - 64 * word)).collect(),
            idle_cpus: cpus,
            waiting_anywhere: 0,
            waiting_restricted: Vec::new(),
            matching: None,
            search: Search { free: Vec::new(), owner: vec![IDLE; cpus] },
            in_flight: 0,
            waits: Histogram::new(3).expect("three digits are a valid precision"),
            columns: Columns::new(cpus),
            total: Totals::default(),
        }
    }

    /// The same for cores of several kinds: `kinds` gives the kind of each CPU.
    pub fn with_kinds(mut self, kinds: &[u16]) -> Self {
        self.cpus.iter_mut().zip(kinds).for_each(|(cpu, kind)| cpu.kind = *kind);
        self.kinds = 1 + usize::from(kinds.iter().copied().max().unwrap_or(0));
        self
    }

    /// The same for these tasks alone: their switches, migrations, waits and times, and idle-while-runnable while one
    /// of them waits. Other tasks only keep CPUs from being idle. Call it before any event.
    pub fn only(mut self, tasks: BTreeSet<Tid>) -> Self {
        self.only = Some(tasks);
        self
    }

    /// Sets the task that `cpu` runs at the start. Call it before any event.
    pub fn running(&mut self, cpu: u32, tid: Tid, mm: MmId) {
        if tid == IDLE {
            return;
        }
        self.set_current(cpu, tid);
        self.cpus[cpu as usize].mm = mm;
        let task = self.task(tid);
        task.state = State::Running;
        task.last_cpu = Some(cpu);
    }

    /// Folds in one event. Events come in the order of time; an event older than the last counts as simultaneous with
    /// it.
    pub fn event(&mut self, event: &Event) {
        self.advance(event.t_ns);
        let cpu = event.cpu;
        match &event.kind {
            Kind::Switch { prev, next, prev_runnable, next_mm } => {
                self.leave(cpu, *prev, *prev_runnable);
                self.enter(cpu, *next, *next_mm);
            }
            Kind::Wake { tid, target } => match self.task(*tid).state {
                State::Running | State::Dead => {}
                State::Blocked => self.start_waiting(*tid, *target),
                // It was preempted on its way to sleep: the wait that began then goes on.
                State::Waiting { since_ns, cpu } => {
                    let task = self.task(*tid);
                    task.state = State::Waiting { since_ns, cpu: *target };
                    if task.counts {
                        self.count_queued(cpu, -1);
                        self.count_queued(*target, 1);
                    }
                }
            },
            Kind::Fork { tid } => {
                self.stop_waiting(*tid);
                self.task(*tid).state = State::Blocked;
                self.task(*tid).exiting = false;
            }
            Kind::Exit { tid } => self.task(*tid).exiting = true,
            Kind::Affinity { tid, cpus } => self.set_allowed(*tid, cpus),
        }
    }

    /// Forgets everything before `t_ns`, and goes on with the tasks that run or wait then.
    pub fn restart(&mut self, t_ns: u64) {
        self.advance(t_ns);
        let now_ns = self.now_ns;
        self.start_ns = Some(now_ns);
        self.cpus.iter_mut().for_each(|cpu| cpu.since_ns = now_ns);
        for task in self.tasks.values_mut() {
            task.seen = TaskObserved::default();
            match &mut task.state {
                State::Waiting { since_ns, .. } => *since_ns = now_ns,
                State::Running => {}
                State::Blocked | State::Dead => task.last_cpu = None,
            }
        }
        self.waits.reset();
        self.columns.restart();
        self.total = Totals::default();
    }

    /// Ends the observation at `t_ns`.
    pub fn finish(mut self, t_ns: u64) -> Observed {
        self.advance(t_ns);
        let now_ns = self.now_ns;
        for cpu in 0..self.cpus.len() {
            let (Cpu { current, since_ns, kind, .. }, kinds) = (self.cpus[cpu], self.kinds);
            self.draw(cpu, current, since_ns);
            if current == IDLE {
                self.total.idle_ns += now_ns - since_ns.max(self.start_ns.unwrap_or(now_ns));
            } else {
                self.task(current).seen.ran(now_ns - since_ns, kind, kinds);
            }
        }
        let mut longest = self.waits.max();
        for task in self.tasks.values_mut().filter(|task| task.counts) {
            if let State::Waiting { since_ns, .. } = task.state {
                task.seen.wait_max_ns = task.seen.wait_max_ns.max(now_ns - since_ns);
            }
            longest = longest.max(task.seen.wait_max_ns);
        }
        let kinds = self.cpus.iter().map(|cpu| cpu.kind).collect();
        let mms = self.tasks.iter().map(|(tid, task)| (tid, task.mm));
        let timeline = self.columns.finish(kinds, mms.filter(|(_, mm)| *mm != 0));
        Observed {
            elapsed_ns: now_ns - self.start_ns.unwrap_or(now_ns),
            context_switches: self.total.context_switches,
            involuntary_switches: self.total.involuntary,
            address_space_switches: self.total.address_space,
            migrations: self.total.migrations,
            idle_ns: self.total.idle_ns,
            idle_while_runnable_ns: self.total.idle_while_runnable_ns,
            wakeup_in_flight_ns: self.total.wakeup_in_flight_ns,
            wait: Quantiles {
                p50_ns: self.waits.value_at_quantile(0.50),
                p95_ns: self.waits.value_at_quantile(0.95),
                p99_ns: self.waits.value_at_quantile(0.99),
                max_ns: longest,
            },
            timeline,
            tasks: self
                .tasks
                .into_entries()
                .into_iter()
                .filter(|(_, task)| task.counts)
                .map(|(tid, task)| (tid, task.seen))
                .collect(),
        }
    }

    fn advance(&mut self, t_ns: u64) {
        let start_ns = *self.start_ns.get_or_insert_with(|| {
            for cpu in &mut self.cpus {
                cpu.since_ns = t_ns;
            }
            t_ns
        });
        let from_ns = self.now_ns.max(start_ns);
        if t_ns > from_ns {
            let matching = match self.matching {
                Some(size) => size,
                None => self.largest_matching(),
            };
            self.matching = Some(matching);
            self.total.idle_while_runnable_ns += (t_ns - from_ns) * matching;
            self.total.wakeup_in_flight_ns += (t_ns - from_ns) * self.in_flight.min(matching);
            let waiting = (self.waiting_anywhere + self.waiting_restricted.len()) as u64;
            self.columns.waited(waiting, matching, from_ns - start_ns, t_ns - start_ns);
        }
        self.now_ns = from_ns.max(t_ns);
    }

    fn leave(&mut self, cpu: u32, prev: Tid, runnable: bool) {
        let since_ns = self.cpus[cpu as usize].since_ns;
        let ran_ns = self.now_ns - since_ns;
        self.draw(cpu as usize, prev, since_ns);
        if prev == IDLE {
            self.total.idle_ns += ran_ns;
            return;
        }
        let (kind, kinds) = (self.cpus[cpu as usize].kind, self.kinds);
        let task = self.task(prev);
        task.seen.ran(ran_ns, kind, kinds);
        let (exiting, counts) = (task.exiting, u64::from(task.counts));
        if runnable && !exiting {
            task.seen.involuntary += 1;
            self.total.involuntary += counts;
            self.start_waiting(prev, cpu);
        } else {
            task.seen.voluntary += 1;
            task.state = if exiting { State::Dead } else { State::Blocked };
        }
        self.total.context_switches += counts;
    }

    fn draw(&mut self, cpu: usize, tid: Tid, since_ns: u64) {
        let start_ns = self.start_ns.unwrap_or(self.now_ns);
        let since = |t_ns: u64| t_ns.saturating_sub(start_ns);
        self.columns.ran(cpu, tid, since(since_ns), since(self.now_ns));
    }

    fn enter(&mut self, cpu: u32, next: Tid, mm: MmId) {
        self.stop_waiting(next);
        self.set_current(cpu, next);
        self.cpus[cpu as usize].since_ns = self.now_ns;
        if next == IDLE {
            return;
        }
        let last_mm = self.cpus[cpu as usize].mm;
        let changes = mm != 0 && mm != last_mm;
        if changes {
            self.cpus[cpu as usize].mm = mm;
        }
        let task = self.task(next);
        let counts = task.counts;
        task.state = State::Running;
        if mm != 0 {
            task.mm = mm;
        }
        let moved = task.last_cpu.is_some_and(|last| last != cpu);
        task.last_cpu = Some(cpu);
        task.seen.migrations += u64::from(moved);
        self.total.migrations += u64::from(moved && counts);
        self.total.address_space += u64::from(changes && last_mm != 0 && counts);
    }

    fn set_current(&mut self, cpu: u32, tid: Tid) {
        let was = std::mem::replace(&mut self.cpus[cpu as usize].current, tid);
        if (was == IDLE) == (tid == IDLE) {
            return;
        }
        let waiting = self.cpus[cpu as usize].waiting.min(1);
        self.idle[cpu as usize / 64] ^= 1 << (cpu % 64);
        if tid == IDLE {
            self.idle_cpus += 1;
            self.in_flight += waiting;
        } else {
            self.idle_cpus -= 1;
            self.in_flight -= waiting;
        }
        self.matching = None;
    }

    fn start_waiting(&mut self, tid: Tid, cpu: u32) {
        let since_ns = self.now_ns;
        let task = self.task(tid);
        task.state = State::Waiting { since_ns, cpu };
        if !task.counts {
            return;
        }
        if task.allowed.is_some() {
            self.waiting_restricted.push(tid);
        } else {
            self.waiting_anywhere += 1;
        }
        self.count_queued(cpu, 1);
        self.matching = None;
    }

    fn stop_waiting(&mut self, tid: Tid) {
        let now_ns = self.now_ns;
        let Some(task) = self.tasks.get_mut(tid) else { return };
        let State::Waiting { since_ns, cpu } = task.state else { return };
        let waited_ns = now_ns - since_ns;
        task.state = State::Blocked;
        if !task.counts {
            return;
        }
        task.seen.waits += 1;
        task.seen.wait_ns += waited_ns;
        task.seen.wait_max_ns = task.seen.wait_max_ns.max(waited_ns);
        task.seen.wait_lengths.add(waited_ns);
        if task.allowed.is_some() {
            self.waiting_restricted.retain(|other| *other != tid);
        } else {
            self.waiting_anywhere -= 1;
        }
        // The histogram resizes itself; only saturating_record would clip at its present maximum.
        self.waits.record(waited_ns).expect("a wait is shorter than 2^63 ns");
        self.count_queued(cpu, -1);
        self.matching = None;
    }

    fn count_queued(&mut self, cpu: u32, by: i64) {
        let cpu = &mut self.cpus[cpu as usize];
        let before = cpu.waiting.min(1);
        cpu.waiting = cpu.waiting.strict_add_signed(by);
        if cpu.current == IDLE {
            self.in_flight = self.in_flight + cpu.waiting.min(1) - before;
        }
    }

    fn set_allowed(&mut self, tid: Tid, cpus: &[u64]) {
        let all = (0..self.cpus.len()).all(|cpu| bit(cpus, cpu));
        let allowed = (!cpus.is_empty() && !all).then(|| cpus.to_vec());
        let task = self.task(tid);
        let waiting = task.counts && matches!(task.state, State::Waiting { .. });
        let was = self.task(tid).allowed.is_some();
        if waiting && was != allowed.is_some() {
            if was {
                self.waiting_restricted.retain(|other| *other != tid);
                self.waiting_anywhere += 1;
            } else {
                self.waiting_anywhere -= 1;
                self.waiting_restricted.push(tid);
            }
        }
        self.task(tid).allowed = allowed;
        self.matching = None;
    }

    #[inline]
    fn task(&mut self, tid: Tid) -> &mut Task {
        let only = &self.only;
        let counts = || only.as_ref().is_none_or(|only| only.contains(&tid));
        self.tasks.get_or_insert_with(tid, || Task::new(counts()))
    }

    /// Tasks that may run anywhere match any idle CPU, so only the restricted ones need a search.
    fn largest_matching(&mut self) -> u64 {
        if self.idle_cpus == 0 || self.waiting_restricted.is_empty() {
            return self.waiting_anywhere.min(self.idle_cpus) as u64;
        }
        let mut search = std::mem::take(&mut self.search);
        search.owner.fill(IDLE);
        search.free.clone_from(&self.idle);
        let mut restricted = 0;
        for tid in &self.waiting_restricted {
            // CPUs that were tried in vain lead nowhere until another task has found one.
            if self.augment(*tid, &mut search) {
                restricted += 1;
                search.free.copy_from_slice(&self.idle);
            }
        }
        self.search = search;
        (restricted + self.waiting_anywhere).min(self.idle_cpus) as u64
    }

    /// Kuhn's augmenting step: finds `tid` an idle CPU, moving earlier tasks over where needed.
    fn augment(&self, tid: Tid, search: &mut Search) -> bool {
        let allowed = self.tasks.get(tid).and_then(|task| task.allowed.as_deref()).unwrap_or(&[]);
        for (word, allowed) in allowed.iter().enumerate().take(self.idle.len()) {
            loop {
                let free = allowed & search.free[word];
                if free == 0 {
                    break;
                }
                search.free[word] &= !(free & free.wrapping_neg());
                let cpu = 64 * word + free.trailing_zeros() as usize;
                let other = search.owner[cpu];
                if other == IDLE || self.augment(other, search) {
                    search.owner[cpu] = tid;
                    return true;
                }
            }
        }
        false
    }
}

/// Working state of the search for a matching.
#[derive(Clone, Default)]
struct Search {
    /// Idle CPUs that the present step has not tried, a bit each.
    free: Vec<u64>,
    /// The task matched to each CPU so far; [`IDLE`]: none.
    owner: Vec<Tid>,
}

/// A word with its lowest `bits` bits set.
fn below(bits: usize) -> u64 {
    if bits < 64 { (1 << bits) - 1 } else { u64::MAX }
}

fn bit(words: &[u64], cpu: usize) -> bool {
    words.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
}
