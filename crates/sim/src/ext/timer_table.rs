// SPDX-License-Identifier: GPL-2.0-only
//! Which timers a policy has started.

use std::collections::HashMap;

use policy::native::Expires;

/// A policy's timers. A policy may have several tables of them: each table has its own function, and its own numbers.
#[derive(Default)]
pub(super) struct Timers {
    timers: Vec<Timer>,
    by_number: HashMap<(usize, u32), u32>,
}

struct Timer {
    expires: Expires,
    number: u32,
    /// How often it was started.
    starts: u32,
}

impl Timers {
    /// Starts one. Returns its index, and how often it has been started.
    pub(super) fn start(&mut self, expires: Expires, number: u32) -> (u32, u32) {
        let new = self.timers.len() as u32;
        let at = *self.by_number.entry((expires as usize, number)).or_insert(new);
        if at == new {
            self.timers.push(Timer { expires, number, starts: 0 });
        }
        let timer = &mut self.timers[at as usize];
        timer.starts += 1;
        (at, timer.starts)
    }

    /// What to call for a start, with which number. None: the timer was started anew since.
    pub(super) fn due(&self, at: u32, start: u32) -> Option<(Expires, u32)> {
        let timer = &self.timers[at as usize];
        (timer.starts == start).then_some((timer.expires, timer.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn of_cpus(_: u32) {
        std::hint::black_box(1);
    }

    unsafe extern "C" fn of_limits(_: u32) {
        std::hint::black_box(2);
    }

    #[test]
    fn timers_of_two_tables_with_one_number_are_two() {
        let mut timers = Timers::default();
        let first = timers.start(of_cpus, 3);
        let second = timers.start(of_limits, 3);
        let called = |(at, start): (u32, u32), timers: &Timers| {
            timers.due(at, start).map(|(expires, number)| (expires as usize, number))
        };
        assert_eq!(called(first, &timers), Some((of_cpus as *const () as usize, 3)));
        assert_eq!(called(second, &timers), Some((of_limits as *const () as usize, 3)));
        let anew = timers.start(of_cpus, 3);
        assert_eq!(called(first, &timers), None);
        assert_eq!(called(anew, &timers), Some((of_cpus as *const () as usize, 3)));
    }
}
