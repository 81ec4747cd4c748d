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
    /// How many guests have come.
    came: usize,
    /// Guests that wait in the order in which they came: which one that is, and how many cores it wants.
    waiting: Vec<(usize, usize)>,
}

impl State {
    /// The first that waits for no more than what is free: one that wants fewer may go before one that came earlier.
    fn next(&self) -> Option<usize> {
        let fits = self.waiting.iter().find(|(_, wanted)| *wanted <= self.free);
        fits.map(|(guest, _)| *guest)
    }
}

impl Cores {
    fn new(all: usize) -> Self {
        let state = State { free: all, came: 0, waiting: Vec::new() };
        Cores { all, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for this many cores, or for all if there are fewer.
    fn take(&self, wanted: usize) -> Taken<'_> {
        let taken = wanted.min(self.all);
        let mut state = self.state();
        state.came += 1;
        let own = state.came;
        state.waiting.push((own, taken));
        while state.next() != Some(own) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.retain(|(guest, _)| *guest != own);
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

    /// Has guests come that want so many cores, one after the other, while others have `had` of two. Returns the order
    /// in which they are given some, and how many.
    fn given(had: usize, wants: &[usize]) -> Vec<(usize, usize)> {
        let cores = Cores::new(2);
        let (begun, order) = channel();
        thread::scope(|scope| {
            let others = cores.take(had);
            for (at, wanted) in wants.iter().enumerate() {
                let (begun, cores) = (begun.clone(), &cores);
                scope.spawn(move || {
                    let taken = cores.take(*wanted);
                    begun.send((*wanted, taken.cores)).unwrap();
                });
                while cores.state().came < 2 + at {
                    thread::yield_now();
                }
            }
            drop(others);
        });
        assert_eq!(cores.state().free, 2);
        order.try_iter().collect()
    }

    #[test]
    fn guests_that_want_alike_take_cores_in_the_order_in_which_they_come() {
        assert_eq!(given(2, &[4, 3, 2]), [(4, 2), (3, 2), (2, 2)]);
    }

    #[test]
    fn a_guest_takes_what_is_free_before_one_that_wants_more() {
        assert_eq!(given(1, &[2, 1]), [(1, 1), (2, 2)]);
    }
}
