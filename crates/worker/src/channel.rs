// SPDX-License-Identifier: GPL-2.0-only
//! Pipes and sockets between the tasks: the kernel's own.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use workload::Object;

use crate::sync::Stopped;

/// Both ends.
pub(crate) struct Channel {
    read: OwnedFd,
    write: OwnedFd,
}

/// Why a message did not go through.
pub(crate) enum Broken {
    Stopped,
    Failed(Errno),
}

impl From<Stopped> for Broken {
    fn from(_: Stopped) -> Broken {
        Broken::Stopped
    }
}

impl Channel {
    /// The channel that `object` describes, if it is one.
    pub(crate) fn open(object: &Object) -> io::Result<Option<Channel>> {
        match object {
            Object::Pipe { capacity } => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                if *capacity != workload::hackbench::PIPE_BYTES {
                    fcntl_setpipe_size(&write, *capacity as usize)?;
                }
                Ok(Some(Channel { read, write }))
            }
            Object::Packets { messages } => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::DIRECT)?;
                fcntl_setpipe_size(&write, *messages as usize * PAGE_BYTES)?;
                Ok(Some(Channel { read, write }))
            }
            Object::Socket { capacity, .. } => {
                let (read, write) = socketpair(
                    AddressFamily::UNIX,
                    SocketType::STREAM,
                    SocketFlags::CLOEXEC,
                    None,
                )?;
                if *capacity != workload::hackbench::SOCKET_BYTES {
                    // The kernel doubles what it is given, for its own bookkeeping.
                    sockopt::set_socket_send_buffer_size(&write, *capacity as usize / 2)?;
                }
                Ok(Some(Channel { read, write }))
            }
            _ => Ok(None),
        }
    }

    /// Writes one message; blocks while there is no room.
    pub(crate) fn write(&self, bytes: usize, stopped: impl Fn() -> bool) -> Result<(), Broken> {
        transfer(bytes, stopped, |buffer, left| rustix::io::write(&self.write, &buffer[..left]))
    }

    /// Reads as much as one message holds; blocks while there is nothing.
    pub(crate) fn read(&self, bytes: usize, stopped: impl Fn() -> bool) -> Result<(), Broken> {
        transfer(bytes, stopped, |buffer, left| rustix::io::read(&self.read, &mut buffer[..left]))
    }
}

/// The kernel's unit for sizes of pipes.
const PAGE_BYTES: usize = 4096;

/// A longer message goes in pieces of this size.
const BUFFER_BYTES: usize = PAGE_BYTES;

fn transfer(
    bytes: usize,
    stopped: impl Fn() -> bool,
    mut some: impl FnMut(&mut [u8; BUFFER_BYTES], usize) -> Result<usize, Errno>,
) -> Result<(), Broken> {
    let mut buffer = [0u8; BUFFER_BYTES];
    let mut left = bytes;
    while left > 0 {
        if stopped() {
            return Err(Broken::Stopped);
        }
        match some(&mut buffer, left.min(BUFFER_BYTES)) {
            // The other ends are all closed.
            Ok(0) => return Err(Broken::Failed(Errno::PIPE)),
            Ok(done) => left -= done,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Broken::Failed(errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn a_pipe_that_keeps_messages_apart_has_room_for_so_many() {
        let channel = Channel::open(&Object::Packets { messages: 2 }).unwrap().unwrap();
        let has_room = || {
            let mut ends = [PollFd::new(&channel.write, PollFlags::OUT)];
            poll(&mut ends, Some(&Timespec::default())).unwrap() == 1
        };
        let send = || assert!(channel.write(1, || false).is_ok());
        send();
        assert!(has_room());
        send();
        assert!(!has_room());
        assert!(channel.read(1, || false).is_ok());
        assert!(has_room());
    }
}
