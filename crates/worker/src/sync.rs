// SPDX-License-Identifier: GPL-2.0-only
//! Locks, conditions and barriers between processes, on futexes.
//!
//! They make the same system calls as glibc's: one to wait, one to wake if a waiter is possible, none otherwise. All
//! end with [`Stopped`] when the workload must end.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex;

use crate::burn::wall_ns;
use crate::shared::{Header, Words};

/// The workload must end.
#[derive(Debug, PartialEq)]
pub(crate) struct Stopped;

/// Sleeps while `word` is `value`; a signal makes it look at the stop flag.
pub(crate) fn wait(header: &Header, word: &AtomicU32, value: u32) -> Result<(), Stopped> {
    while word.load(Ordering::Acquire) == value {
        if header.stopped() {
            return Err(Stopped);
        }
        match futex::wait(word, futex::Flags::empty(), value, None) {
            Ok(()) | Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => continue,
            // No other error is possible for a mapped word; the caller looks at it again.
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Wakes up to `count` threads that sleep on `word`.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, futex::Flags::empty(), count);
}

/// The mutex of Drepper's "Futexes are tricky", as glibc has it: 0 free, 1 held, 2 held and perhaps waited for. A woken
/// waiter tries again; the lock is never handed over.
pub(crate) fn lock(header: &Header, mutex: &Words) -> Result<(), Stopped> {
    let word = &mutex.a;
    if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return Ok(());
    }
    while word.swap(2, Ordering::Acquire) != 0 {
        wait(header, word, 2)?;
        if header.stopped() {
            return Err(Stopped);
        }
    }
    Ok(())
}

pub(crate) fn unlock(mutex: &Words) {
    if mutex.a.swap(0, Ordering::Release) == 2 {
        wake(&mutex.a, 1);
    }
}

/// `a` counts signals, `b` possible waiters.
pub(crate) fn condition_wait(
    header: &Header,
    condition: &Words,
    mutex: &Words,
) -> Result<(), Stopped> {
    condition.b.fetch_add(1, Ordering::AcqRel);
    let seen = condition.a.load(Ordering::Acquire);
    unlock(mutex);
    let waited = wait(header, &condition.a, seen);
    condition.b.fetch_sub(1, Ordering::AcqRel);
    waited?;
    lock(header, mutex)
}

/// Wakes one waiter, or all. As in pthreads, a signal without a waiter is lost.
pub(crate) fn signal(condition: &Words, count: u32) {
    if condition.b.load(Ordering::Acquire) > 0 {
        condition.a.fetch_add(1, Ordering::AcqRel);
        wake(&condition.a, count);
    }
}

/// Waits for a resume that comes after the call.
pub(crate) fn suspend(header: &Header, suspension: &Words) -> Result<(), Stopped> {
    suspension.b.fetch_add(1, Ordering::AcqRel);
    let seen = suspension.a.load(Ordering::Acquire);
    let waited = wait(header, &suspension.a, seen);
    suspension.b.fetch_sub(1, Ordering::AcqRel);
    waited
}

/// Spins until `a` is 1 for up, or 0 for down.
pub(crate) fn await_flag(header: &Header, flag: &Words, up: bool) -> Result<(), Stopped> {
    while flag.a.load(Ordering::Acquire) != u32::from(up) {
        if header.stopped() {
            return Err(Stopped);
        }
        (0..64).for_each(|_| std::hint::spin_loop());
    }
    Ok(())
}

/// `a` counts rounds, `b` the parties that have arrived in this one.
pub(crate) fn barrier(
    header: &Header,
    barrier: &Words,
    parties: u32,
    spin_ns: u64,
) -> Result<(), Stopped> {
    let round = barrier.a.load(Ordering::Acquire);
    if barrier.b.fetch_add(1, Ordering::AcqRel) + 1 >= parties {
        barrier.b.store(0, Ordering::Release);
        barrier.a.fetch_add(1, Ordering::AcqRel);
        wake(&barrier.a, u32::MAX >> 1);
        return Ok(());
    }
    let until = if spin_ns == 0 { 0 } else { wall_ns() + spin_ns };
    while spin_ns > 0 && barrier.a.load(Ordering::Acquire) == round {
        if wall_ns() >= until || header.stopped() {
            break;
        }
        (0..64).for_each(|_| std::hint::spin_loop());
    }
    while barrier.a.load(Ordering::Acquire) == round {
        wait(header, &barrier.a, round)?;
    }
    Ok(())
}
