// SPDX-License-Identifier: GPL-2.0-only
//! What a thread is, as /proc has it: what it is called, who started it, and which executable it runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::Object;
use object::read::{File as Executable, ReadCache};
use policy::Program;

/// A file of /proc/PID. Many have a thread's name in them, which the kernel cuts at 15 bytes, in the midst of a
/// character, too.
pub(crate) fn text(file: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// What a thread calls itself.
pub fn name(tid: u32) -> Option<String> {
    Some(text(format!("/proc/{tid}/comm")).ok()?.trim_end().to_string())
}

/// The process that started a thread's process.
pub(crate) fn parent(tid: u32) -> Option<u32> {
    fields(&text(format!("/proc/{tid}/stat")).ok()?)?.get(PARENT)?.parse().ok()
}

/// Fields of `stat` behind the name, counted from the state (proc_pid_stat(5), less 3).
pub(crate) const PARENT: usize = 1;
pub(crate) const SESSION: usize = 3;

/// The fields of a `stat` line behind the name, which may hold blanks and brackets: the first is the state.
pub(crate) fn fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat[stat.rfind(')')? + 1..].split_whitespace().collect())
}

/// Executables, each of which is read once.
#[derive(Default)]
pub(crate) struct Programs {
    /// Build ids by device, inode and time of the last change.
    ids: RefCell<BTreeMap<(u64, u64, i64), String>>,
}

impl Programs {
    /// What a thread runs; none for the kernel's own, and for who has gone.
    pub fn of(&self, tid: u32) -> Option<Program> {
        let link = format!("/proc/{tid}/exe");
        let file = fs::metadata(&link).ok()?;
        let path = fs::read_link(&link).ok();
        let key = (file.dev(), file.ino(), file.mtime());
        let id = || {
            let by_file = || format!("file:{}:{}", file.dev(), file.ino());
            build_id(Path::new(&link)).unwrap_or_else(by_file)
        };
        let id = self.ids.borrow_mut().entry(key).or_insert_with(id).clone();
        Some(Program { id, path: path.map(|path| path.to_string_lossy().into_owned()) })
    }

    /// Forgets all where there are many.
    pub fn trim(&mut self) {
        const KEPT: usize = 4096;
        if self.ids.get_mut().len() > KEPT {
            self.ids.get_mut().clear();
        }
    }
}

/// What the linker called an executable; a copy of it has the same, and another build of it has not.
fn build_id(path: &Path) -> Option<String> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = Executable::parse(&cache).ok()?;
    let id = file.build_id().ok()??;
    let hex = id.iter().map(|byte| format!("{byte:02x}"));
    (!id.is_empty()).then(|| format!("build-id:{}", hex.collect::<String>()))
}

/// Which of these names, paths and ids of programs nothing goes by that runs now.
pub fn absent<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut absent: Vec<String> = names.cloned().collect();
    let programs = Programs::default();
    for process in numbered("/proc") {
        let threads = numbered(&format!("/proc/{process}/task"));
        let called: Vec<String> = threads.into_iter().filter_map(name).collect();
        let program = programs.of(process).unwrap_or_default();
        absent.retain(|wanted| {
            let is_name = |name: &String| wanted.get(..15).unwrap_or(wanted) == name;
            let is_path = program.path.as_ref() == Some(wanted);
            !(is_path || program.id == *wanted || called.iter().any(is_name))
        });
    }
    absent
}

/// Entries of a folder that are numbers.
pub(crate) fn numbered(folder: &str) -> Vec<u32> {
    listed(folder).unwrap_or_default()
}

/// The same for who must not take one that cannot be read for an empty one; one that
/// has gone, or is hidden, is.
pub(crate) fn listed(folder: &str) -> io::Result<Vec<u32>> {
    use io::ErrorKind::{NotFound, PermissionDenied};
    let entries = match fs::read_dir(folder) {
        // Of others where /proc is mounted with hidepid.
        Err(error) if [NotFound, PermissionDenied].contains(&error.kind()) => return Ok(Vec::new()),
        entries => entries?,
    };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    // Of a process that goes meanwhile the rest is gone.
    Ok(entries.map_while(Result::ok).filter_map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found() {
        let own = std::process::id();
        let programs = Programs::default();
        let program = programs.of(own).unwrap();
        let path = std::env::current_exe().unwrap();
        assert_eq!(program.path.as_deref(), path.to_str());
        assert!(program.id.starts_with("build-id:") || program.id.starts_with("file:"));
        assert_eq!(programs.of(own), Some(program), "the same when asked again");
        assert!(name(own).is_some_and(|name| !name.is_empty() && name.len() <= 15));
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
    }

    #[test]
    fn a_thread_whose_name_is_cut_in_a_character_is_seen() {
        let seen = || {
            let tid = rustix::thread::gettid().as_raw_pid() as u32;
            let described = crate::recorder::described(std::process::id(), tid);
            (name(tid), described.map(|info| info.name), parent(tid).is_some())
        };
        // Fourteen bytes, and one of two.
        let called = std::thread::Builder::new().name("fourteen-bytesé".to_string());
        let cut = Some("fourteen-bytes\u{fffd}".to_string());
        assert_eq!(called.spawn(seen).unwrap().join().unwrap(), (cut.clone(), cut, true));
    }

    #[test]
    fn programs_that_run_are_not_absent() {
        let own = std::process::id();
        let path = std::env::current_exe().unwrap().display().to_string();
        let names = [name(own).unwrap(), path, "no-such-program-runs".to_string()];
        assert_eq!(absent(names.iter()), ["no-such-program-runs"]);
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_not_empty() {
        assert!(listed("/proc/self/task").unwrap().contains(&std::process::id()));
        assert!(listed("/proc/no-such-process").unwrap().is_empty());
        assert!(listed("/proc/self/stat").is_err());
    }

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a) b (c) R 3 7 7 0";
        assert_eq!(fields(stat).unwrap(), ["R", "3", "7", "7", "0"]);
        assert_eq!(fields("7"), None);
    }

    #[test]
    fn what_has_no_build_id_goes_by_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "#!/bin/sh\n").unwrap();
        assert_eq!(build_id(file.path()), None);
    }
}
