// SPDX-License-Identifier: GPL-2.0-only
//! Counts the locks that scheduler code takes beyond the runqueues' own.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, bail};
use libbpf_rs::{KprobeMultiOpts, Link, Object, ObjectBuilder};

use crate::log;
use crate::symbols::Symbols;
use crate::variables::{bss, set_config, variables};

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/locks.bpf.o"));

/// Functions that can be probed; lock functions that a kernel inlines are missing.
const FUNCTIONS: &[&str] =
    &["_raw_spin_lock", "_raw_spin_lock_irq", "_raw_spin_lock_irqsave", "_raw_spin_trylock"];

/// Functions of kernel/sched with locks that are no queue's, by the beginnings of their names. All others count.
const NOT_OF_QUEUES: &[&str] = &[
    // wait queues and completions: locks of waiting tasks
    "__wake_up",
    "add_wait_queue",
    "autoremove_wake",
    "complete",
    "do_wait_intr",
    "finish_",
    "prepare_to_",
    "remove_wait_queue",
    "swake_",
    "try_wait_for_completion",
    "wait_for_",
    "woken_wake",
    // core.c: the task's own lock (pi_lock), taken alike in every class
    "_task_rq_lock",
    "do_task_dead",
    "sched_cgroup_fork",
    "sched_exec",
    "sched_mm_cid_",
    "sched_online_group",
    "set_cpus_allowed_ptr",
    "task_rq_lock",
    "try_to_wake_up",
    "wake_up_new_task",
    // cputime.c: a process's record of its own CPU time
    "cputime_adjust",
];

/// More than the text of kernel/sched, and less than what separates it from the next user of a
/// name such as `scx_`: cold parts and initialisation lie elsewhere.
const TEXT_BYTES_MAX: u64 = 0x90000;

/// `struct place` of locks.bpf.c, in 64-bit words: caller, runqueue, tasks, other.
const PLACE: usize = 32;

/// The counter, attached. Dropping it detaches.
pub struct LockCounter {
    link: Option<Link>,
    object: Object,
    symbols: Symbols,
}

/// Acquisitions by scheduler code since the counter was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locks {
    /// Acquisitions of the runqueues' own locks.
    pub runqueue: u64,
    /// Acquisitions of the lock of the list of all tasks, which sched_ext itself keeps at fork and exit for any policy.
    pub task_list: u64,
    /// Acquisitions of all other locks by functions of sched_ext: most often a DSQ's.
    pub ext: BTreeMap<String, u64>,
    /// Acquisitions of all other locks by functions of other classes.
    pub other: BTreeMap<String, u64>,
}

impl LockCounter {
    /// Attaches to the kernel's lock functions; `cpus` is the number of CPUs.
    pub fn attach(cpus: usize) -> anyhow::Result<Self> {
        let symbols = Symbols::read()?;
        // core.c comes first, and its first function is the one that takes a runqueue's lock
        let start = symbols.address("raw_spin_rq_lock_nested")?;
        let end = start + TEXT_BYTES_MAX;
        // Without sched_ext its lock does not exist.
        let tasks_lock = match ext_text(&symbols)?.is_empty() {
            true => 0,
            false => symbols.address("scx_tasks_lock")?,
        };
        let config = [
            ("nr_cpus", (cpus as u32).to_ne_bytes().to_vec()),
            ("text_start", start.to_ne_bytes().to_vec()),
            ("text_end", end.to_ne_bytes().to_vec()),
            ("tasks_lock", tasks_lock.to_ne_bytes().to_vec()),
        ];
        let (result, words) = log::listen(|| {
            let mut object = ObjectBuilder::default().name("locks")?.open_memory(PROGRAM)?;
            set_config(&mut object, PROGRAM, &config)?;
            Ok::<_, anyhow::Error>(object.load()?)
        });
        let object = result.with_context(|| {
            format!("the kernel refuses the lock counter: {}", log::reason(&words))
        })?;
        let (link, words) = log::listen(|| {
            let program = object.progs_mut().next().context("the lock counter is empty")?;
            let options = KprobeMultiOpts {
                symbols: FUNCTIONS.iter().map(|name| name.to_string()).collect(),
                ..KprobeMultiOpts::default()
            };
            Ok::<_, anyhow::Error>(program.attach_kprobe_multi_with_opts(options)?)
        });
        let link = link.with_context(|| {
            format!("the kernel's lock functions cannot be probed: {}", log::reason(&words))
        })?;
        Ok(LockCounter { link: Some(link), object, symbols })
    }

    /// Stops counting.
    pub fn finish(mut self) -> anyhow::Result<Locks> {
        drop(self.link.take());
        let bytes = bss(&self.object)?;
        let variables = variables(PROGRAM, ".bss")?;
        let variable = |name: &str| {
            let (offset, size) = variables.get(name).copied().context("no such variable")?;
            bytes.get(offset..offset + size).context("the lock counter's state is cut")
        };
        if words(variable("lost")?)[0] > 0 {
            bail!(
                "the lock counter ran out of places: more callers take locks than it has room for"
            );
        }
        let mut locks = Locks::default();
        let ext = ext_text(&self.symbols)?;
        for place in variable("places")?.chunks_exact(PLACE).map(words) {
            let [caller, runqueue, tasks, other] = place[..] else { continue };
            locks.runqueue += runqueue;
            locks.task_list += tasks;
            let name = self.symbols.name(caller);
            let of_queues = !NOT_OF_QUEUES.iter().any(|start| name.starts_with(start));
            if other > 0 && of_queues {
                let class = if ext.contains(&caller) { &mut locks.ext } else { &mut locks.other };
                *class.entry(name.to_string()).or_default() += other;
            }
        }
        Ok(locks)
    }
}

/// From the first to the last function with a name of sched_ext's; empty if a kernel has none.
fn ext_text(symbols: &Symbols) -> anyhow::Result<Range<u64>> {
    let start = symbols.address("raw_spin_rq_lock_nested")?;
    let own = |name: &str| {
        name.starts_with("scx_") || name.ends_with("_scx") || name.starts_with("bpf_scx_")
    };
    let addresses = symbols.within(start..start + TEXT_BYTES_MAX);
    let mut own = addresses.filter(|(_, name)| own(name)).map(|(address, _)| address);
    let Some(first) = own.next() else { return Ok(0..0) };
    Ok(first..own.last().unwrap_or(first) + 1)
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| u64::from_ne_bytes(chunk.try_into().expect("8 bytes"));
    bytes.chunks_exact(8).map(word).collect()
}
