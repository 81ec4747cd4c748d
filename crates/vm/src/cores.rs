// SPDX-License-Identifier: GPL-2.0-only
//! This machine's cores, shared by the guests of one process: tests boot many of them.
//!
//! A guest with CPUs side by side wants a core for each. Beside another one on too few cores both wait for cores, boots
//! break, and times mean little. A guest with CPUs in turn needs one core.

use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Clock;

/// Waits until this machine has cores for such a guest, and keeps them for it.
pub fn take_cores(clock: Clock, cpus: usize) -> Taken<'static> {
    static OF_THIS_MACHINE: LazyLock<Cores> = LazyLock::new(|| {
        Cores::new(thread::available_parallelism().map_or(1, |cores| cores.get()))
    });
    OF_THIS_MACHINE.take(if clock.counts_instructions() { 1 } else { cpus })
}

/// Cores that belong to the guests that have taken them.
struct Cores {
    all: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    free: usize,
    /// The ticket of the next guest that comes.
    next: u64,
    /// The ticket of the guest whose turn it is: guests take cores in the order in which they come.
    serving: u64,
}

impl Cores {
    fn new(all: usize) -> Self {
        let state = State { free: all, next: 0, serving: 0 };
        Cores { all, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for this many cores, or for all if there are fewer.
    fn take(&self, wanted: usize) -> Taken<'_> {
        let taken = wanted.min(self.all);
        let mut state = self.state();
        let ticket = state.next;
        state.next += 1;
        while state.serving != ticket || state.free < taken {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.serving += 1;
        state.free -= taken;
        self.changed.notify_all();
        Taken { of: self, cores: taken }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cores of one guest; they are free again when this is dropped.
#[must_use = "the cores are free again when this is dropped"]
pub struct Taken<'a> {
    of: &'a Cores,
    cores: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.of.state().free += self.cores;
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn guests_take_cores_in_the_order_in_which_they_come() {
        let cores = Cores::new(2);
        let (begun, order) = channel();
        thread::scope(|scope| {
            let first = cores.take(1);
            let mut waiting = 0;
            // The second wants more than there is, and the third only what is free: it comes after the second.
            for (name, wanted) in [("second", 4), ("third", 1)] {
                let (begun, cores) = (begun.clone(), &cores);
                scope.spawn(move || {
                    let taken = cores.take(wanted);
                    begun.send((name, taken.cores)).unwrap();
                });
                waiting += 1;
                while cores.state().next < 1 + waiting {
                    thread::yield_now();
                }
            }
            assert!(order.try_recv().is_err(), "neither has cores yet");
            drop(first);
        });
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [("second", 2), ("third", 1)]);
        assert_eq!(cores.state().free, 2);
    }
}
