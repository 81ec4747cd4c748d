// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C leaves nothing behind: temporary files live in one folder, which goes with the process, and those that are
//! made beside a user's file go, too.

use std::fmt::Display;
use std::path::Path;
use std::{fs, io};

use tempfile::TempDir;

use crate::failure::Failure;
use crate::output;

/// Makes the folder and answers Ctrl-C, a hangup and a polite kill by removing it, and files that are half written.
/// Guests end with the process that started them. The folder is also removed when this is dropped.
pub fn guard() -> Result<TempDir, Failure> {
    let scratch = scratch()?;
    let path = scratch.path().to_path_buf();
    tempfile::env::override_temp_dir(&path).map_err(|_| no_scratch(&"it was set before"))?;
    removes(&path)?;
    Ok(scratch)
}

/// Has Ctrl-C, a hangup and a polite kill remove a folder and end this process.
pub fn removes(folder: &Path) -> Result<(), Failure> {
    let path = folder.to_path_buf();
    ctrlc::set_handler(move || {
        remove(&path);
        vm::kernel::forget_fetch();
        output::say("\npaceline: interrupted");
        report::remove_unfinished();
        std::process::exit(130);
    })
    .map_err(|error| Failure::run(format!("cannot watch for Ctrl-C: {error}")))
}

/// A temporary folder, which goes when this is dropped.
pub fn scratch() -> Result<TempDir, Failure> {
    tempfile::Builder::new().prefix("paceline-").tempdir().map_err(|error| no_scratch(&error))
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

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
