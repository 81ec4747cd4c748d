// SPDX-License-Identifier: GPL-2.0-only
//! Temporary folders: each is locked as long as its process exists, and removed with it or after it.

use std::fmt::Display;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::{fs, io};

use rustix::fs::{FlockOperation, OFlags, flock};
use tempfile::TempDir;

use crate::Failure;

/// A temporary folder, removed when this is dropped.
pub fn folder() -> Result<TempDir, Failure> {
    let made = tempfile::Builder::new().prefix(PREFIX).tempdir().and_then(|folder| {
        hold(folder.path())?;
        Ok(folder)
    });
    made.map_err(|error| no_room(&error))
}

/// Prefix of temporary folders' names. A file in each is locked as long as its process exists: process numbers are
/// ambiguous if containers share a folder.
const PREFIX: &str = "paceline-";
const HELD: &str = ".held";

/// Creates the lock file. It is locked before it is visible.
fn hold(folder: &Path) -> io::Result<()> {
    let (unseen, seen) = (folder.join(".unheld"), folder.join(HELD));
    let file = File::create_new(&unseen)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    fs::rename(unseen, seen)?;
    // Locked until this process ends.
    std::mem::forget(file);
    Ok(())
}

/// Removes folders of processes that could not do it themselves. A folder that cannot be removed does no harm.
pub fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let held = (is_one && is_own(&entry)).then(|| open_held(&entry.path())).flatten();
        if held.is_some_and(|held| flock(held, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a folder is this user's: in a folder that all may write to, other users may create anything.
fn is_own(entry: &fs::DirEntry) -> bool {
    let own = rustix::process::geteuid().as_raw();
    entry.metadata().is_ok_and(|folder| folder.is_dir() && folder.uid() == own)
}

/// Opens the lock file without waiting for a pipe or following a link.
fn open_held(folder: &Path) -> Option<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(folder.join(HELD));
    file.ok().filter(|file| file.metadata().is_ok_and(|file| file.is_file()))
}

/// The error for a lack of room for temporary files.
pub fn no_room(error: &dyn Display) -> Failure {
    Failure::input(format!(
        "cannot make temporary files: {error}; set TMPDIR to a folder with room"
    ))
}

/// Removes a folder that other threads may still be filling. Files that appear while it is being emptied are found the
/// next time; after it is gone no more can appear.
pub fn remove(folder: &Path) {
    const TRIES: usize = 1000;
    // There is no caller to report to if none of them succeeds.
    let gone = |error: io::Error| error.kind() == io::ErrorKind::NotFound && !folder.exists();
    let _ = (0..TRIES).any(|_| fs::remove_dir_all(folder).map_or_else(gone, |()| true));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn folders_of_ended_processes_are_removed() {
        let all = tempfile::tempdir().unwrap();
        // A trap of another user: it would block this process, or make it open the link's target.
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
                // Ends when it can create nothing any more, or has created more than a comparison does.
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
