// SPDX-License-Identifier: GPL-2.0-only
//! Who watches for Ctrl-C and its like. It leaves nothing behind: temporary files live in one folder, which goes with the
//! process, and those that are made beside a user's file go, too.

use std::fmt::Display;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fs, io};

use rustix::fs::{FlockOperation, OFlags, flock};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};
use tempfile::TempDir;

use crate::failure::Failure;
use crate::output;

/// Makes the folder and answers Ctrl-C, a hangup and a polite kill by removing it, and files that are half written.
/// Guests end with the process that started them. The folder is also removed when this is dropped; that of a process which
/// was killed, by the next one.
pub fn guard() -> Result<TempDir, Failure> {
    remove_abandoned(&std::env::temp_dir());
    let scratch = scratch()?;
    let path = scratch.path().to_path_buf();
    tempfile::env::override_temp_dir(&path).map_err(|_| no_scratch(&"it was set before"))?;
    ends_with(move || remove(&path))?;
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

/// A temporary folder, which goes when this is dropped.
pub fn scratch() -> Result<TempDir, Failure> {
    let made = tempfile::Builder::new().prefix(PREFIX).tempdir().and_then(|folder| {
        hold(folder.path())?;
        Ok(folder)
    });
    made.map_err(|error| no_scratch(&error))
}

/// What temporary folders are called, and in each the file that is locked for as long as its process is there: numbers of
/// processes say nothing where containers share a folder.
const PREFIX: &str = "paceline-";
const HELD: &str = ".held";

/// Nobody finds the file before it is locked.
fn hold(folder: &Path) -> io::Result<()> {
    let (unseen, seen) = (folder.join(".unheld"), folder.join(HELD));
    let file = File::create_new(&unseen)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    fs::rename(unseen, seen)?;
    // Until this process ends.
    std::mem::forget(file);
    Ok(())
}

/// Removes folders of processes that could not do it themselves. What cannot be removed hurts nobody.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let held = (is_one && is_own(&entry)).then(|| open_held(&entry.path())).flatten();
        if held.is_some_and(|held| flock(held, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a folder is of this user's making: in a folder that all may write to, others may make what they like.
fn is_own(entry: &fs::DirEntry) -> bool {
    let own = rustix::process::geteuid().as_raw();
    entry.metadata().is_ok_and(|folder| folder.is_dir() && folder.uid() == own)
}

/// A pipe is not waited for, nor a link followed.
fn open_held(folder: &Path) -> Option<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(folder.join(HELD));
    file.ok().filter(|file| file.metadata().is_ok_and(|file| file.is_file()))
}

/// There is no room for temporary files.
pub fn no_scratch(error: &dyn Display) -> Failure {
    Failure::input(format!(
        "cannot make temporary files: {error}; set TMPDIR to a folder with room"
    ))
}

/// Removes a folder that other threads may still be filling: what they make while it is being emptied
/// is found the next time, and once it is gone they can make nothing in it.
fn remove(folder: &Path) {
    const TRIES: usize = 1000;
    // There is nobody left to tell if none of them succeeds.
    let gone = |error: io::Error| error.kind() == io::ErrorKind::NotFound && !folder.exists();
    let _ = (0..TRIES).any(|_| fs::remove_dir_all(folder).map_or_else(gone, |()| true));
}

#[cfg(test)]
mod tests {
    use std::thread;

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

    #[test]
    fn folders_go_whose_process_is_gone() {
        let all = tempfile::tempdir().unwrap();
        // Of somebody who would have this wait for ever, or open what it leads to.
        let other = all.path().join("paceline-trap");
        fs::create_dir(&other).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            other.join(HELD),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        for name in ["paceline-held", "paceline-left", "paceline-new", "other"] {
            fs::create_dir(all.path().join(name)).unwrap();
        }
        hold(&all.path().join("paceline-held")).unwrap();
        for name in ["paceline-left", "other"] {
            fs::write(all.path().join(name).join(HELD), "").unwrap();
        }
        remove_abandoned(all.path());
        let left = ["paceline-held", "paceline-left", "paceline-new", "other"]
            .map(|name| all.path().join(name).exists());
        assert_eq!(left, [true, false, true, true]);
        assert!(other.exists());
    }

    #[test]
    fn a_folder_that_is_being_filled_goes_all_the_same() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("busy");
        let made = AtomicUsize::new(0);
        for _ in 0..20 {
            fs::create_dir(&folder).unwrap();
            made.store(0, Ordering::Relaxed);
            thread::scope(|scope| {
                // Ends when it can make nothing any more, or has made more than a comparison does.
                scope.spawn(|| {
                    for number in 0..500 {
                        made.fetch_add(1, Ordering::Relaxed);
                        if fs::write(folder.join(number.to_string()), "").is_err() {
                            break;
                        }
                    }
                });
                while made.load(Ordering::Relaxed) < 20 {
                    thread::yield_now();
                }
                remove(&folder);
                assert!(!folder.exists());
            });
        }
    }
}
