// SPDX-License-Identifier: GPL-2.0-only
//! Handles Ctrl-C and similar signals. Nothing is left behind: temporary files are in one folder ([`scratch`]), which
//! is removed with the process. Unfinished files beside a user's file are removed too.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::iterator;
use tempfile::TempDir;

use crate::Failure;
use crate::{output, scratch};

/// Creates the folder. On Ctrl-C, a hangup or SIGTERM removes it, and unfinished files. Guests end with the process
/// that started them. The folder is also removed when this is dropped; a killed process's folder, by the next process.
pub fn guard() -> Result<TempDir, Failure> {
    scratch::remove_abandoned(&std::env::temp_dir());
    let scratch = scratch::folder()?;
    let path = scratch.path().to_path_buf();
    tempfile::env::override_temp_dir(&path).map_err(|_| scratch::no_room(&"it was set before"))?;
    ends_with(move || scratch::remove(&path))?;
    Ok(scratch)
}

/// Makes Ctrl-C, a hangup and SIGTERM remove unfinished files, and end this process.
pub fn ends() -> Result<(), Failure> {
    ends_with(|| {})
}

/// What is called before a signal ends this process.
static CLEANUPS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// When a signal ends this process, `clean` is called too: other crates have files to remove.
pub fn register_cleanup(clean: fn()) {
    CLEANUPS.lock().unwrap_or_else(PoisonError::into_inner).push(clean);
}

fn ends_with(before: impl Fn() + Send + 'static) -> Result<(), Failure> {
    // Signals that nohup ignores do not end it.
    let mut signals =
        iterator::Signals::new(heeded(SIGNALS)).map_err(|error| cannot_watch(&error))?;
    live::end_as_killed().map_err(|error| cannot_watch(&error))?;
    thread::spawn(move || {
        let _ = signals.forever().find(|_| !WATCHED.load(Ordering::SeqCst));
        before();
        let cleanups = CLEANUPS.lock().unwrap_or_else(PoisonError::into_inner);
        cleanups.iter().for_each(|clean| clean());
        output::say("\npaceline: interrupted");
        report::remove_unfinished();
        std::process::exit(130);
    });
    Ok(())
}

/// Ctrl-C, SIGTERM and a hangup.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// [`Signals`] watches for signals, so they do not end this process.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Watches for Ctrl-C, hangups and SIGTERM; after this is dropped they act as before.
pub struct Signals {
    /// The number of the last signal; 0: none.
    last: Arc<AtomicUsize>,
}

impl Signals {
    /// Begins to watch.
    pub fn watch() -> Result<Self, Failure> {
        let last = Arc::new(AtomicUsize::new(0));
        for signal in heeded(SIGNALS) {
            signal_hook::flag::register_usize(signal, last.clone(), signal as usize)
                .map_err(|error| cannot_watch(&error))?;
        }
        // A signal before this ends the process, or can be taken.
        WATCHED.store(true, Ordering::SeqCst);
        Ok(Signals { last })
    }

    /// The last signal since the previous call.
    pub fn take(&self) -> Option<i32> {
        let last = self.last.swap(0, Ordering::SeqCst);
        (last != 0).then_some(last as i32)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        WATCHED.store(false, Ordering::SeqCst);
    }
}

/// Set by Ctrl-C, a hangup, SIGTERM or Ctrl-Z. A process with a policy in charge must not be stopped, not even by
/// writing to its terminal.
pub fn in_charge() -> Result<Arc<AtomicBool>, Failure> {
    live::speak_from_background();
    live::end_as_killed().map_err(|error| cannot_watch(&error))?;
    set_by(SIGNALS.into_iter().chain([SIGTSTP]))
}

/// The same for a service: a hangup sets the second flag alone.
pub fn in_service() -> Result<[Arc<AtomicBool>; 2], Failure> {
    live::speak_from_background();
    live::end_as_killed().map_err(|error| cannot_watch(&error))?;
    Ok([set_by([SIGINT, SIGTERM, SIGTSTP])?, set_by([SIGHUP])?])
}

/// Resets the signals to their default actions.
pub fn heed_no_more() {
    SIGNALS.into_iter().chain([SIGTSTP]).for_each(live::unhandle);
    live::end_as_others();
}

/// Set by Ctrl-Z.
pub fn suspends() -> Result<Arc<AtomicBool>, Failure> {
    set_by([SIGTSTP])
}

/// The flag is set in the signal's handler itself: the policy might not run a thread that waits for signals.
fn set_by(signals: impl IntoIterator<Item = i32>) -> Result<Arc<AtomicBool>, Failure> {
    let set = Arc::new(AtomicBool::new(false));
    for signal in heeded(signals) {
        signal_hook::flag::register(signal, set.clone()).map_err(|error| cannot_watch(&error))?;
    }
    Ok(set)
}

/// Makes a file at its size limit (`ulimit -f`) count as a full disk. The write then reports it; the signal would end
/// this process and leave unfinished files.
pub fn outlive_file_limits() {
    // Handled and not ignored, because started programs inherit ignored signals.
    if !live::is_ignored(SIGXFSZ) {
        // If that fails, it ends this process as any program.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    }
}

/// The signals that this process was not started to ignore.
fn heeded(signals: impl IntoIterator<Item = i32>) -> impl Iterator<Item = i32> {
    signals.into_iter().filter(|signal| !is_to_be_ignored(*signal))
}

/// Whether this process was started to ignore a signal, as by `nohup`. SIGINT is heeded all the same: a script starts
/// every background program with it ignored, and ends a policy by `kill -INT`.
fn is_to_be_ignored(signal: i32) -> bool {
    signal != SIGINT && live::is_ignored(signal)
}

fn cannot_watch(error: &dyn Display) -> Failure {
    Failure::run(format!("cannot watch for Ctrl-C: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_has_it_ignore_stays_ignored() {
        for (signal, stays) in [(SIGHUP, true), (SIGINT, false)] {
            live::ignore(signal);
            let _set = set_by([signal]).unwrap();
            assert_eq!(live::is_ignored(signal), stays, "{signal}");
        }
        live::unhandle(SIGINT);
    }
}
