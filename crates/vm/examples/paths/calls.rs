// SPDX-License-Identifier: GPL-2.0-only
//! Jobs in the guest: system calls that no benchmark makes often.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex;

/// The job that this program does in the guest.
pub fn work(name: &str) -> anyhow::Result<()> {
    let cpus = std::thread::available_parallelism()?.get();
    match name {
        "fork" => (0..150).try_for_each(|_| fork()),
        "yield" => {
            beside(|| (0..1000).for_each(|_| std::thread::yield_now()));
            Ok(())
        }
        "affinity" => (0..400).try_for_each(|turn| pin(turn % cpus)),
        "scheduler" => (0..400).try_for_each(change_scheduler),
        "sleep" => {
            (0..500).for_each(|_| std::thread::sleep(Duration::from_micros(100)));
            Ok(())
        }
        "futex" => {
            let word = AtomicU32::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| turns(&word, 0));
                turns(&word, 1);
            });
            Ok(())
        }
        _ => anyhow::bail!("no job is called {name}"),
    }
}

/// All jobs.
pub const WORK: &[&str] = &["fork", "yield", "affinity", "scheduler", "sleep", "futex"];

fn beside(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(&work)));
    });
}

fn fork() -> anyhow::Result<()> {
    // SAFETY: the child makes one call and ends
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child at once
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the status outlives the call
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    anyhow::ensure!(ended > 0, "no child: {}", std::io::Error::last_os_error());
    Ok(())
}

fn pin(cpu: usize) -> anyhow::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Changes to batch and back, and to another nice value: the policy is told its weight.
fn change_scheduler(turn: i32) -> anyhow::Result<()> {
    let class = if turn % 2 == 0 { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter outlives the call, which keeps no pointer to it
    let failed = unsafe { libc::sched_setscheduler(0, class, &parameter) } != 0;
    anyhow::ensure!(!failed, "no such class: {}", std::io::Error::last_os_error());
    // SAFETY: plain numbers
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, turn % 2 * 5) };
    Ok(())
}

/// Waits a thousand times until the word is `mine`, then hands it over.
fn turns(word: &AtomicU32, mine: u32) {
    for _ in 0..1000 {
        while word.load(Ordering::Acquire) != mine {
            // a spurious or late wakeup does no harm: the loop checks the word
            let _ = futex::wait(word, futex::Flags::PRIVATE, 1 - mine, None);
        }
        word.store(1 - mine, Ordering::Release);
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }
}
