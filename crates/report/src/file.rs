// SPDX-License-Identifier: GPL-2.0-only
//! Files that are written whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Why a file could not be written; the old one, where there was one, is untouched.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    source: std::io::Error,
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

/// Writes `text` beside `path` and moves it there once it is on the disk, so that a full disk or
/// an interruption leaves what was there before.
pub fn write_whole(path: &Path, text: &str) -> Result<(), FileError> {
    let failed = |source| FileError { path: path.to_path_buf(), source };
    let mut file = NamedTempFile::new_in(folder_of(path)).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    set_readable(&file).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Whether a file could be written there; leaves nothing.
pub fn probe(path: &Path) -> Result<(), FileError> {
    let failed = |source| FileError { path: path.to_path_buf(), source };
    NamedTempFile::new_in(folder_of(path)).map(drop).map_err(failed)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A temporary file is its owner's alone; a report is as readable as any new file.
fn set_readable(file: &NamedTempFile) -> std::io::Result<()> {
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
    fn an_error_is_one_line() {
        let error = write_whole(Path::new("/dev/full/x"), "text").unwrap_err().to_string();
        assert!(!error.contains('\n') && error.starts_with("cannot write /dev/full/x"), "{error}");
    }
}
