// SPDX-License-Identifier: GPL-2.0-only
//! Files that a user names: how they are read and written, and how either is refused.

use std::fmt::Display;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use report::text::visible;
use report::{FileError, write_whole};

use crate::Failure;
use crate::output;

/// Longest file that is read: the longest built-in files have some 100 KB.
const BYTES_MAX: u64 = 64 << 20;

/// Reads a file that a user named.
pub fn read(path: &Path) -> Result<String, Failure> {
    text_of(path, "it is no text")
}

/// Reads a file that a user named; `otherwise` is the error for a file that is not text.
pub fn text_of(path: &Path, otherwise: &str) -> Result<String, Failure> {
    let cannot =
        |why: &dyn Display| Failure::input(format!("cannot read {}: {why}", path.display()));
    let kind = fs::metadata(path).map_err(|error| cannot(&error))?;
    match () {
        () if kind.is_dir() => return Err(cannot(&"it is a folder; name a file")),
        () if !kind.is_file() => return Err(cannot(&"it is no regular file; copy it to one")),
        () if kind.len() > BYTES_MAX => return Err(cannot(&"it is longer than 64 MB")),
        () => {}
    }
    let bytes = fs::read(path).map_err(|error| cannot(&error))?;
    String::from_utf8(bytes).map_err(|_| cannot(&otherwise))
}

/// The line of a text that a part of it begins in, from 1 on.
pub fn line_of(text: &str, part: Option<Range<usize>>) -> usize {
    part.map_or(1, |part| 1 + text[..part.start].matches('\n').count())
}

/// Writes a report and says where it is.
pub fn write_report(path: &Path, page: &str, json: bool) -> Result<(), Failure> {
    write_whole(path, page).map_err(Failure::input)?;
    say_report(path, json)
}

/// Says where a report is, on standard error if standard output is JSON.
pub fn say_report(path: &Path, json: bool) -> Result<(), Failure> {
    let line = format!("report: {}", visible(&path.display().to_string()));
    match json {
        true => output::say(&line),
        false => output::print(&(line + "\n"))?,
    }
    Ok(())
}

/// Refuses a report that cannot be written, before a long run and not after it.
pub fn check_writable(path: &Path, option: &str) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::input(format!("{} is a folder; name a file", path.display())));
    }
    report::probe(path).map_err(|error| Failure::input(format!("{option}: {error}")))
}

/// Whether both names are of one file, which need not exist yet.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let place = |there: fs::Metadata| (there.dev(), there.ino());
    let to_be = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let folder = folder.canonicalize().or_else(|_| std::path::absolute(folder)).ok();
        folder.map(|folder| folder.join(path.file_name().unwrap_or_default()))
    };
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => place(one) == place(other),
        (Err(_), Err(_)) => to_be(one) == to_be(other),
        _ => false,
    }
}

/// The error for a recording that cannot be written.
pub fn unwritable(path: &Path, why: &dyn Display) -> Failure {
    Failure::input(format!("cannot write {}: {why}; name another with -o", path.display()))
}

/// The error for a file that cannot be written, with the file's own reason.
pub fn refused(error: FileError) -> Failure {
    Failure::input(format!("{error}; name another with -o"))
}
