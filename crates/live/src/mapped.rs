// SPDX-License-Identifier: GPL-2.0-only
//! Memory of the kernel's in this process: a BPF array, or a ring of samples.

use std::os::fd::AsFd;
use std::ptr::NonNull;

use anyhow::Context;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The mapping, until this is dropped.
pub(crate) struct Mapped {
    pub start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the process; its users agree on access to its contents
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps so many bytes, read-only or writable.
    pub fn new(of: impl AsFd, bytes: usize, writable: bool) -> anyhow::Result<Self> {
        let length = bytes.next_multiple_of(rustix::param::page_size());
        let rights = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a fresh mapping of memory that the kernel keeps as long as it is mapped
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, rights, MapFlags::SHARED, of.as_fd(), 0) };
        let start = start.context("memory of the kernel's cannot be mapped")?;
        let start = NonNull::new(start.cast()).context("memory of the kernel's is at 0")?;
        Ok(Mapped { start, length })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped in new() with this length, and no reference outlives self
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}
