// SPDX-License-Identifier: GPL-2.0-only
//! Costs of single calls into the kernel, and a processor's part of them.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::place::{on, pin};
use super::reading::{Reading, repeat};

const SAMPLES: usize = 60;

/// Time of one of many calls, in ns.
fn each<T>(calls: u32, mut call: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Into the kernel and back: getppid, which does next to nothing there.
pub fn syscall_ns(cpu: usize) -> io::Result<Option<Reading>> {
    on(cpu, || {
        let once = || each(1000, rustix::process::getppid);
        Reading::of(&repeat(SAMPLES, once))
    })
}

/// An atomic operation on a line that this CPU owns.
pub fn atomic_ns(cpu: usize) -> io::Result<Option<Reading>> {
    on(cpu, || {
        let word = AtomicU64::new(0);
        let once = || each(2000, || word.fetch_add(1, Ordering::SeqCst));
        Reading::of(&repeat(SAMPLES, once))
    })
}

/// Copying a byte between user and kernel: pages through a pipe, less single bytes through it.
pub fn copy_byte_ns(cpu: usize) -> io::Result<Option<Reading>> {
    const PAGE: usize = 4096;
    on(cpu, || {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut buffer = [1u8; PAGE];
        let mut through = |bytes: usize| {
            repeat(SAMPLES, || {
                each(200, || {
                    let _ = rustix::io::write(&write, &buffer[..bytes]);
                    let _ = rustix::io::read(&read, &mut buffer[..bytes]);
                })
            })
        };
        let (one, page) = (Reading::of(&through(1)), Reading::of(&through(PAGE)));
        // Each byte is copied twice, in and out.
        let per_byte = 1.0 / (2.0 * (PAGE as f64 - 1.0));
        Ok(one.zip(page).map(|(one, page)| page.less(&one).times(per_byte)))
    })?
}

/// Programming the timer's hardware: setting a timer that becomes the next one to expire, less setting one that does
/// not.
pub fn timer_ns(cpu: usize) -> io::Result<Option<Reading>> {
    const NEXT_NS: i64 = 300_000;
    const FAR_NS: i64 = 900_000_000;
    on(cpu, || {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let set = |ns: i64| {
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value =
                Itimerspec { it_interval: none, it_value: Timespec { tv_sec: 0, tv_nsec: ns } };
            let _ = timerfd_settime(&timer, TimerfdTimerFlags::empty(), &value);
        };
        let of = |ns: i64| Reading::of(&repeat(SAMPLES, || each(100, || set(ns))));
        let (far, next) = (of(FAR_NS), of(NEXT_NS));
        Ok(far.zip(next).map(|(far, next)| next.less(&far)))
    })?
}

/// How late timers may be for this process, in ns.
pub fn timer_slack_ns() -> Option<f64> {
    // SAFETY: plain numbers
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    (slack >= 0).then_some(f64::from(slack))
}

/// Time from interrupting another CPU until it has answered: membarrier(2), while a thread of this process runs there.
/// None: the kernel has no such call.
pub fn barrier_ns(here: usize, there: usize) -> io::Result<Option<Reading>> {
    const REGISTER: i32 = 1 << 4; // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
    const EXPEDITED: i32 = 1 << 3; // MEMBARRIER_CMD_PRIVATE_EXPEDITED
    // SAFETY: plain numbers
    let barrier = |command: i32| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    if barrier(REGISTER) != 0 {
        return Ok(None);
    }
    let (stop, runs) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pin(there);
            while !stop.load(Ordering::Relaxed) {
                runs.store(true, Ordering::Relaxed);
                std::hint::spin_loop();
            }
        });
        let measured = on(here, || {
            while !runs.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            Reading::of(&repeat(4 * SAMPLES, || each(5, || barrier(EXPEDITED))))
        });
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

#[cfg(test)]
mod tests {
    use super::super::place;
    use super::*;

    #[test]
    fn calls_take_time() {
        let cpu = place().unwrap().cpus[0];
        let some = [syscall_ns(cpu), atomic_ns(cpu)];
        for reading in some.into_iter().filter_map(|reading| reading.unwrap()) {
            assert!(0.0 < reading.low && reading.low <= reading.high, "{reading:?}");
        }
        assert!(copy_byte_ns(cpu).unwrap().is_none_or(|reading| reading.median < 1e6));
        assert!(timer_ns(cpu).unwrap().is_none_or(|reading| reading.median < 1e9));
    }
}
