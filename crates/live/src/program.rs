// SPDX-License-Identifier: GPL-2.0-only
//! A thread's name, its parent and its executable, from /proc.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::Endianness;
use object::elf::{ELF_NOTE_GNU, FileHeader32, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::{FileKind, ReadCache, ReadRef};
use policy::Program;

/// A file of /proc/PID. Many contain a thread's name, which the kernel cuts at 15 bytes, even within a character.
pub(crate) fn text(file: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// A thread's name.
pub fn name(tid: u32) -> Option<String> {
    Some(text(format!("/proc/{tid}/comm")).ok()?.trim_end().to_string())
}

/// The process that started a thread's process.
pub(crate) fn parent(tid: u32) -> Option<u32> {
    fields(&text(format!("/proc/{tid}/stat")).ok()?)?.get(PARENT)?.parse().ok()
}

/// Fields of `stat` behind the name, counted from the state (proc_pid_stat(5), less 3).
pub(crate) const PARENT: usize = 1;
pub(crate) const GROUP: usize = 2;
pub(crate) const SESSION: usize = 3;

/// The fields of a `stat` line behind the name, which may contain blanks and brackets: the first is the state.
pub(crate) fn fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat[stat.rfind(')')? + 1..].split_whitespace().collect())
}

/// Executables; each is read once.
#[derive(Default)]
pub(crate) struct Programs {
    /// The id of each, by its file's id.
    ids: RefCell<BTreeMap<String, String>>,
}

impl Programs {
    /// A thread's executable; None for the kernel's own threads, and for a thread that has ended.
    pub fn of(&self, tid: u32) -> Option<Program> {
        let link = format!("/proc/{tid}/exe");
        let file = fs::metadata(&link).ok()?;
        let path = fs::read_link(&link).ok();
        let by_file = by_file(&file);
        let id = || build_id(Path::new(&link)).unwrap_or_else(|| by_file.clone());
        let id = self.ids.borrow_mut().entry(by_file.clone()).or_insert_with(id).clone();
        Some(Program { id, path: path.map(|path| path.to_string_lossy().into_owned()) })
    }

    /// Forgets all if there are many.
    pub fn trim(&mut self) {
        const KEPT: usize = 4096;
        if self.ids.get_mut().len() > KEPT {
            self.ids.get_mut().clear();
        }
    }
}

/// Prefix of the id of an executable without a build id.
pub const BY_FILE: &str = "file:";

/// Its id, with the time of change: another file may get its inode later.
fn by_file(file: &Metadata) -> String {
    let (device, inode) = (file.dev(), file.ino());
    format!("{BY_FILE}{device}:{inode}:{}.{:09}", file.mtime(), file.mtime_nsec())
}

/// Most bytes of an executable that are read. Any user's executable may claim notes as large as a huge file, and the
/// reader may have its memory locked and precede all other tasks.
const READ_MAX: u64 = 64 << 10;
/// Linkers make ids of 8 to 32 bytes.
const ID_MAX: usize = 64;

/// The linker's id of an executable: a copy has the same, another build has not. None also if it is not found in the
/// part that is read.
fn build_id(path: &Path) -> Option<String> {
    let file = ReadCache::new(File::open(path).ok()?);
    let start = Start { file: &file, rest: &Cell::new(READ_MAX) };
    let id = match FileKind::parse(start).ok()? {
        FileKind::Elf32 => noted::<FileHeader32<Endianness>, _>(start),
        FileKind::Elf64 => noted::<FileHeader64<Endianness>, _>(start),
        _ => None,
    }?;
    let hex = id.iter().map(|byte| format!("{byte:02x}"));
    (1..=ID_MAX).contains(&id.len()).then(|| format!("build-id:{}", hex.collect::<String>()))
}

/// The build id among an executable's loaded notes: neither its sections nor its symbols are read.
fn noted<'data, Elf: FileHeader, R: ReadRef<'data>>(data: R) -> Option<&'data [u8]> {
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, data).ok()? {
        let Some(mut notes) = segment.notes(endian, data).ok()? else { continue };
        while let Some(note) = notes.next().ok()? {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc());
            }
        }
    }
    None
}

/// A file with a limit on how much of it is read.
#[derive(Clone, Copy)]
struct Start<'data> {
    file: &'data ReadCache<File>,
    rest: &'data Cell<u64>,
}

impl<'data> ReadRef<'data> for Start<'data> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        self.rest.set(self.rest.get().checked_sub(size).ok_or(())?);
        self.file.read_bytes_at(offset, size)
    }

    /// Only for strings, which notes do not contain.
    fn read_bytes_at_until(self, _: Range<u64>, _: u8) -> Result<&'data [u8], ()> {
        Err(())
    }
}

/// Those of these names, paths and ids that no running program has.
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

/// The same, but with an error if the folder cannot be read. A folder that is gone or hidden counts as empty.
pub(crate) fn listed(folder: &str) -> io::Result<Vec<u32>> {
    use io::ErrorKind::{NotFound, PermissionDenied};
    let entries = match fs::read_dir(folder) {
        // Other users' processes, if /proc is mounted with hidepid.
        Err(error) if [NotFound, PermissionDenied].contains(&error.kind()) => return Ok(Vec::new()),
        entries => entries?,
    };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    // If a process ends meanwhile, its remaining entries are gone.
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
        assert!(program.id.starts_with("build-id:") || program.id.starts_with(BY_FILE));
        assert_eq!(programs.of(own), Some(program), "the same when asked again");
        assert!(name(own).is_some_and(|name| !name.is_empty() && name.len() <= 15));
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
    }

    #[test]
    fn a_thread_with_a_name_cut_in_a_character_is_seen() {
        let seen = || {
            let tid = rustix::thread::gettid().as_raw_pid() as u32;
            let described = crate::recorder::described(std::process::id(), tid);
            (name(tid), described.map(|info| info.name), parent(tid).is_some())
        };
        // Fourteen bytes, and a character of two.
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

    /// An executable of a header and notes of so many bytes. The first note is a build id.
    fn linked(id: &[u8], notes: u64) -> tempfile::NamedTempFile {
        const NOTES_AT: u64 = 64 + 56;
        let half = |words: &[u16]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let word = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let long = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let parts: [Vec<u8>; 10] = [
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
            half(&[2, 62]),
            word(&[1]),
            long(&[0, 64, 0]),
            word(&[0]),
            half(&[64, 56, 1, 0, 0, 0]),
            word(&[4, 4]),
            long(&[NOTES_AT, 0, 0, notes, notes, 4]),
            word(&[4, id.len() as u32, 3]),
            [b"GNU\0", id].concat(),
        ];
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), parts.concat()).unwrap();
        file.as_file().set_len(NOTES_AT + notes).unwrap();
        file
    }

    #[test]
    fn no_executable_has_more_read_than_a_little() {
        let of = |id: &[u8], notes| build_id(linked(id, notes).path());
        assert_eq!(of(&[0xab; 20], 36), Some(format!("build-id:{}", "ab".repeat(20))));
        assert_eq!(of(&[0xab; 20], 1 << 20), None);
        assert_eq!(of(&[0xab; 20], 1 << 40), None);
        assert_eq!(of(&[0xab; ID_MAX + 4], 36 + 48), None);
        assert_eq!(of(&[], 16), None);
    }

    #[test]
    fn notes_have_the_build_id_that_sections_have() {
        let own = std::env::current_exe().unwrap();
        let whole = ReadCache::new(File::open(&own).unwrap());
        let whole = object::File::parse(&whole).unwrap();
        let id = object::Object::build_id(&whole).unwrap().unwrap_or_default();
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(build_id(&own), (!id.is_empty()).then(|| format!("build-id:{hex}")));
    }

    #[test]
    fn a_file_that_has_another_s_inode_is_another() {
        let file = tempfile::tempfile().unwrap();
        let before = by_file(&file.metadata().unwrap());
        assert_eq!(by_file(&file.metadata().unwrap()), before);
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_ne!(by_file(&file.metadata().unwrap()), before);
    }
}
