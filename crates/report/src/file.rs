// SPDX-License-Identifier: GPL-2.0-only
//! Files that are written whole or not at all.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::{Builder, NamedTempFile};

/// Why a file could not be written. An old file, if there was one, is untouched.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    source: io::Error,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        // The user has no use for the temporary file's name.
        let source = self.source.to_string();
        let source = source.split(" at path ").next().unwrap_or_default();
        write!(out, "cannot write {}: {source}", self.path.display())
    }
}

impl std::error::Error for FileError {}

/// Writes `bytes` beside `path` and moves the file there once it is on the disk. A full disk or an interruption leaves
/// the old file.
pub fn write_whole(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), FileError> {
    write_with(path, |out| out.write_all(bytes.as_ref()))
}

/// [`write_whole`] for bytes that `fill` writes piece by piece.
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

/// A file that takes long to write, beside its place. The old file stays if the draft is dropped.
pub struct Draft {
    begun: Begun<'static>,
    path: PathBuf,
}

impl Draft {
    /// Begins a draft.
    ///
    /// # Errors
    /// No file can be written there.
    pub fn new(path: &Path) -> Result<Self, FileError> {
        let begun = UNFINISHED.begin(path).map_err(|source| failed(path, source))?;
        Ok(Draft { begun, path: path.to_path_buf() })
    }

    /// Begins a draft, with what `fill` writes in it.
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

    /// A writer. All writers append to the same file.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn writer(&self) -> Result<File, FileError> {
        self.begun.file.as_file().try_clone().map_err(|source| failed(&self.path, source))
    }

    /// Syncs the file to the disk and moves it to its place.
    ///
    /// # Errors
    /// The disk does not take it; the old file is untouched.
    pub fn keep(self) -> Result<(), FileError> {
        self.begun.finish().map_err(|source| failed(&self.path, source))
    }
}

fn failed(path: &Path, source: io::Error) -> FileError {
    FileError { path: path.to_path_buf(), source }
}

/// Removes unfinished files. The caller ends the process next: no file is finished or begun after this call.
pub fn remove_unfinished() {
    std::mem::forget(UNFINISHED.remove());
}

static UNFINISHED: Unfinished = Unfinished::new();

/// Temporary files that are not at their place yet.
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

    /// Makes a temporary file beside `path`. It is listed as unfinished for as long as it exists.
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

    /// No file is begun before the returned guard is dropped.
    fn remove(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        let known = self.known();
        for path in known.iter() {
            // There is no caller left to report to, and files that are at their place are no longer in this set.
            let _ = fs::remove_file(path);
        }
        known
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A temporary file and its destination. The old file stays if it is dropped.
struct Begun<'a> {
    file: NamedTempFile,
    place: PathBuf,
    /// Dropped after the file.
    _known: Known<'a>,
}

impl Begun<'_> {
    fn finish(self) -> io::Result<()> {
        // The old file's owner is kept if we may set it. The umask does not change the mode either.
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

/// An entry of the set of unfinished files.
struct Known<'a> {
    of: &'a Unfinished,
    path: PathBuf,
}

impl Drop for Known<'_> {
    fn drop(&mut self) {
        self.of.known().remove(&self.path);
    }
}

/// The file's place with links followed, whether or not the file exists. A device or a pipe is refused: the move would
/// replace it by a file, and a user that names /dev/null does not mean that.
fn place_of(path: &Path) -> io::Result<PathBuf> {
    let no_file = |why: &str| Err(io::Error::new(ErrorKind::InvalidInput, why));
    match fs::metadata(path) {
        Ok(there) if there.is_file() => fs::canonicalize(path),
        Ok(_) => no_file("it is there and no file; name a file"),
        Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(path) {
            // The links form no circle: that would have been the error.
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

/// Mode of a new file, before the umask.
const NEW: u32 = 0o666;

/// Mode of the existing file.
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
    fn an_interrupted_write_leaves_the_old_file_and_no_other() {
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
    fn a_rewritten_file_keeps_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "old").unwrap();
        // Only root may change the owner; any other user owns the file already.
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
