// SPDX-License-Identifier: GPL-2.0-only
//! A policy's control plane beside the running kernel: a thread of a higher class, over the data plane's own table of
//! tasks, mapped into this process.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use libbpf_rs::{MapCore, Object};
use policy::table::{RawTable, TaskTable};
use policy::{Control, Instance, Profile, Sources, Topology, View};
use trace::Tid;

use crate::cgroup::CGROUPS;
use crate::execute::{cpu_ns, now_ns};
use crate::hierarchy::Hierarchy;
use crate::kept::Kept;
use crate::mapped::Mapped;
use crate::memory::HereMemory;
use crate::outrank_policies;
use crate::program::{self, Programs};
use crate::threads::end_within;
use crate::variables::variables;

/// The section of the table, which is also the name of its map.
const SECTION: &str = ".bss.task_table";

/// A running control plane, until it is dropped.
pub(crate) struct Controlling {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    knows: Arc<Mutex<Knows>>,
    pulse: Pulse,
    pub(crate) kept: Kept,
}

/// When the current step began, ns; 0 between two steps.
#[derive(Clone, Default)]
struct Pulse(Arc<AtomicU64>);

impl Pulse {
    fn begin(&self, now_ns: u64) {
        self.0.store(now_ns, Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn since(&self, now_ns: u64) -> Option<Duration> {
        let began_ns = Some(self.0.load(Ordering::Relaxed)).filter(|began_ns| *began_ns > 0)?;
        Some(Duration::from_nanos(now_ns.saturating_sub(began_ns)))
    }
}

/// Knowledge of a control plane.
#[derive(Clone, Debug, Default)]
pub struct Knows {
    /// The sources of its speeds.
    pub sources: Sources,
    /// Measurements of programs, by the id of their executables.
    pub learned: Profile,
    /// The control plane's own line about its activity.
    pub says: Option<String>,
    /// The memory domain of each thread that it places.
    pub placed: Vec<(Tid, usize)>,
    /// A pause in the last second that was longer than requested, to keep it within its part of a CPU ([`SHARE`]).
    pub held_up: Option<Duration>,
    /// Duration of the current step so far: a step may be held up in the kernel.
    pub stepping: Option<Duration>,
    /// Tasks outside its plans, because its table was full when they came.
    pub refused: u64,
}

impl Knows {
    /// Its present state, with the moves made for it.
    pub(crate) fn of(control: &dyn Control, memory: &HereMemory) -> Self {
        Knows {
            sources: control.sources(),
            learned: control.learned(),
            says: control.says().map(|says| says + &memory.moved().told()),
            placed: control.placed(),
            ..Knows::default()
        }
    }
}

/// A control plane gets one part in this many of a CPU's time: it precedes all tasks of its policy.
pub const SHARE: u32 = 20;
/// The CPU time that it may use beyond that at a time, for a long plan that is rarely made: its part of two seconds.
const BURST: Duration = Duration::from_millis(100);

/// CPU time that a control plane has had beyond its part.
#[derive(Default)]
pub(crate) struct Budget {
    over: Duration,
    /// When its last step began, ns.
    began_ns: Option<u64>,
}

impl Budget {
    /// Does a step, which asks for a pause. Returns the pause to make, and the same if it is longer than requested.
    pub fn step(&mut self, step: impl FnOnce() -> Duration) -> (Duration, Option<Duration>) {
        let (at_ns, had_ns) = (now_ns(), cpu_ns());
        let asked = step();
        let before_ns = self.began_ns.replace(at_ns).unwrap_or(at_ns);
        let [passed, took] = [at_ns - before_ns, cpu_ns() - had_ns].map(Duration::from_nanos);
        let pause = self.pause(passed, took, asked);
        (pause, Some(pause).filter(|pause| *pause > asked))
    }

    /// The pause after a step that took `took` of CPU time and began `passed` after the one before. `asked`: the pause
    /// that the control plane asks for.
    fn pause(&mut self, passed: Duration, took: Duration, asked: Duration) -> Duration {
        self.over = self.over.saturating_sub(passed / SHARE).saturating_add(took);
        asked.max(self.over.saturating_sub(BURST).saturating_mul(SHARE))
    }
}

/// Time between two publications of the control plane's knowledge.
const TELL_NS: u64 = 1_000_000_000;
/// Longest wait for its thread to end.
const PATIENCE: Duration = Duration::from_secs(3);

/// Starts it, if the policy has one: its first decision is in force when this returns.
pub(crate) fn start(
    instance: &Instance,
    topology: &Topology,
    profile: &Profile,
    object: &Object,
) -> anyhow::Result<Option<Controlling>> {
    let Some(plan) = instance.policy.control else { return Ok(None) };
    let shared = Shared::new(object, instance.policy.build.bpf.bytes())
        .with_context(|| format!("policy {}: its table of tasks", instance.label))?;
    let control = (plan.begin)(instance, topology, profile);
    // Without a higher class the policy may starve its own control plane. The user was warned of that.
    let outrank = || drop(outrank_policies());
    Ok(Some(Controlling::begin(control, shared, outrank)?))
}

impl Controlling {
    /// Its thread owns all that it uses, because it may have to be left behind.
    fn begin(
        mut control: Box<dyn Control>,
        shared: Shared,
        outrank: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let mut programs = Programs::default();
        let memory = HereMemory::default();
        let mut pause = step(&mut *control, &shared, &programs, &memory);
        let (stop, stopped) = channel();
        let (knows, pulse) = (Arc::<Mutex<Knows>>::default(), Pulse::default());
        let (told, beats) = (knows.clone(), pulse.clone());
        let mut tell_ns = 0;
        let kept = Kept::default();
        let keeps = kept.clone();
        let work = move || {
            outrank();
            let (mut budget, mut held_up) = (Budget::default(), None);
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let (next, longer) = budget.step(|| {
                    beats.begin(now_ns());
                    let asked = step(&mut *control, &shared, &programs, &memory);
                    if now_ns() >= tell_ns {
                        tell_ns = now_ns() + TELL_NS;
                        let refused = shared.table.refused();
                        let now = Knows::of(&*control, &memory);
                        *known(&told) = Knows { held_up: held_up.take(), refused, ..now };
                        programs.trim();
                        memory.trim();
                    }
                    let own_ns = [cpu_ns(), memory.moved_in_ns()];
                    keeps.look(now_ns(), own_ns, &shared.table, &*control);
                    beats.end();
                    asked
                });
                pause = next;
                held_up = longer.or(held_up);
            }
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(work)?;
        Ok(Controlling { stop: Some(stop), thread: Some(thread), knows, pulse, kept })
    }

    /// The control plane's knowledge, at most a second old unless a step takes longer.
    pub fn knows(&self) -> Knows {
        Knows { stepping: self.pulse.since(now_ns()), ..known(&self.knows).clone() }
    }

    /// Its own line about its activity.
    pub fn says(&self) -> Option<String> {
        known(&self.knows).says.clone()
    }

    /// Whether its thread has ended. It ends only by a panic, which prints a message; its last decision stays in force.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

impl Drop for Controlling {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            end_within(thread, PATIENCE);
        }
    }
}

fn known(knows: &Mutex<Knows>) -> MutexGuard<'_, Knows> {
    knows.lock().unwrap_or_else(PoisonError::into_inner)
}

fn step(
    control: &mut dyn Control,
    shared: &Shared,
    programs: &Programs,
    memory: &HereMemory,
) -> Duration {
    let now_ns = now_ns();
    shared.cgroups.look(now_ns);
    let after_ns = control.step(&View {
        now_ns,
        table: &shared.table,
        name_of: &program::name,
        program_of: &|tid| programs.of(tid),
        parent_of: &program::parent,
        cgroup_of: &|id| shared.cgroups.of(id),
        memory,
        read: Default::default(),
    });
    Duration::from_nanos(after_ns)
}

/// The table of tasks in this process's memory.
struct Shared {
    table: TaskTable,
    cgroups: Hierarchy,
    /// Memory of the table. The kernel keeps it as long as it is mapped, even without the policy.
    _memory: Mapped,
}

// SAFETY: the memory that the table points to moves with it, and all its fields are atomics
unsafe impl Send for Shared {}

impl Shared {
    fn new(object: &Object, bpf: &[u8]) -> anyhow::Result<Self> {
        let map = object.maps().find(|map| map.name() == SECTION).context("is missing")?;
        let (offset, size) =
            *variables(bpf, SECTION)?.get("task_table").context("is not described")?;
        if size != size_of::<RawTable>() {
            bail!("has {size} bytes, not {}", size_of::<RawTable>());
        }
        let bytes = map.value_size() as usize;
        let memory = Mapped::new(map, bytes, true)?;
        // SAFETY: the table lies within the mapping, which lives as long as this value
        let table = unsafe { TaskTable::new(memory.start.byte_add(offset).cast()) };
        Ok(Shared { table, cgroups: Hierarchy::new(Path::new(CGROUPS)), _memory: memory })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;
    use std::time::Instant;

    use super::*;

    /// Blocks in its second step until it is released.
    struct Stuck {
        steps: u32,
        go_on: Receiver<()>,
        went_on: Sender<()>,
    }

    impl Control for Stuck {
        fn step(&mut self, view: &View<'_>) -> u64 {
            self.steps += 1;
            if self.steps == 2 {
                let _ = self.go_on.recv_timeout(10 * PATIENCE);
                view.table.publish(1, &[]);
                let _ = self.went_on.send(());
            }
            1_000_000
        }
    }

    fn empty_table() -> Shared {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size_of::<RawTable>() as u64).unwrap();
        let memory = Mapped::new(&file, size_of::<RawTable>(), true).unwrap();
        // SAFETY: the mapping is as large, lives as long as the table, and zeroes are a valid one
        let table = unsafe { TaskTable::new(memory.start.cast()) };
        Shared { table, cgroups: Hierarchy::new(Path::new(CGROUPS)), _memory: memory }
    }

    #[test]
    fn a_control_plane_that_stands_still_is_seen_and_left_behind() {
        let ((go, go_on), (went, went_on)) = (channel(), channel());
        let stuck = Stuck { steps: 0, go_on, went_on: went };
        let controlling = Controlling::begin(Box::new(stuck), empty_table(), || {}).unwrap();
        let (began, long) = (Instant::now(), Duration::from_millis(50));
        let stands = || controlling.knows().stepping.is_some_and(|stands| stands >= long);
        while !stands() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(stands());
        drop(controlling);
        go.send(()).expect("drop did not wait for the thread");
        went_on.recv_timeout(10 * PATIENCE).expect("its table is there still");
    }

    #[test]
    fn between_two_steps_nothing_stands_still() {
        let pulse = Pulse::default();
        assert_eq!(pulse.since(9), None);
        pulse.begin(2);
        assert_eq!(pulse.since(9), Some(Duration::from_nanos(7)));
        pulse.end();
        assert_eq!(pulse.since(9), None);
    }

    #[test]
    fn a_control_plane_has_its_part_of_a_cpu_and_no_more() {
        let ms = Duration::from_millis;
        let (mut now, mut had, mut budget) = (ms(0), ms(0), Budget::default());
        let mut passed = ms(0);
        for _ in 0..1000 {
            let pause = budget.pause(passed, ms(5), ms(1));
            passed = ms(5) + pause;
            (now, had) = (now + passed, had + ms(5));
        }
        let part = (had - BURST).as_secs_f64() / now.as_secs_f64();
        assert!((0.99..1.01).contains(&(part * f64::from(SHARE))), "{part}");
    }

    #[test]
    fn a_plan_that_is_made_seldom_delays_nothing() {
        let ms = Duration::from_millis;
        let mut budget = Budget::default();
        for step in 0..1000 {
            // A step of 60 ms every two seconds, and steps of 1 ms every 100 ms in between.
            let took = if step % 20 == 0 { ms(60) } else { ms(1) };
            assert_eq!(budget.pause(ms(100), took, ms(100)), ms(100), "{step}");
        }
        assert!(budget.pause(ms(100), Duration::MAX, ms(100)) > ms(100));
    }
}
