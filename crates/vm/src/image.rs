// SPDX-License-Identifier: GPL-2.0-only
//! The guest's root file system: files of this machine at their own paths, as a newc cpio archive.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use cpio::NewcBuilder;

use crate::BadInput;

/// Contents of the guest, by path without the leading slash.
#[derive(Default)]
pub(crate) struct Image {
    entries: BTreeMap<PathBuf, Entry>,
}

enum Entry {
    Folder,
    Link(PathBuf),
    Copy(PathBuf),
    Bytes(Vec<u8>),
}

/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;

/// The parts of a path, the first one last.
fn parts(path: &Path) -> Vec<PathBuf> {
    let kept = path.components().filter(|part| *part != Component::CurDir);
    kept.rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

impl Image {
    /// Adds a file or link of this machine at its own path, with the links that lead to it. Returns its real place.
    pub(crate) fn add(&mut self, path: &Path) -> anyhow::Result<PathBuf> {
        let path = std::path::absolute(path)?;
        let mut real = PathBuf::from("/");
        // the rest of the path, the next part last; a link puts its target on top
        let mut rest = parts(&path);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            match part.to_str() {
                Some("/") => real = part,
                Some("..") => drop(real.pop()),
                _ => {
                    let here = real.join(part);
                    match self.enter(&here, &path)? {
                        Some(target) => {
                            rest.extend(parts(&target));
                            links += 1;
                        }
                        None => real = here,
                    }
                }
            }
            anyhow::ensure!(links <= LINKS_MAX, "{}: links lead in a circle", path.display());
        }
        Ok(real)
    }

    /// Adds what lies at `here`; returns the target of a link.
    fn enter(&mut self, here: &Path, wanted: &Path) -> anyhow::Result<Option<PathBuf>> {
        let kind = fs::symlink_metadata(here).map_err(|error| {
            BadInput(format!("{}: {}: {error}", wanted.display(), here.display()))
        })?;
        let key = here.strip_prefix("/").unwrap_or(here).to_path_buf();
        if kind.is_symlink() {
            let target = fs::read_link(here)?;
            self.entries.insert(key, Entry::Link(target.clone()));
            return Ok(Some(target));
        }
        let entry = match kind.is_dir() {
            true => Entry::Folder,
            false => Entry::Copy(here.to_path_buf()),
        };
        self.entries.entry(key).or_insert(entry);
        Ok(None)
    }

    /// Adds a folder with all that is in it, except where `skip` says so. Sockets and devices are left out. Returns the
    /// files.
    pub(crate) fn add_tree(
        &mut self,
        path: &Path,
        skip: &dyn Fn(&Path) -> bool,
    ) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut todo = vec![self.add(path)?];
        while let Some(here) = todo.pop() {
            let kind = fs::metadata(&here).with_context(|| format!("{}", here.display()))?;
            if kind.is_file() {
                files.push(here);
                continue;
            }
            let listed = fs::read_dir(&here).with_context(|| format!("{}", here.display()))?;
            for entry in listed {
                let inner = entry?.path();
                // A link's target is added with it. A link without a target is left out, as devices are.
                let useful = fs::metadata(&inner).is_ok_and(|kind| kind.is_file() || kind.is_dir());
                if skip(&inner) || !useful || self.has(&inner) {
                    continue;
                }
                todo.push(self.add(&inner)?);
            }
        }
        Ok(files)
    }

    /// Adds a file with other content or from another place.
    pub(crate) fn place(&mut self, path: &str, from: &Path) {
        self.parents(path);
        self.entries.insert(path.trim_start_matches('/').into(), Entry::Copy(from.to_path_buf()));
    }

    /// Adds a file with these bytes.
    pub(crate) fn write(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.parents(path);
        self.entries.insert(path.trim_start_matches('/').into(), Entry::Bytes(bytes.into()));
    }

    /// Adds a link that is not on this machine.
    pub(crate) fn link(&mut self, path: &Path, target: &Path) {
        self.parents(&path.to_string_lossy());
        let key = path.strip_prefix("/").unwrap_or(path).to_path_buf();
        self.entries.insert(key, Entry::Link(target.to_path_buf()));
    }

    /// Adds an empty folder.
    pub(crate) fn folder(&mut self, path: &str) {
        self.parents(&format!("{path}/x"));
    }

    /// Whether something is at this path already.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.entries.contains_key(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether something is at this path, or at the path that this machine's links lead to from its folder.
    pub(crate) fn leads_to(&self, path: &Path) -> bool {
        let Ok(path) = std::path::absolute(path) else { return false };
        let real = path.parent().and_then(|folder| folder.canonicalize().ok());
        let real = real.zip(path.file_name()).map(|(folder, name)| folder.join(name));
        self.has(&path) || real.is_some_and(|real| self.has(&real))
    }

    fn parents(&mut self, path: &str) {
        let path = Path::new(path.trim_start_matches('/'));
        for folder in path.ancestors().skip(1).filter(|folder| *folder != Path::new("")) {
            self.entries.entry(folder.to_path_buf()).or_insert(Entry::Folder);
        }
    }

    /// Writes the archive. The kernel needs folders before their contents.
    pub(crate) fn archive(&self, mut to: impl Write) -> anyhow::Result<()> {
        for (inode, (path, entry)) in self.entries.iter().enumerate() {
            let path = path.to_str().with_context(|| {
                format!("{} is not UTF-8; rename it or leave it out", path.display())
            })?;
            let header = NewcBuilder::new(path).ino(inode as u32 + 1).nlink(1);
            let (header, mut content): (_, Box<dyn io::Read>) = match entry {
                Entry::Folder => (header.mode(0o040755).nlink(2), Box::new(io::empty())),
                Entry::Link(target) => {
                    let target = target.as_os_str().as_encoded_bytes();
                    (header.mode(0o120777), Box::new(target))
                }
                Entry::Bytes(bytes) => (header.mode(0o100644), Box::new(&bytes[..])),
                Entry::Copy(from) => {
                    let file = File::open(from).with_context(|| format!("{}", from.display()))?;
                    let data = file.metadata()?;
                    let mode = 0o100000 | data.permissions().mode() & 0o7777;
                    (header.mode(mode).mtime(modified(&data)), Box::new(file))
                }
            };
            let size = entry.size().with_context(|| path.to_string())?;
            let size = u32::try_from(size).with_context(|| format!("{path} is over 4 GiB"))?;
            let mut file = header.write(&mut to, size);
            io::copy(&mut content, &mut file).with_context(|| format!("packing {path}"))?;
            file.finish()?;
        }
        cpio::newc::trailer(&mut to)?.flush()?;
        Ok(())
    }
}

impl Entry {
    fn size(&self) -> io::Result<u64> {
        Ok(match self {
            Entry::Folder => 0,
            Entry::Link(target) => target.as_os_str().len() as u64,
            Entry::Bytes(bytes) => bytes.len() as u64,
            Entry::Copy(from) => fs::metadata(from)?.len(),
        })
    }
}

/// Python compares a cached `.pyc` with its source's modification time, so the time is kept.
fn modified(data: &fs::Metadata) -> u32 {
    let since =
        data.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs() as u32)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_come_along_and_circles_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("real")).unwrap();
        fs::write(root.join("real/file"), "x").unwrap();
        symlink("real", root.join("folder")).unwrap();
        symlink("../folder/file", root.join("real/link")).unwrap();
        let mut image = Image::default();
        assert_eq!(image.add(&root.join("folder/link")).unwrap(), root.join("real/file"));
        for name in ["folder", "real", "real/link", "real/file"] {
            assert!(image.has(&root.join(name)), "{name}");
        }
        symlink("there", root.join("here")).unwrap();
        symlink("here", root.join("there")).unwrap();
        let error = image.add(&root.join("here")).unwrap_err().to_string();
        assert!(error.contains("in a circle"), "{error}");
    }
}
