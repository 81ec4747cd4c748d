// SPDX-License-Identifier: GPL-2.0-only
//! A CPU's time for writing an event down. Two threads of one CPU that wake each other in turn are timed without the
//! recorder and with it. So is a thread that moves a byte through a pipe of its own.

use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Turns of each thread that are timed together, and how often: other activity on the machine makes some longer.
const TURNS: u32 = 100;
const ROUNDS: usize = 10;

/// Times, ns; each the least of several rounds.
#[derive(Clone, Copy)]
pub(crate) struct Timed {
    /// From one thread's turn to the other's: a wakeup, a switch, a read and a write.
    turn_ns: f64,
    /// A read or a write.
    call_ns: f64,
}

impl Timed {
    pub(crate) fn take() -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        sched_setaffinity(None, &here)?;
        let timed = turns_ns().and_then(|turn_ns| Ok(Timed { turn_ns, call_ns: calls_ns()? }));
        sched_setaffinity(None, &before)?;
        timed
    }

    /// Time that recording adds to a wakeup or a switch, and to a call, ns.
    pub(crate) fn more_than(self, alone: Timed) -> (f64, f64) {
        let call_ns = (self.call_ns - alone.call_ns).max(0.0);
        let event_ns = (self.turn_ns - alone.turn_ns) / 2.0 - call_ns;
        (event_ns.max(0.0), call_ns)
    }
}

fn calls_ns() -> io::Result<f64> {
    let (mut from, mut to) = pipe()?;
    least_ns(2, || {
        to.write_all(&[0])?;
        from.read_exact(&mut [0])
    })
}

fn least_ns(parts: u32, mut round: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..TURNS {
            round()?;
        }
        least = least.min(started.elapsed().as_nanos() as f64 / f64::from(parts * TURNS));
    }
    Ok(least)
}

fn turns_ns() -> io::Result<f64> {
    let (mut from_main, mut to_other) = pipe()?;
    let (mut from_other, mut to_main) = pipe()?;
    let other = thread::Builder::new()
        .name("pace".into())
        .spawn(move || while pass(&mut from_main, &mut to_main).is_ok() {})?;
    let least_ns = least_ns(2, || {
        to_other.write_all(&[0])?;
        from_other.read_exact(&mut [0])
    });
    drop(to_other);
    let _ = other.join();
    least_ns
}

fn pass(from: &mut PipeReader, to: &mut PipeWriter) -> io::Result<()> {
    from.read_exact(&mut [0])?;
    to.write_all(&[0])
}
