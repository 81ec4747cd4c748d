// SPDX-License-Identifier: GPL-2.0-only
//! One CPU's cost of using what another one wrote: a line, and a working set.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::array::{Array, LINE, Pages, touch};
use super::place::{on, pin};
use super::reading::{Reading, repeat};

/// A word that has its line, and the next one, to itself.
#[repr(align(128))]
struct Apart(AtomicU64);

/// Fetching a line that the other CPU wrote last: half of a round trip.
pub fn transfer_ns(here: usize, there: usize) -> io::Result<Option<Reading>> {
    const TURNS: u64 = 100;
    const SAMPLES: usize = 100;
    let (word, stop) = (Apart(AtomicU64::new(0)), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pin(there);
            while !stop.load(Ordering::Relaxed) {
                let seen = word.0.load(Ordering::Acquire);
                if seen % 2 == 1 {
                    word.0.store(seen + 1, Ordering::Release);
                }
                std::hint::spin_loop();
            }
        });
        let measured = on(here, || {
            let mut at = 0;
            let mut once = || {
                let start = Instant::now();
                for _ in 0..TURNS {
                    word.0.store(at + 1, Ordering::Release);
                    at += 2;
                    while word.0.load(Ordering::Acquire) != at {
                        std::hint::spin_loop();
                    }
                }
                start.elapsed().as_nanos() as f64 / (2 * TURNS) as f64
            };
            Reading::of(&repeat(SAMPLES, &mut once))
        });
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

/// The time that a task loses when it continues on the other CPU after it wrote so many bytes: its first round there
/// less a further one.
pub fn refetch_ns(here: usize, there: usize, bytes: usize) -> io::Result<Option<Reading>> {
    const SAMPLES: usize = 80;
    let lines = (bytes / LINE).next_power_of_two();
    on(here, || {
        let mut array = Array::new(lines * LINE, Pages::Small)?;
        let mut first = Vec::with_capacity(SAMPLES);
        let mut again = Vec::with_capacity(SAMPLES);
        for _ in 0..SAMPLES {
            pin(here)?;
            array.words_mut().fill(3);
            touch(array.words(), lines);
            pin(there)?;
            let round = || {
                let start = Instant::now();
                touch(array.words(), lines);
                start.elapsed().as_nanos() as f64
            };
            first.push(round());
            again.push(round());
        }
        let (first, again) = (Reading::of(&first), Reading::of(&again));
        Ok(first.zip(again).map(|(first, again)| first.less(&again)))
    })?
}
