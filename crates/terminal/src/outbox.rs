// SPDX-License-Identifier: GPL-2.0-only
//! Lines for a reader that may not read them: a pager that is not scrolled, a terminal stopped by Ctrl-S. A process
//! with a policy in charge must not wait for such a reader.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};

/// A ready pipe takes this many bytes without blocking (PIPE_BUF of Linux).
const AT_ONCE: usize = 4096;
/// Most bytes that may wait to be read; later lines are dropped.
const KEPT_MAX: usize = 64 << 10;

/// Text that is not written yet.
#[derive(Default)]
pub struct Outbox {
    rest: Vec<u8>,
    left_out: u64,
}

impl Outbox {
    /// Adds this text, or drops it if too much waits already. Writes as much as possible without blocking.
    pub fn offer(&mut self, to: impl AsFd, text: &str) -> Result<(), Errno> {
        match self.rest.len() + text.len() > KEPT_MAX.max(text.len()) {
            true => self.left_out += 1,
            false => self.rest.extend_from_slice(text.as_bytes()),
        }
        while !self.rest.is_empty() && is_ready(&to)? && self.write_some(&to)? {}
        Ok(())
    }

    /// Writes the rest, however long that takes. Returns how many texts were dropped since the last call.
    pub fn finish(&mut self, to: impl AsFd) -> Result<u64, Errno> {
        while !self.rest.is_empty() {
            if !self.write_some(&to)? {
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
        }
        Ok(std::mem::take(&mut self.left_out))
    }

    /// Writes a part; returns false if nothing was written, as a non-blocking descriptor may refuse.
    fn write_some(&mut self, to: impl AsFd) -> Result<bool, Errno> {
        let some = self.rest.len().min(AT_ONCE);
        match write(to.as_fd(), &self.rest[..some]) {
            Ok(written) => {
                self.rest.drain(..written);
                Ok(true)
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(false),
            Err(error) => {
                self.rest.clear();
                Err(error)
            }
        }
    }
}

/// Whether a write would not block; an error counts too.
fn is_ready(to: impl AsFd) -> Result<bool, Errno> {
    match poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter, Read, pipe};

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    const LINE: &str = "{\"switches_per_s\": 12345}\n";

    /// Everything that can be read now.
    fn read(reader: &mut PipeReader) -> String {
        let mut text = vec![0; 1 << 20];
        let read = reader.read(&mut text).unwrap();
        text.truncate(read);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn what_can_be_read_is_there_at_once() {
        let ((mut reader, writer), mut outbox) = (pipe().unwrap(), Outbox::default());
        for _ in 0..3 {
            outbox.offer(&writer, LINE).unwrap();
            assert_eq!(read(&mut reader), LINE);
        }
        assert_eq!(outbox.finish(&writer), Ok(0));
    }

    #[test]
    fn an_outbox_waits_for_no_reader_and_keeps_lines_whole() {
        for flags in [OFlags::empty(), OFlags::NONBLOCK] {
            let (reader, writer) = pipe().unwrap();
            fcntl_setfl(&writer, flags).unwrap();
            lines_stay_whole(reader, writer);
        }
    }

    fn lines_stay_whole(mut reader: PipeReader, writer: PipeWriter) {
        let mut outbox = Outbox::default();
        let long = format!("{}\n", "x".repeat(3 * AT_ONCE));
        for n in 0..100_000 {
            outbox.offer(&writer, if n % 100 == 0 { &long } else { LINE }).unwrap();
        }
        let all = std::thread::spawn(move || {
            let mut all = String::new();
            reader.read_to_string(&mut all).unwrap();
            all
        });
        let left_out = outbox.finish(&writer).unwrap();
        drop(writer);
        let all = all.join().unwrap();
        let came = all.split_inclusive('\n').inspect(|line| {
            assert!(*line == LINE || *line == long, "cut: {line}");
        });
        assert_eq!(came.count() as u64 + left_out, 100_000);
        assert!(left_out > 50_000 && all.len() > KEPT_MAX, "{left_out}, {}", all.len());
    }

    #[test]
    fn a_reader_that_has_gone_is_an_error() {
        let ((reader, writer), mut outbox) = (pipe().unwrap(), Outbox::default());
        drop(reader);
        assert_eq!(outbox.offer(&writer, LINE), Err(Errno::PIPE));
    }
}
