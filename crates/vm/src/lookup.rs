// SPDX-License-Identifier: GPL-2.0-only
//! Programs that a command line calls and that its machine lacks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::BadInput;
use crate::closure::which;
use crate::shell::calls;

/// A program, or a shell's script, that does not exist where it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The word in the command line.
    pub word: String,
    /// Its place on this machine, if it has one.
    pub here: Option<PathBuf>,
    /// It is called for certain: no condition in the command line decides it.
    pub sure: bool,
}

/// Programs in a command line that `is_there` does not know, by name or path. Programs that the words do not show are
/// left out.
pub fn missing(argv: &[OsString], program: &Path, is_there: &dyn Fn(&str) -> bool) -> Vec<Missing> {
    let mut missing = Vec::new();
    for call in calls(argv, program) {
        // The program that another program starts: the first word that is a program on any machine.
        let is_one =
            |word: &&String| call.words.len() == 1 || is_there(word) || here(word).is_some();
        let Some(word) = call.words.iter().find(is_one) else { continue };
        if is_there(word) {
            continue;
        }
        let here = match call.is_script {
            true => Some(PathBuf::from(word)).filter(|path| path.is_file()),
            false => here(word),
        };
        // A file that does not exist yet may be made before it is called.
        let may_come = word.contains('/') && here.is_none() && !call.is_script;
        if !may_come {
            missing.push(Missing { word: word.clone(), here, sure: call.sure });
        }
    }
    missing
}

fn here(word: &str) -> Option<PathBuf> {
    // Numbers and options of the shell are no programs, whatever is in the current folder.
    which(word.as_ref()).ok()
}

/// Refuses a command that calls a missing program for certain. Returns notes about the other missing programs. `place`
/// is where they are missing.
pub(crate) fn refused_or_told(missing: &[Missing], place: &str) -> Result<Vec<String>, BadInput> {
    let (sure, others): (Vec<&Missing>, Vec<&Missing>) = missing.iter().partition(|one| one.sure);
    let (packed, absent): (Vec<&Missing>, Vec<&Missing>) =
        sure.into_iter().partition(|one| one.here.is_some());
    if let Some(one) = absent.first() {
        return Err(nowhere(one));
    }
    if !packed.is_empty() {
        let names: Vec<&str> = packed.iter().map(|one| &*one.word).collect();
        let (is, with) = (if packed.len() == 1 { "is" } else { "are" }, with(&packed));
        let names = names.join(" and ");
        return Err(BadInput(format!("{names} {is} called, and not in {place}; add {with}")));
    }
    let note = |one: &&Missing| match one.here {
        Some(_) => format!(
            "`{}` is not in {place}, where the command may call it; if it does, add {}",
            one.word,
            with(&[one])
        ),
        None => {
            format!("`{}`, which the command may call, is no program here or in {place}", one.word)
        }
    };
    Ok(others.iter().map(note).collect())
}

/// The error for a program that does not exist anywhere.
pub fn nowhere(one: &Missing) -> BadInput {
    BadInput(format!(
        "{} is called, and is not a program on this machine; install it, or name it by its path if the command makes it",
        one.word
    ))
}

fn with(some: &[&Missing]) -> String {
    let option =
        |one: &&Missing| one.here.as_ref().map(|here| format!("--with {}", here.display()));
    some.iter().filter_map(option).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, there: &[&str]) -> Result<Vec<String>, String> {
        let argv = ["sh", "-c", text].map(OsString::from);
        let missing = missing(&argv, Path::new("/bin/sh"), &|word| there.contains(&word));
        refused_or_told(&missing, "the guest").map_err(|bad| bad.to_string())
    }

    #[test]
    fn a_program_of_this_machine_is_named_with_the_option_that_brings_it() {
        let cat = which("cat".as_ref()).unwrap();
        let why = told("cat x | wc", &["wc"]).unwrap_err();
        assert_eq!(
            why,
            format!("cat is called, and not in the guest; add --with {}", cat.display())
        );
        assert_eq!(told("cat x | wc", &["cat", "wc"]), Ok(Vec::new()));
        let both = told("nice -n 5 cat & wc", &["nice"]).unwrap_err();
        assert!(
            both.starts_with("cat and wc are called,") && both.contains("cat --with /"),
            "{both}"
        );
    }

    #[test]
    fn a_program_of_nowhere_is_refused() {
        let why = told("no-such-prog & wait", &[]).unwrap_err();
        assert!(why.starts_with("no-such-prog is called, and is not a program on this"), "{why}");
    }

    #[test]
    fn what_may_be_called_is_only_told() {
        let notes = told("if [ -e x ]; then cat x; else no-such-prog; fi", &[]).unwrap();
        assert!(
            notes[0].contains("`cat` is not in the guest") && notes[0].contains("--with /"),
            "{notes:?}"
        );
        assert!(notes[1].contains("`no-such-prog`, which the command may call"), "{notes:?}");
        assert_eq!(told("./made-by-it; /tmp/no/such", &[]), Ok(Vec::new()));
    }

    #[test]
    fn a_script_that_a_shell_is_to_read_has_to_be_there() {
        let missing = |name: &str| {
            let argv = ["sh", name].map(OsString::from);
            missing(&argv, Path::new("/bin/sh"), &|_| false)
        };
        assert_eq!(missing("no-such.sh")[0].here, None);
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().to_str().unwrap();
        assert_eq!(missing(name)[0].here.as_deref(), Some(file.path()));
    }
    /// Long scripts that run well: no word of them counts as a missing program.
    #[test]
    fn scripts_that_run_are_not_refused() {
        let faults = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../faults");
        let prelude = std::fs::read_to_string(faults.join("prelude.sh")).unwrap();
        let applets = std::process::Command::new("busybox").arg("--list").output().unwrap().stdout;
        let applets = String::from_utf8(applets).unwrap();
        let is_there = |word: &str| {
            applets.lines().any(|applet| applet == word) || which(word.as_ref()).is_ok()
        };
        let mut calls = 0;
        for file in std::fs::read_dir(&faults).unwrap().map(|file| file.unwrap().path()) {
            let script = format!("{prelude}\n{}", std::fs::read_to_string(&file).unwrap());
            let argv = ["sh", "-c", &script].map(OsString::from);
            let missing = missing(&argv, Path::new("/bin/sh"), &is_there);
            assert!(!missing.iter().any(|one| one.sure), "{}: {missing:?}", file.display());
            calls += crate::shell::calls(&argv, Path::new("/bin/sh")).len();
        }
        assert!(calls > 20, "{calls} calls: the scripts were not read");
    }
}
