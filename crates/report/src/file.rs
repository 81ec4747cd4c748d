// SPDX-License-Identifier: GPL-2.0-only
//! Files that are written whole or not at all.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::{Builder, NamedTempFile};

/// Why a file could not be written; the old one, where there was one, is untouched.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    source: io::Error,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        // The temporary file's own name is of no use to anybody.
        let source = self.source.to_string();
        let source = source.split(" at path ").next().unwrap_or_default();
        write!(out, "cannot write {}: {source}", self.path.display())
    }
}

impl std::error::Error for FileError {}

/// Writes `bytes` beside `path` and moves it there once it is on the disk, so that a full disk or
/// an interruption leaves what was there before.
pub fn write_whole(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), FileError> {
    write_with(path, |out| out.write_all(bytes.as_ref()))
}

/// [`write_whole`], of what `fill` writes bit by bit.
pub fn write_with(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), FileError> {
    UNFINISHED.write(path, |file| fill(file))
}

/// Whether a file could be written there; leaves nothing.
pub fn probe(path: &Path) -> Result<(), FileError> {
    Draft::new(path).map(drop)
}

/// A file that takes long to write, beside its place. What was there before stays if it is dropped.
pub struct Draft {
    begun: Begun<'static>,
    path: PathBuf,
}

impl Draft {
    /// Begins it.
    ///
    /// # Errors
    /// No file can be written there.
    pub fn new(path: &Path) -> Result<Self, FileError> {
        let begun = UNFINISHED.begin(path).map_err(|source| failed(path, source))?;
        Ok(Draft { begun, path: path.to_path_buf() })
    }

    /// Begins it, with what `fill` writes in it.
    ///
    /// # Errors
    /// No file can be written there, or the disk is full.
    pub fn with(
        path: &Path,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Self, FileError> {
        let mut draft = Draft::new(path)?;
        fill(&mut draft.begun.file).map_err(|source| failed(path, source))?;
        Ok(draft)
    }

    /// What to write to: any number of them write to one file, each behind what others wrote.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn writer(&self) -> Result<File, FileError> {
        self.begun.file.as_file().try_clone().map_err(|source| failed(&self.path, source))
    }

    /// Puts it in its place, once it is on the disk.
    ///
    /// # Errors
    /// The disk does not take it; what was there before is untouched.
    pub fn keep(self) -> Result<(), FileError> {
        self.begun.finish().map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: io::Error) -> FileError {
    FileError { path: path.to_path_buf(), source }
}

/// Removes what is half written, for who ends this process next: nobody finishes or begins a file after it.
pub fn remove_unfinished() {
    std::mem::forget(UNFINISHED.remove());
}

static UNFINISHED: Unfinished = Unfinished::new();

/// Temporary files that are not in their place yet.
struct Unfinished(Mutex<BTreeSet<PathBuf>>);

impl Unfinished {
    const fn new() -> Self {
        Unfinished(Mutex::new(BTreeSet::new()))
    }

    fn write(
        &self,
        path: &Path,
        fill: impl FnOnce(&mut NamedTempFile) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let write = |mut begun: Begun| fill(&mut begun.file).and_then(|()| begun.finish());
        self.begin(path).and_then(write).map_err(|source| failed(path, source))
    }

    /// Makes a temporary file beside `path`; it is known for as long as it is there.
    fn begin(&self, path: &Path) -> io::Result<Begun<'_>> {
        let place = place_of(path)?;
        let mut known = self.known();
        let mode = fs::metadata(&place).map_or(NEW, |there| mode_of(&there));
        let mode = Permissions::from_mode(mode);
        let file = Builder::new().permissions(mode).tempfile_in(folder_of(&place))?;
        known.insert(file.path().to_path_buf());
        let known = Known { of: self, path: file.path().to_path_buf() };
        Ok(Begun { file, place, _known: known })
    }

    /// Nothing is begun before what this gives is dropped.
    fn remove(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        let known = self.known();
        for path in known.iter() {
            // There is nobody left to tell, and what is in its place by now is not here.
            let _ = fs::remove_file(path);
        }
        known
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A temporary file, and where it is to be. What was there before stays if it is dropped.
struct Begun<'a> {
    file: NamedTempFile,
    place: PathBuf,
    /// Goes after the file.
    _known: Known<'a>,
}

impl Begun<'_> {
    fn finish(self) -> io::Result<()> {
        // Whose it was stays whose it is, where we may say so; nor does the umask change who may read it.
        if let Ok(was) = fs::metadata(&self.place) {
            let file = self.file.as_file();
            let _ = fchown(file, Some(was.uid()), Some(was.gid()));
            file.set_permissions(Permissions::from_mode(mode_of(&was)))?;
        }
        self.file.as_file().sync_all()?;
        self.file.persist(&self.place)?;
        Ok(())
    }
}

/// One of them.
struct Known<'a> {
    of: &'a Unfinished,
    path: PathBuf,
}

impl Drop for Known<'_> {
    fn drop(&mut self) {
        self.of.known().remove(&self.path);
    }
}

/// Where the file lies behind links, or will lie. A device or a pipe is refused: the move would put a file in its
/// place, and nobody who names /dev/null means that.
fn place_of(path: &Path) -> io::Result<PathBuf> {
    let no_file = |why: &str| Err(io::Error::new(ErrorKind::InvalidInput, why));
    match fs::metadata(path) {
        Ok(there) if there.is_file() => fs::canonicalize(path),
        Ok(_) => no_file("it is there and no file; name a file"),
        Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(path) {
            // Not a circle, or that would have been the error.
            Ok(target) => place_of(&folder_of(path).join(target)),
            Err(_) if names_folder(path) => no_file("it is the name of a folder; name a file"),
            Err(_) => Ok(path.to_path_buf()),
        },
        Err(error) => Err(error),
    }
}

/// Whether only a folder can have this name.
fn names_folder(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    name.ends_with(b"/") || name.ends_with(b"/.")
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Who may read and write a new file, before the umask.
const NEW: u32 = 0o666;

/// Who may read and write the file that is there.
fn mode_of(there: &Metadata) -> u32 {
    there.permissions().mode() & 0o777
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        write_whole(&path, "old").unwrap();
        let error = write_whole(&folder.path().join("none/report.html"), "new").unwrap_err();
        assert!(error.to_string().contains("none/report.html"), "{error}");
        write_whole(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_as_readable_as_the_one_it_replaces() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o664, 0o644] {
            let path = folder.path().join(format!("{mode:o}"));
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            write_whole(&path, "new").unwrap();
            assert_eq!(mode_of(&fs::metadata(&path).unwrap()), mode, "{mode:o}");
        }
    }

    #[test]
    fn who_is_interrupted_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.csv");
        let unfinished = Unfinished::new();
        unfinished.write(&path, |out| out.write_all(b"old")).unwrap();
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        let half = |out: &mut NamedTempFile| {
            out.write_all(b"ne")?;
            assert_eq!(files(), 2);
            drop(unfinished.remove());
            assert_eq!(files(), 1);
            out.write_all(b"w")
        };
        unfinished.write(&path, half).unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert!(files() == 1 && unfinished.known().is_empty());
    }

    #[test]
    fn a_draft_is_in_its_place_once_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let draft = |text: &str| {
            let draft = Draft::new(&path).unwrap();
            draft.writer().unwrap().write_all(text.as_bytes()).unwrap();
            draft
        };
        drop(draft("none"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        draft("old").keep().unwrap();
        let new = draft("new");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        new.keep().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = probe(&path).unwrap_err().to_string();
        assert!(error.ends_with("it is there and no file; name a file"), "{error}");
        write_whole(&path, "text").unwrap_err();
        assert!(std::fs::symlink_metadata(&path).unwrap().file_type().is_socket());
    }

    #[test]
    fn a_link_stays_and_its_file_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_whole(&link, "new").unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
    }

    #[test]
    fn a_link_to_nothing_yet_stays_and_its_file_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::os::unix::fs::symlink("file", &link).unwrap();
        write_whole(&link, "new").unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        let circle = folder.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        write_whole(&circle, "new").unwrap_err();
    }

    #[test]
    fn the_name_of_a_folder_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["none/", "none/.", "none/sub/"] {
            let path = folder.path().join(name);
            assert!(probe(&path).is_err(), "{name}");
        }
        let error = probe(&folder.path().join("none/")).unwrap_err().to_string();
        assert!(error.ends_with("it is the name of a folder; name a file"), "{error}");
    }

    #[test]
    fn whose_a_file_was_stays_whose_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "old").unwrap();
        // Only root may give it away; everybody else has it already.
        let own = std::fs::metadata(&path).unwrap().uid();
        let other =
            if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() { 65534 } else { own };
        write_whole(&path, "new").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().uid(), other);
    }

    #[test]
    fn an_error_is_one_line() {
        let error = write_whole(Path::new("/dev/full/x"), "text").unwrap_err().to_string();
        assert!(!error.contains('\n') && error.starts_with("cannot write /dev/full/x"), "{error}");
    }
}
