// SPDX-License-Identifier: GPL-2.0-only
//! What it takes a CPU to write an event down: two threads of one CPU that wake each other in turn are timed
//! without the recorder and with it.

use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Turns of each thread that are timed together, and how often: what else the machine does makes some longer.
const TURNS: u32 = 100;
const ROUNDS: usize = 10;

/// From one thread's turn to the other's, ns: a wakeup, a switch, a read and a write. The least of some rounds.
pub(crate) fn turn_ns() -> io::Result<f64> {
    let before = sched_getaffinity(None)?;
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here)?;
    let timed = timed();
    sched_setaffinity(None, &before)?;
    timed
}

fn timed() -> io::Result<f64> {
    let (mut from_main, mut to_other) = pipe()?;
    let (mut from_other, mut to_main) = pipe()?;
    let other = thread::Builder::new()
        .name("pace".into())
        .spawn(move || while pass(&mut from_main, &mut to_main).is_ok() {})?;
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..TURNS {
            to_other.write_all(&[0])?;
            from_other.read_exact(&mut [0])?;
        }
        least = least.min(started.elapsed().as_nanos() as f64 / f64::from(2 * TURNS));
    }
    drop(to_other);
    let _ = other.join();
    Ok(least)
}

fn pass(from: &mut PipeReader, to: &mut PipeWriter) -> io::Result<()> {
    from.read_exact(&mut [0])?;
    to.write_all(&[0])
}
