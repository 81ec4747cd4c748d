// SPDX-License-Identifier: GPL-2.0-only
//! Who watches for Ctrl-C and its like. It leaves nothing behind: temporary files live in one folder ([`scratch`]),
//! which goes with the process, and those that are made beside a user's file go, too.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};
use tempfile::TempDir;

use crate::failure::Failure;
use crate::{output, scratch};

/// Makes the folder and answers Ctrl-C, a hangup and a polite kill by removing it, and files that are half written.
/// Guests end with the process that started them. The folder is also removed when this is dropped; that of a process
/// which was killed, by the next one.
pub fn guard() -> Result<TempDir, Failure> {
    scratch::remove_abandoned(&std::env::temp_dir());
    let scratch = scratch::folder()?;
    let path = scratch.path().to_path_buf();
    tempfile::env::override_temp_dir(&path).map_err(|_| scratch::no_room(&"it was set before"))?;
    ends_with(move || scratch::remove(&path))?;
    Ok(scratch)
}

/// Has Ctrl-C, a hangup and a polite kill remove files that are half written, and end this process.
pub fn ends() -> Result<(), Failure> {
    ends_with(|| {})
}

fn ends_with(before: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let ignored = SIGNALS.map(|signal| (signal, is_to_be_ignored(signal)));
    ctrlc::set_handler(move || {
        if WATCHED.load(Ordering::SeqCst) {
            return;
        }
        before();
        vm::kernel::forget_fetch();
        output::say("\npaceline: interrupted");
        report::remove_unfinished();
        std::process::exit(130);
    })
    .map_err(|error| cannot_watch(&error))?;
    live::end_as_killed().map_err(|error| cannot_watch(&error))?;
    // What nohup has it ignore does not end it.
    ignored.iter().filter(|(_, ignored)| *ignored).for_each(|(signal, _)| live::ignore(*signal));
    Ok(())
}

/// Ctrl-C, a polite kill and a hangup.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Somebody watches for signals; they do not end this process.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Watches for Ctrl-C, hangups and polite kills; once this is dropped they do again what they did before.
pub struct Signals {
    /// The number of the last one; 0: none has come.
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
        // One that comes before this ends the process, or is there to be taken.
        WATCHED.store(true, Ordering::SeqCst);
        Ok(Signals { last })
    }

    /// The last one that has come since this was asked before.
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

/// Set by Ctrl-C, a hangup, a polite kill or Ctrl-Z: nobody is to be stopped with a policy in charge, nor for what it
/// says.
pub fn in_charge() -> Result<Arc<AtomicBool>, Failure> {
    live::speak_from_background();
    live::end_as_killed().map_err(|error| cannot_watch(&error))?;
    set_by(SIGNALS.into_iter().chain([SIGTSTP]))
}

/// From now on they do what they do to any program.
pub fn heed_no_more() {
    SIGNALS.into_iter().chain([SIGTSTP]).for_each(live::unhandle);
    live::end_as_others();
}

/// Set by Ctrl-Z.
pub fn suspends() -> Result<Arc<AtomicBool>, Failure> {
    set_by([SIGTSTP])
}

/// In the signal's handler itself: a thread that waits for signals would be the policy's to run, or not.
fn set_by(signals: impl IntoIterator<Item = i32>) -> Result<Arc<AtomicBool>, Failure> {
    let set = Arc::new(AtomicBool::new(false));
    for signal in heeded(signals) {
        signal_hook::flag::register(signal, set.clone()).map_err(|error| cannot_watch(&error))?;
    }
    Ok(set)
}

/// A file that may grow no more (`ulimit -f`) is a full disk: the write says so, where the signal would end this process
/// with its files half written.
pub fn outlive_file_limits() {
    // A handler, and not to ignore it: programs that are started here have the signal as it was.
    if !live::is_ignored(SIGXFSZ) {
        // Without one it ends as all programs do.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    }
}

/// Those of them that this process is not to ignore.
fn heeded(signals: impl IntoIterator<Item = i32>) -> impl Iterator<Item = i32> {
    signals.into_iter().filter(|signal| !is_to_be_ignored(*signal))
}

/// Whether this process was started to ignore a signal, as by `nohup`, and does. SIGINT it heeds all the same: a script
/// starts all so that is to run in the background, and takes a policy out by `kill -INT`.
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
