// SPDX-License-Identifier: GPL-2.0-only
//! Watches folders: inotify reports each file that is written to, so that unchanged ones are not read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::inotify::{add_watch, init, remove_watch};
use rustix::io::Errno;

/// A write, or the removal of a folder.
pub(crate) struct Change {
    /// The number of the folder that has the file or folder.
    pub within: u64,
    pub name: OsString,
    pub removed: bool,
}

/// Watched folders, each with a number that its user chose.
pub(crate) struct Watch {
    inotify: OwnedFd,
    /// By the kernel's number of the watch.
    folders: BTreeMap<i32, u64>,
}

impl Watch {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Self> {
        let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Watch { inotify, folders: BTreeMap::new() })
    }

    /// Watches a folder. Returns the number to end that by.
    pub fn add(&mut self, folder: &Path, number: u64) -> io::Result<i32> {
        let what = WatchFlags::MODIFY | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        let watch = add_watch(&self.inotify, folder, what)?;
        self.folders.insert(watch, number);
        Ok(watch)
    }

    /// Stops watching a folder.
    pub fn remove(&mut self, watch: i32) {
        if self.folders.remove(&watch).is_some() {
            // Recent kernels end the watch of a removed folder, older ones keep the folder in memory for it.
            let _ = remove_watch(&self.inotify, watch);
        }
    }

    /// Changes since the last call. None: some are not known, as there were too many.
    pub fn changes(&mut self) -> Option<Vec<Change>> {
        let (mut changes, mut complete) = (Vec::new(), true);
        let mut buffer = [MaybeUninit::uninit(); 16384];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    complete &= error == Errno::AGAIN;
                    return complete.then_some(changes);
                }
            };
            complete &= !event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            let removed = event.events().contains(ReadFlags::DELETE);
            if let (Some(within), Some(name)) = (self.folders.get(&event.wd()), event.file_name()) {
                let name = OsString::from_vec(name.to_bytes().to_vec());
                changes.push(Change { within: *within, name, removed });
            }
        }
    }
}
