// SPDX-License-Identifier: GPL-2.0-only
//! Finds the emulator: QEMU of the distribution, or the one that script/parallel-qemu builds.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::closure::which;
use crate::kernel::user_cache;
use crate::{BadInput, Clock};

/// QEMU of the distribution.
const PROGRAM: &str = "qemu-system-x86_64";

/// The header of what we add to QEMU; it has the version.
const HEADER: &str = include_str!("../qemu/parallel.h");

/// Advice to a user without the emulator for `--clock parallel`.
const MEND: &str = "run script/parallel-qemu, which builds one, or name it with --qemu FILE; --clock dilated works without";

/// The emulator for a clock: the named one, else the distribution's or the one that was built.
pub fn emulator(named: Option<&Path>, clock: Clock) -> Result<PathBuf, BadInput> {
    match (named, clock) {
        (Some(named), Clock::Parallel) => checked(named),
        (Some(named), _) => which(named.as_os_str()),
        (None, Clock::Parallel) => {
            let place = place().filter(|place| place.exists());
            checked(
                &place.ok_or_else(|| BadInput(format!("--clock parallel: no emulator; {MEND}")))?,
            )
        }
        (None, _) => which(PROGRAM.as_ref())
            .map_err(|_| BadInput(format!("{PROGRAM} is missing; install qemu-system-x86"))),
    }
}

/// Where script/parallel-qemu puts it.
fn place() -> Option<PathBuf> {
    Some(user_cache()?.join("parallel-qemu").join(PROGRAM))
}

/// An emulator with our turns, of this version.
fn checked(emulator: &Path) -> Result<PathBuf, BadInput> {
    let program = which(emulator.as_os_str())?;
    let bad = |why: String| BadInput(format!("{}: {why}; {MEND}", program.display()));
    let told = Command::new(&program).arg("--version").output();
    let told = told.map_err(|error| bad(format!("it does not run: {error}")))?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    match told.contains(&format!("({})", mark())) {
        true => Ok(program),
        false => {
            let line = told.lines().next().unwrap_or("it tells no version");
            Err(bad(format!("it has no \"{}\": {line}", mark())))
        }
    }
}

/// What `--version` says of an emulator with our turns.
fn mark() -> String {
    let version = HEADER.lines().find_map(|line| line.strip_prefix("#define PARALLEL_VERSION "));
    format!("parallel turns {}", version.expect("the header has its version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_without_parallel_turns_is_refused() {
        let refused = checked(Path::new("/bin/true")).unwrap_err().to_string();
        assert!(refused.contains("it has no \"parallel turns"), "{refused}");
        assert!(refused.contains("script/parallel-qemu"), "{refused}");
        assert!(emulator(Some(Path::new("/nowhere")), Clock::Parallel).is_err());
    }
}
