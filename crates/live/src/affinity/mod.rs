// SPDX-License-Identifier: GPL-2.0-only
//! Plans of control planes without sched_ext: Linux's own class schedules. Each thread's mask of CPUs says on which
//! kind of core it may run for the next turn, or in which memory domain until its plan changes.
//!
//! The control plane is the policies' own. A thread's time on each kind is known exactly: during a turn its mask has
//! one kind only, and the kernel counts its CPU time (schedstat). A thread's own mask is never widened: a turn's mask
//! is the part of it that is of one kind.

mod assign;
mod journal;
mod mask;
mod thread;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use policy::table::TYPES_MAX;
use policy::{Binds, Control, Keeper, Place, Topology, View};
use rustix::io::read;

use self::assign::{Candidate, assign};
pub use self::journal::mend;
use self::journal::{Journal, Word};
use self::mask::{Mask, Own, online};
pub(crate) use self::thread::all_threads;
use self::thread::{Stat, times};
use crate::control::{Budget, Knows};
use crate::counters::{Event, instructions_of};
use crate::execute::now_ns;
use crate::memory::HereMemory;
use crate::perf_event::{self, Target};
use crate::program::{self, Programs};

/// Time between two changes of masks. A change costs a migration, and each task that is not to be on one kind alone has
/// one now and then.
pub const TURN: Duration = Duration::from_millis(100);
const TURN_NS: f64 = 1e8;
/// Most turns that a task may be owed, or may owe.
const DEBT_TURNS: f64 = 20.0;
/// After this many turns without running a thread has its own mask back, and takes no part.
const QUIET: u32 = 10;
/// A task that wants less than this part of a turn is not running.
const RUNS: f64 = 0.02;
/// Turns between two readings of a thread's nice value.
const LOOK_AGAIN: u32 = 20;

/// The threads that are steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steered {
    /// All threads, except real-time tasks and threads that may not be touched.
    All,
    /// A process's threads, and those of all its descendants.
    Process(u32),
}

/// A thread's CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Had {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// CPU time on each kind of core, ms, the fastest first; its sum if cores are alike.
    pub kind_ms: Vec<u64>,
    /// The memory domain that it is bound to.
    pub domain: Option<usize>,
}

/// A steered thread.
struct Known {
    tgid: u32,
    stat: Stat,
    place: Place,
    own: Own,
    /// The kind, or domain, of its present mask, and of its mask in the turn before: a child may have either.
    on: Option<usize>,
    was_on: Option<usize>,
    noted: bool,
    /// The kernel refuses to set its mask: it is another user's, or bound by its cpuset.
    refused: bool,
    had: (u64, u64),
    counters: Vec<OwnedFd>,
    counted: Option<u64>,
    owed: [f64; TYPES_MAX],
    /// CPU time that it would use, as a part of a turn, an average.
    wants: f64,
    quiet: u32,
    age: u32,
}

/// Steers until it is dropped; [`Steering::end`] returns how many masks were restored.
pub struct Steering {
    control: Box<dyn Control>,
    budget: Budget,
    /// When the control plane is called next.
    control_ns: u64,
    /// The pause until then, if it is longer than requested.
    held_up: Option<Duration>,
    keeper: Keeper,
    programs: Programs,
    memory: HereMemory,
    /// CPUs of each kind, the fastest first, or of each domain.
    kinds: Vec<Mask>,
    are_domains: bool,
    of_cpu: Vec<u16>,
    /// Ways to count instructions on any of them: type and config.
    events: Vec<(u32, u64)>,
    steered: Steered,
    known: BTreeMap<u32, Known>,
    /// Threads of the last turn that found no place in the table.
    refused: u64,
    charged_ns: u64,
    /// When it began, in ticks since boot.
    began: u64,
    journal: Option<Journal>,
    /// The mask of this thread before. It moves to slow cores, because it shares out the time of the fast ones.
    before: Option<Mask>,
}

impl Steering {
    /// Begins. Nothing is changed before the first turn.
    ///
    /// Fails if the plan does not bind threads, masks cannot be noted, or the kernel does not count CPU time.
    pub fn begin(
        control: Box<dyn Control>,
        topology: &Topology,
        steered: Steered,
        event: Event,
    ) -> anyhow::Result<Self> {
        times(std::process::id())
            .context("the kernel does not count threads' CPU time (CONFIG_SCHED_INFO)")?;
        let online = online()?;
        let (kinds, are_domains) = match control.binds() {
            Binds::Nothing => bail!("nothing of it is in threads' masks"),
            Binds::Domains(cpus) => (cpus.into_iter().map(Mask::new).collect(), true),
            Binds::Kinds => (kinds(topology), false),
        };
        let journal = Journal::begin(&journal::place()?, &kinds)?;
        Ok(Steering {
            control,
            budget: Budget::default(),
            control_ns: 0,
            held_up: None,
            keeper: Keeper::new(),
            programs: Programs::default(),
            memory: HereMemory::default(),
            // A plan of domains has its own counters, of misses.
            events: if are_domains { Vec::new() } else { events(event, &online) },
            journal: Some(journal),
            before: if are_domains { None } else { step_aside(kinds.last()) },
            kinds,
            are_domains,
            of_cpu: topology.core_type.clone(),
            steered,
            known: BTreeMap::new(),
            refused: 0,
            charged_ns: now_ns(),
            began: ticks(),
        })
    }

    /// Whether instructions of a thread can be counted, and why not.
    pub fn counts(&self) -> Result<(), String> {
        let mut why = "off".to_string();
        for (kind, config) in &self.events {
            match perf_event::open(*kind, *config, Target::Thread(std::process::id())) {
                Ok(_) => return Ok(()),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    /// The control plane's knowledge.
    pub fn knows(&self) -> Knows {
        let now = Knows::of(&*self.control, &self.memory);
        Knows { held_up: self.held_up, refused: self.refused, ..now }
    }

    /// CPU time of the running threads since they were first seen.
    pub fn had(&self) -> Vec<Had> {
        let runs = |tid: u32| self.known.get(&tid).is_some_and(|known| known.quiet < QUIET);
        let kinds = if self.are_domains { 1 } else { self.kinds.len() };
        let had = |task: policy::table::TaskView| Had {
            tid: task.pid,
            name: program::name(task.pid).unwrap_or_default(),
            kind_ms: task.ran_ns[..kinds].iter().map(|ns| ns / 1_000_000).collect(),
            domain: self.known[&task.pid].on.filter(|_| self.are_domains),
        };
        let tasks = self.keeper.table().tasks().into_iter();
        tasks.filter(|task| runs(task.pid)).map(had).collect()
    }

    /// One turn: charges for the last one, plans if it is time to, and sets masks for the next. It is skipped if the
    /// threads cannot be read: a thread that is not seen would count as ended, and later as a new one.
    pub fn turn(&mut self) -> anyhow::Result<()> {
        let (Ok(online), Ok(here)) = (online(), all_threads()) else { return Ok(()) };
        let online = Mask::new(online);
        self.meet(here, &online)?;
        self.charge();
        if now_ns() >= self.control_ns {
            let (pause, held_up) = self.budget.step(|| {
                let after_ns = self.control.step(&View {
                    now_ns: now_ns(),
                    table: self.keeper.table(),
                    name_of: &program::name,
                    cgroup_of: &|_| None,
                    memory: &self.memory,
                    read: Default::default(),
                    program_of: &|tid| self.programs.of(tid),
                    parent_of: &program::parent,
                });
                self.programs.trim();
                self.memory.trim();
                Duration::from_nanos(after_ns)
            });
            self.held_up = held_up;
            self.control_ns = now_ns() + pause.as_nanos() as u64;
        }
        self.place(&online)
    }

    /// Restores all masks; returns the number of threads.
    pub fn end(mut self) -> anyhow::Result<usize> {
        // Closes counters: restoring has to open files.
        self.known.clear();
        self.journal.take().map_or(Ok(0), Journal::end)
    }

    /// Adds new threads, and forgets ended ones. `threads`: all present threads, with their processes.
    fn meet(&mut self, threads: Vec<(u32, u32)>, online: &Mask) -> anyhow::Result<()> {
        let mut here = BTreeSet::new();
        let own = std::process::id();
        self.refused = 0;
        for (tid, tgid) in threads.into_iter().filter(|(_, tgid)| *tgid != own) {
            here.insert(tid);
            let again = self.known.get(&tid).is_some_and(|known| known.age % LOOK_AGAIN != 0);
            if again {
                continue;
            }
            let stat = Stat::of(tid);
            let Some(stat) = stat.filter(|stat| stat.may_be_steered) else {
                self.leave_alone(tid, stat.as_ref());
                here.remove(&tid);
                continue;
            };
            match self.known.get_mut(&tid) {
                Some(known) if known.stat.start == stat.start => {
                    known.stat = stat;
                    self.keeper.weigh(&known.place, stat.weight());
                }
                _ => self.newcomer(tid, tgid, stat, online)?,
            }
        }
        let gone: Vec<u32> = self.known.keys().filter(|tid| !here.contains(tid)).copied().collect();
        for tid in gone {
            if let Some(known) = self.known.remove(&tid) {
                self.keeper.leave(known.place);
            }
        }
        Ok(())
    }

    /// Restores the own mask of a thread that is no longer to be steered, unless it has ended.
    fn leave_alone(&self, tid: u32, stat: Option<&Stat>) {
        if let Some(known) = self.known.get(&tid).filter(|known| known.on.is_some())
            && stat.is_some_and(|stat| stat.start == known.stat.start)
        {
            let _ = known.own.give(tid);
        }
    }

    fn newcomer(&mut self, tid: u32, tgid: u32, stat: Stat, online: &Mask) -> anyhow::Result<()> {
        if !self.is_meant(tgid, &stat) {
            return Ok(());
        }
        let (Some(mask), Some(had)) = (Mask::of(tid), times(tid)) else { return Ok(()) };
        if let Some(before) = self.known.remove(&tid) {
            self.keeper.leave(before.place);
        }
        let Some(place) = self.keeper.enter(tid, tgid, stat.weight()) else {
            self.refused += 1;
            return Ok(());
        };
        let inherited = self.inherited(&mask, tgid, &stat, online);
        let (own, on) = match inherited {
            Some((own, on)) => (own, Some(on)),
            None => (Own::of(tid, mask), None),
        };
        // Also noted if the thread's owner has bound it to one kind: otherwise its mask could be mistaken for one of
        // ours.
        let noted = on.is_some() || self.kinds.iter().any(|kind| kind.and(&own.mask) == own.mask);
        if let Some(journal) = self.journal.as_mut().filter(|_| noted) {
            journal.note(tid, stat.start, &own, Word::Found)?;
        }
        let known = Known {
            tgid,
            stat,
            place,
            own,
            on,
            was_on: None,
            noted,
            refused: false,
            had,
            counters: Vec::new(),
            counted: None,
            owed: [0.0; TYPES_MAX],
            wants: 0.0,
            quiet: QUIET,
            age: 0,
        };
        self.known.insert(tid, known);
        Ok(())
    }

    fn is_meant(&self, tgid: u32, stat: &Stat) -> bool {
        let Steered::Process(first) = self.steered else { return true };
        let known = |process: u32| self.known.values().any(|known| known.tgid == process);
        tgid == first || stat.parent == first || known(tgid) || known(stat.parent)
    }

    /// The source of a newcomer's mask, if it is one of ours. It is a thread of its process, or of its parent. If the
    /// parent has ended, it is a thread of its session, or else the new parent. Returns the mask that the owner gave
    /// the source, and the kind of the newcomer's.
    fn inherited(
        &self,
        mask: &Mask,
        tgid: u32,
        stat: &Stat,
        online: &Mask,
    ) -> Option<(Own, usize)> {
        let by = |is: &dyn Fn(&Known) -> bool| {
            let from = self.known.values().filter(|known| is(known));
            from.flat_map(|known| [(known, known.on), (known, known.was_on)]).find_map(
                |(known, on)| {
                    let given = self.kinds.get(on?)?.and(&known.own.mask);
                    (mask.is_like(&given, online) && given != known.own.mask)
                        .then(|| (known.own.clone(), on.unwrap_or(0)))
                },
            )
        };
        let parent = self.known.values().find(|known| known.tgid == stat.parent);
        let is_orphan = |parent: &Known| stat.is_orphan(tgid, parent.stat.session, self.began);
        let stays = |parent: &Known| {
            let is_its = |kind: &Mask| {
                let given = kind.and(&parent.own.mask);
                given != parent.own.mask && mask.is_like(&given, online)
            };
            Some((parent.own.clone(), self.kinds.iter().position(is_its)?))
        };
        let of_session = || by(&|known| known.stat.session == stat.session);
        by(&|known| known.tgid == tgid).or_else(|| by(&|known| known.tgid == stat.parent)).or_else(
            || match parent {
                None => of_session(),
                Some(parent) if is_orphan(parent) => of_session().or_else(|| stays(parent)),
                Some(_) => None,
            },
        )
    }

    /// Charges each thread for its CPU time since the last turn.
    fn charge(&mut self) {
        let now_ns = now_ns();
        let passed_ns = now_ns.saturating_sub(self.charged_ns).max(1) as f64;
        self.charged_ns = now_ns;
        for (tid, known) in &mut self.known {
            known.age += 1;
            // A thread that has slept for long is read less often.
            if known.quiet >= 3 * QUIET && known.age % QUIET != 0 {
                continue;
            }
            let Some(now) = times(*tid) else { continue };
            let ran_ns = now.0.saturating_sub(known.had.0);
            let waited_ns = now.1.saturating_sub(known.had.1);
            known.had = now;
            let wants = ((ran_ns + waited_ns) as f64 / passed_ns).min(1.0);
            known.wants += 0.3 * (wants - known.wants);
            known.quiet = if wants >= RUNS { 0 } else { known.quiet.saturating_add(1) };
            if ran_ns == 0 {
                continue;
            }
            let at = known.on.or_else(|| {
                // It may run everywhere: the CPU that it was last on is the best guess.
                let cpu = Stat::of(*tid)?.cpu;
                self.of_cpu.get(cpu).map(|kind| usize::from(*kind))
            });
            let Some(at) = at.filter(|_| !self.are_domains) else {
                self.keeper.charge(&known.place, 0, ran_ns, Some(0));
                continue;
            };
            let retired = known.retired();
            self.keeper.charge(&known.place, at, ran_ns, retired);
            let shares = self.keeper.shares(&known.place);
            for (kind, owed) in known.owed.iter_mut().enumerate() {
                let paid = if kind == at { ran_ns as f64 } else { 0.0 };
                let most = DEBT_TURNS * TURN_NS;
                *owed = (*owed + shares[kind] * ran_ns as f64 - paid).clamp(-most, most);
            }
        }
    }

    /// The domain of each thread that has one.
    fn meant(&self) -> BTreeMap<u32, Option<usize>> {
        let domain = |known: &Known| match self.keeper.share(&known.place) {
            0 => None,
            share => Some(share as usize - 1).filter(|domain| *domain < self.kinds.len()),
        };
        let meant = self.known.iter().filter(|(_, known)| !known.refused);
        meant.map(|(tid, known)| (*tid, domain(known))).collect()
    }

    /// The kind of core of each running thread, for the next turn.
    fn shared_out(&self, kinds: &[Mask]) -> BTreeMap<u32, Option<usize>> {
        let cores: Vec<f64> = kinds.iter().map(|kind| kind.len() as f64).collect();
        let running: Vec<u32> = self
            .known
            .iter()
            .filter(|(_, known)| known.quiet < QUIET && !known.refused)
            .map(|(tid, _)| *tid)
            .collect();
        let candidate = |tid: &u32| {
            let known = &self.known[tid];
            Candidate {
                owed: known.owed[..kinds.len()].to_vec(),
                wants: known.wants,
                weight: f64::from(known.stat.weight()),
                allowed: kinds.iter().map(|kind| !kind.and(&known.own.mask).is_empty()).collect(),
                now: known.on,
            }
        };
        let candidates: Vec<Candidate> = running.iter().map(candidate).collect();
        let placed = assign(&cores, &candidates, TURN_NS / 2.0);
        running.into_iter().zip(placed).collect()
    }

    /// Sets masks for the next turn.
    fn place(&mut self, online: &Mask) -> anyhow::Result<()> {
        // Offline CPUs are in no mask, and return to their kinds when they are online.
        let kinds: Vec<Mask> = self.kinds.iter().map(|kind| kind.and(online)).collect();
        self.keeper.there(kinds.iter().map(Mask::len));
        let wanted = if self.are_domains { self.meant() } else { self.shared_out(&kinds) };
        for (tid, known) in &mut self.known {
            let kind = wanted.get(tid).copied().flatten();
            known.was_on = known.on;
            known.count(*tid, kind.is_some(), &self.events);
            known.heed(*tid, (&self.kinds, online), self.journal.as_mut())?;
            let may = |kind: usize| !self.kinds[kind].and(&known.own.mask).is_empty();
            let bits =
                (0..self.kinds.len().min(32)).filter(|kind| may(*kind)).map(|kind| 1 << kind);
            self.keeper.bind(&known.place, bits.sum());
            if kind != known.on && !known.refused {
                known.give(*tid, kind, (&self.kinds, online), self.journal.as_mut())?;
            }
        }
        Ok(())
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.known.clear();
        if let Some(journal) = self.journal.take() {
            // If it fails, the file stays, and the next start tries again.
            let _ = journal.end();
        }
        if let Some(before) = self.before.take() {
            let _ = before.give(rustix::thread::gettid().as_raw_pid() as u32);
        }
    }
}

/// Moves this thread to the CPUs of `to` that it may use; returns its mask before, if it was changed.
fn step_aside(to: Option<&Mask>) -> Option<Mask> {
    let own = rustix::thread::gettid().as_raw_pid() as u32;
    let before = Mask::of(own)?;
    let part = to?.and(&before);
    (!part.is_empty() && part.give(own).is_ok()).then_some(before)
}

impl Known {
    /// If its owner has set its mask meanwhile, that is now its own mask.
    fn heed(
        &mut self,
        tid: u32,
        (kinds, online): (&[Mask], &Mask),
        journal: Option<&mut Journal>,
    ) -> anyhow::Result<()> {
        if self.on.is_none() && self.quiet > 0 {
            return Ok(());
        }
        let own = &self.own.mask;
        let given = self.on.map_or_else(|| own.clone(), |on| kinds[on].and(own));
        let there = given.and(online);
        // A thread that loses its last CPU gets all CPUs from the kernel, which is not its owner's wish.
        if there.is_empty() || Mask::active(tid).is_none_or(|active| active == there) {
            return Ok(());
        }
        // While a CPU goes or comes, the active mask may differ from the online part.
        let Some(now) = Mask::of(tid).filter(|now| !now.is_like(&given, online)) else {
            return Ok(());
        };
        (self.own, self.on) = (Own::of(tid, now), None);
        if let Some(journal) = journal {
            journal.note(tid, self.stat.start, &self.own, Word::Owners)?;
            self.noted = true;
        }
        Ok(())
    }

    /// Sets the mask of a kind for it, or its own.
    fn give(
        &mut self,
        tid: u32,
        kind: Option<usize>,
        (kinds, online): (&[Mask], &Mask),
        journal: Option<&mut Journal>,
    ) -> anyhow::Result<()> {
        let own = &self.own.mask;
        let mask = kind.map_or_else(|| own.clone(), |kind| kinds[kind].and(own));
        let mask = if mask.and(online).is_empty() { own.clone() } else { mask };
        let is_own = mask == *own;
        if mask.and(online).is_empty() || (self.on.is_none() && is_own) {
            self.on = kind;
            return Ok(());
        }
        if let Some(journal) = journal.filter(|_| !self.noted) {
            journal.note(tid, self.stat.start, &self.own, Word::Found)?;
            self.noted = true;
        }
        match if is_own { self.own.give(tid) } else { mask.give(tid) } {
            Ok(()) => self.on = kind,
            Err(_) => self.refused = true,
        }
        Ok(())
    }

    /// Opens its counters while it takes part, and closes them after that.
    fn count(&mut self, tid: u32, takes_part: bool, events: &[(u32, u64)]) {
        if !takes_part {
            self.counters.clear();
            self.counted = None;
        } else if self.counters.is_empty() {
            let open = |(kind, config): &(u32, u64)| {
                perf_event::open(*kind, *config, Target::Thread(tid)).ok()
            };
            self.counters = events.iter().filter_map(open).collect();
            self.counted = self.count_now();
        }
    }

    /// Instructions since the last call. None: not known.
    fn retired(&mut self) -> Option<u64> {
        let (before, now) = (self.counted, self.count_now());
        self.counted = now;
        now?.checked_sub(before?)
    }

    /// Sum over all units: each counts on its own CPUs only.
    fn count_now(&self) -> Option<u64> {
        let mut sum = 0;
        for counter in &self.counters {
            let mut bytes = [0; 8];
            let length = read(counter, &mut bytes).ok()?;
            sum += u64::from_ne_bytes(if length == 8 { bytes } else { return None });
        }
        (!self.counters.is_empty()).then_some(sum)
    }
}

/// CPUs of each kind of core, the fastest first.
fn kinds(topology: &Topology) -> Vec<Mask> {
    let core_type = &topology.core_type;
    let of = |kind| Mask::new((0..core_type.len()).filter(|cpu| core_type[*cpu] == kind as u16));
    (0..topology.kinds()).map(of).collect()
}

/// Ticks since boot, in the unit of /proc.
fn ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    now_ns / (1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// One event for each counter unit of these CPUs.
fn events(event: Event, cpus: &[usize]) -> Vec<(u32, u64)> {
    const SOFTWARE_CPU_CLOCK: (u32, u64) = (1, 0);
    match event {
        Event::Nothing => Vec::new(),
        Event::CpuClock => vec![SOFTWARE_CPU_CLOCK],
        Event::Own => {
            let best = |cpu: &usize| {
                let ways = instructions_of(Path::new("/"), *cpu);
                ways.into_iter().next().map(|(_, kind, config)| (kind, config))
            };
            cpus.iter().filter_map(best).collect::<BTreeSet<_>>().into_iter().collect()
        }
    }
}
