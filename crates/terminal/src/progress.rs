// SPDX-License-Identifier: GPL-2.0-only
//! Progress for a waiting user: on standard error, which otherwise has only errors.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::text::visible;

use crate::output;

/// If no bar can move, a line says how far it is this often.
const LINES: Duration = Duration::from_secs(10);

const QUIET: u8 = 0;
const USUAL: u8 = 1;
const VERBOSE: u8 = 2;

/// How much is printed.
static SAYS: AtomicU8 = AtomicU8::new(USUAL);

/// Makes progress silent (`-q`), or print each step on a line of its own (`-v`).
pub fn say_as_much_as(quiet: bool, verbose: bool) {
    let says = if quiet {
        QUIET
    } else if verbose {
        VERBOSE
    } else {
        USUAL
    };
    SAYS.store(says, Ordering::Relaxed);
}

/// Bars on a terminal; elsewhere a line for each phase, and one every ten seconds. No text of it can control the
/// terminal.
pub struct Progress {
    bars: MultiProgress,
    own: Option<ProgressBar>,
    lines: Option<Lines>,
    says: u8,
}

impl Progress {
    /// Progress with this many steps.
    pub fn new(steps: u64) -> Self {
        let says = SAYS.load(Ordering::Relaxed);
        let bars = MultiProgress::new();
        if says == QUIET {
            bars.set_draw_target(ProgressDrawTarget::hidden());
        }
        let moves = says == USUAL && stderr().is_terminal();
        let own = moves.then(|| bars.add(bar(steps)));
        let lines = (!moves && says != QUIET).then(|| Lines::new(steps));
        Progress { bars, own, lines, says }
    }

    /// Begins a phase.
    pub fn phase(&self, text: &str) {
        if let Some(bar) = &self.own {
            bar.set_message(visible(text));
        }
        if let Some(lines) = &self.lines {
            lines.far().now = text.to_string();
            output::say(text);
        }
    }

    /// Prints a result that is known already, and would be lost if the rest were cut short.
    pub fn known(&self, text: &str) {
        match &self.own {
            Some(bar) => bar.println(visible(text)),
            None if self.says == QUIET => {}
            None => output::say(text),
        }
    }

    /// Prints a ground's progress if its bars are not visible.
    pub fn log(&self) -> Option<fn(&str)> {
        self.lines.is_some().then_some(output::say)
    }

    /// Shows the progress within the present phase; too frequent for a log.
    pub fn detail(&self, text: &str) {
        if let Some(bar) = &self.own {
            bar.set_message(visible(text));
        }
        if let Some(lines) = &self.lines {
            lines.far().now = text.to_string();
            if self.says == VERBOSE {
                output::say(text);
            }
        }
    }

    /// Counts a finished step.
    pub fn step(&self) {
        if let Some(bar) = &self.own {
            bar.inc(1);
        }
        if let Some(lines) = &self.lines {
            lines.far().done += 1;
        }
    }

    /// The place for a ground's own bars.
    pub fn bars(&self) -> &MultiProgress {
        &self.bars
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.own {
            bar.finish_and_clear();
        }
    }
}

/// The present progress.
struct Far {
    now: String,
    done: u64,
    of: u64,
    begun: Instant,
}

impl Far {
    fn line(&self) -> String {
        let passed = self.begun.elapsed();
        let left = match self.done {
            0 => String::new(),
            done => {
                let left = passed.mul_f64(self.of.saturating_sub(done) as f64 / done as f64);
                format!(", about {} left", said(left))
            }
        };
        let done = if self.of > 1 {
            format!("{} of {} done, ", self.done, self.of)
        } else {
            String::new()
        };
        format!("{}: {done}{} passed{left}", self.now, said(passed))
    }
}

/// Lines about the progress, from a thread of their own.
struct Lines {
    far: Arc<Mutex<Far>>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Lines {
    fn new(of: u64) -> Self {
        let far = Far { now: String::new(), done: 0, of, begun: Instant::now() };
        let far = Arc::new(Mutex::new(far));
        let (end, ended) = channel::<()>();
        let own = far.clone();
        let thread = thread::spawn(move || {
            while ended.recv_timeout(LINES) == Err(RecvTimeoutError::Timeout) {
                let line = own.lock().unwrap_or_else(PoisonError::into_inner).line();
                output::say(&line);
            }
        });
        Lines { far, end: Some(end), thread: Some(thread) }
    }
}

impl Lines {
    fn far(&self) -> MutexGuard<'_, Far> {
        self.far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A time such as `40 s`, `3 min 20 s`.
fn said(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = match steps {
        0 | 1 => "{spinner} {elapsed} {wide_msg}",
        _ => "{spinner} {elapsed} {bar:20} {pos}/{len}, {eta} left {wide_msg}",
    };
    bar.set_style(ProgressStyle::with_template(style).expect("the template is sound"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_how_long_it_takes_still() {
        let begun = Instant::now().checked_sub(Duration::from_secs(30)).unwrap();
        let far = |done, of| Far { now: "runs".into(), done, of, begun }.line();
        assert_eq!(far(0, 1), "runs: 30 s passed");
        assert_eq!(far(3, 9), "runs: 3 of 9 done, 30 s passed, about 60 s left");
        assert_eq!(said(Duration::from_secs(400)), "6 min 40 s");
    }
}
