// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C leaves nothing behind: temporary files live in one folder, which goes with the process.

use std::fs;

use tempfile::TempDir;

use crate::failure::Failure;
use crate::output;

/// Makes the folder and answers Ctrl-C, a hangup and a polite kill by removing it. Guests end with
/// the process that started them. The folder is also removed when this is dropped.
pub fn guard() -> Result<TempDir, Failure> {
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::input(format!(
            "cannot make a temporary folder: {error}; set TMPDIR to one with room"
        ))
    };
    let scratch = tempfile::Builder::new().prefix("paceline-").tempdir().map_err(|e| cannot(&e))?;
    let path = scratch.path().to_path_buf();
    tempfile::env::override_temp_dir(&path).map_err(|_| cannot(&"it was set before"))?;
    ctrlc::set_handler(move || {
        // There is nobody left to tell if this fails.
        let _ = fs::remove_dir_all(&path);
        vm::kernel::forget_fetch();
        output::say("\npaceline: interrupted");
        std::process::exit(130);
    })
    .map_err(|error| Failure::run(format!("cannot watch for Ctrl-C: {error}")))?;
    Ok(scratch)
}
