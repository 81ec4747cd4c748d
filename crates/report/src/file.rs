// SPDX-License-Identifier: GPL-2.0-only
//! Files that are written whole or not at all.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

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
    let failed = |source| FileError { path: path.to_path_buf(), source };
    let place = place_of(path).map_err(failed)?;
    let mut file = NamedTempFile::new_in(folder_of(&place)).map_err(failed)?;
    file.write_all(bytes.as_ref()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    set_readable(&file).map_err(failed)?;
    file.persist(&place).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Whether a file could be written there; leaves nothing.
pub fn probe(path: &Path) -> Result<(), FileError> {
    let failed = |source| FileError { path: path.to_path_buf(), source };
    let place = place_of(path).map_err(failed)?;
    NamedTempFile::new_in(folder_of(&place)).map(drop).map_err(failed)
}

/// Where the file lies behind links. A device or a pipe is refused: the move would put a file in its
/// place, and nobody who names /dev/null means that.
fn place_of(path: &Path) -> io::Result<PathBuf> {
    match fs::metadata(path) {
        Ok(there) if there.is_file() => fs::canonicalize(path),
        Ok(_) => {
            Err(io::Error::new(ErrorKind::InvalidInput, "it is there and no file; name a file"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(path.to_path_buf()),
        Err(error) => Err(error),
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A temporary file is its owner's alone; a report is as readable as any new file.
fn set_readable(file: &NamedTempFile) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))
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
    fn an_error_is_one_line() {
        let error = write_whole(Path::new("/dev/full/x"), "text").unwrap_err().to_string();
        assert!(!error.contains('\n') && error.starts_with("cannot write /dev/full/x"), "{error}");
    }
}
