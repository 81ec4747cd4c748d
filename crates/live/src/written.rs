// SPDX-License-Identifier: GPL-2.0-only
//! A command's output: two files that keep the end of it, however long it is.
//!
//! **Problem.** A reader of a pipe is woken at each write of the command, takes CPU time, and blocks the command when
//! it falls behind. All three would be part of the measurement. A plain file has no reader, but it grows.
//!
//! **Approach.** The command writes into files, so that a write costs only the command. The first write after a quiet
//! time wakes the watcher once (inotify, one shot). The watcher then looks every [`LOOK`] until the command has been
//! quiet for that long. It frees the blocks before the end that is kept ([`Written::look`] punches holes). A command
//! without output wakes nothing. One with gigabytes of output has no more on disk than it writes between two looks.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;

/// Time between two looks at files that grow. A guest writes at most some 50 MB in it.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// Bytes of a file's end that are kept.
const KEPT: u64 = 64 << 10;
/// Bytes before them that may accumulate before they are freed.
const SLACK: u64 = 1 << 20;
/// Holes begin and end on pages.
const PAGE: u64 = 4096;

/// A command's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// The end of its standard output.
    pub output: String,
    /// The end of its standard error.
    pub errors: String,
    /// Its last write was to standard error.
    pub errors_last: bool,
}

impl Said {
    /// The last lines: standard error's after standard output's, unless standard error came first.
    pub fn last_lines(&self, most: usize) -> Vec<String> {
        let of = |text: &str| {
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            let from = lines.len().saturating_sub(most);
            lines[from..].iter().map(|line| line.trim_end().to_string()).collect::<Vec<_>>()
        };
        let (output, errors) = (of(&self.output), of(&self.errors));
        let mut lines = match self.errors_last {
            true => [output, errors].concat(),
            false => [errors, output].concat(),
        };
        lines.drain(..lines.len().saturating_sub(most));
        lines
    }
}

/// Called with whole lines as they are written.
pub type Show<'a> = &'a mut dyn FnMut(&str);

/// Reborrows it for a shorter time.
pub(crate) fn again<'a>(show: &'a mut Option<Show<'_>>) -> Option<Show<'a>> {
    match show {
        Some(show) => Some(&mut **show),
        None => None,
    }
}

/// The two files of a command, and the watch over them.
pub(crate) struct Written {
    streams: [Stream; 2],
    watch: OwnedFd,
}

struct Stream {
    path: PathBuf,
    file: File,
    /// Length at the last look.
    length: u64,
    /// Bytes before this are freed.
    freed: u64,
    /// Bytes before this have been shown.
    shown: u64,
}

impl Written {
    /// Creates both files: standard output's and standard error's.
    pub fn create(output: &Path, errors: &Path) -> io::Result<Self> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let written =
            Written { streams: [Stream::create(output)?, Stream::create(errors)?], watch };
        written.arm()?;
        Ok(written)
    }

    /// The command's ends. Each write appends, even to a file that the command itself has truncated, as `>/dev/stderr`
    /// does.
    pub fn ends(&self) -> io::Result<[File; 2]> {
        let end = |stream: &Stream| OpenOptions::new().append(true).open(&stream.path);
        Ok([end(&self.streams[0])?, end(&self.streams[1])?])
    }

    /// Readable once the command has written after [`Written::arm`].
    pub fn watch(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// Makes the next write wake the watcher.
    pub fn arm(&self) -> io::Result<()> {
        for stream in &self.streams {
            inotify::add_watch(
                &self.watch,
                &stream.path,
                WatchFlags::MODIFY | WatchFlags::ONESHOT,
            )?;
        }
        Ok(())
    }

    /// Clears the watcher's wakeup.
    pub fn disarm(&self) {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 512];
        let mut events = inotify::Reader::new(&self.watch, &mut buffer);
        while events.next().is_ok() {}
    }

    /// Shows new output, and frees what is not kept. Returns whether a file has grown since the last look.
    pub fn look(&mut self, mut show: Option<Show<'_>>) -> io::Result<bool> {
        let mut grew = false;
        for stream in &mut self.streams {
            grew |= stream.look(again(&mut show), false)?;
        }
        Ok(grew)
    }

    /// The end of both files, after the command has ended; shows the rest.
    pub fn finish(mut self, mut show: Option<Show<'_>>) -> io::Result<Said> {
        for stream in &mut self.streams {
            stream.look(again(&mut show), true)?;
        }
        let changed = |stream: &Stream| stream.file.metadata()?.modified();
        let [output, errors] = &self.streams;
        Ok(Said {
            errors_last: errors.length > 0 && changed(errors)? >= changed(output)?,
            output: output.end()?,
            errors: errors.end()?,
        })
    }
}

impl Stream {
    fn create(path: &Path) -> io::Result<Self> {
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Stream { path: path.to_path_buf(), file, length: 0, freed: 0, shown: 0 })
    }

    fn look(&mut self, show: Option<Show<'_>>, all: bool) -> io::Result<bool> {
        let length = self.file.metadata()?.len();
        let grew = length != self.length;
        self.length = length;
        // A command that reopens the file may truncate it.
        (self.freed, self.shown) = (self.freed.min(length), self.shown.min(length));
        if let Some(show) = show {
            self.show(show, all)?;
        }
        let keep_from = length.saturating_sub(KEPT) / PAGE * PAGE;
        if keep_from >= self.freed + SLACK {
            self.free(keep_from)?;
        }
        Ok(grew)
    }

    /// Frees the bytes before `to`.
    fn free(&mut self, to: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, hole, self.freed, to - self.freed) {
            Ok(()) => self.freed = to,
            // A file system without holes: the end is rewritten at the start, and further output is appended.
            Err(Errno::OPNOTSUPP) => {
                let end = self.read(to, self.length)?;
                ftruncate(&self.file, 0)?;
                self.file.write_all_at(&end, 0)?;
                (self.length, self.freed, self.shown) = (end.len() as u64, 0, end.len() as u64);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Shows whole lines, or everything if `all`. If there is more than is kept, only the end is shown.
    fn show(&mut self, show: Show<'_>, all: bool) -> io::Result<()> {
        let from = self.shown.max(self.length.saturating_sub(KEPT));
        if from > self.shown {
            show(&format!("... {} bytes are not shown", from - self.shown));
        }
        let bytes = self.read(from, self.length)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole = if all || bytes.len() as u64 >= KEPT { bytes.len() } else { whole };
        String::from_utf8_lossy(&bytes[..whole]).lines().for_each(show);
        self.shown = from + whole as u64;
        Ok(())
    }

    fn end(&self) -> io::Result<String> {
        let bytes = self.read(self.length.saturating_sub(KEPT), self.length)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (to - from) as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], from + filled as u64)? {
                0 => break,
                some => filled += some,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn written() -> (tempfile::TempDir, Written) {
        let folder = tempfile::tempdir().unwrap();
        let [output, errors] = ["output", "errors"].map(|name| folder.path().join(name));
        let written = Written::create(&output, &errors).unwrap();
        (folder, written)
    }

    fn woken(written: &Written) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&written.watch, PollFlags::IN)], Some(&now)).unwrap() > 0
    }

    #[test]
    fn a_large_output_keeps_its_end_and_takes_no_room() {
        let (_folder, mut written) = written();
        let [mut output, _] = written.ends().unwrap();
        let line = "0123456789abcde\n".repeat(4096);
        for _ in 0..256 {
            output.write_all(line.as_bytes()).unwrap();
            written.look(None).unwrap();
            let kept = written.streams[0].file.metadata().unwrap().blocks() * 512;
            assert!(kept <= 4 * SLACK, "{kept} bytes on disk");
        }
        output.write_all(b"the end\n").unwrap();
        let said = written.finish(None).unwrap();
        assert_eq!(said.output.len() as u64, KEPT);
        assert!(said.output.ends_with("abcde\nthe end\n"));
    }

    #[test]
    fn only_the_first_write_after_a_quiet_time_wakes_the_watcher() {
        let (_folder, mut written) = written();
        let [mut output, mut errors] = written.ends().unwrap();
        assert!(!woken(&written));
        output.write_all(b"one\n").unwrap();
        assert!(woken(&written));
        errors.write_all(b"two\n").unwrap();
        written.disarm();
        output.write_all(b"three\n").unwrap();
        errors.write_all(b"four\n").unwrap();
        assert!(!woken(&written), "each of its files was watched once");
        assert!(written.look(None).unwrap() && !written.look(None).unwrap());
        written.arm().unwrap();
        errors.write_all(b"five\n").unwrap();
        assert!(woken(&written));
    }

    #[test]
    fn lines_are_shown_once_and_whole() {
        let (_folder, mut written) = written();
        let [mut output, mut errors] = written.ends().unwrap();
        let mut shown = Vec::new();
        let mut show = |line: &str| shown.push(line.to_string());
        output.write_all(b"one\ntw").unwrap();
        written.look(Some(&mut show)).unwrap();
        output.write_all(b"o\n").unwrap();
        errors.write_all(b"half").unwrap();
        written.look(Some(&mut show)).unwrap();
        let said = written.finish(Some(&mut show)).unwrap();
        assert_eq!(shown, ["one", "two", "half"]);
        assert_eq!((&*said.output, &*said.errors), ("one\ntwo\n", "half"));
    }

    #[test]
    fn a_file_that_its_command_cuts_short_goes_on() {
        let (_folder, mut written) = written();
        let [_, mut errors] = written.ends().unwrap();
        errors.write_all(b"a long line before\n").unwrap();
        written.look(None).unwrap();
        File::create(&written.streams[1].path).unwrap().write_all(b"cut\n").unwrap();
        errors.write_all(b"and on\n").unwrap();
        assert_eq!(written.finish(None).unwrap().errors, "cut\nand on\n");
    }

    #[test]
    fn the_last_lines_are_those_that_came_last() {
        let said =
            |errors_last| Said { output: "a\n\nb\n".into(), errors: "x\ny".into(), errors_last };
        assert_eq!(said(true).last_lines(3), ["b", "x", "y"]);
        assert_eq!(said(false).last_lines(3), ["y", "a", "b"]);
    }
}
