// SPDX-License-Identifier: GPL-2.0-only
//! The memory that a task asks for: written once before the start, so that it is resident, and located at the end.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::available::available_bytes;

const PAGE: usize = 4096;
/// Memory nodes that a report has room for.
pub(crate) const NODES_MAX: usize = 16;
/// Pages of one system call.
const CHUNK: usize = 1024;

/// The memory of one task.
pub(crate) struct Memory {
    base: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    /// `bytes` bytes, with each page written by the caller. None if `bytes` is 0.
    ///
    /// Fails if less than that is available: the kernel would kill whole programs for want of it.
    pub fn new(bytes: u64) -> io::Result<Option<Memory>> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?.next_multiple_of(PAGE);
        if bytes == 0 {
            return Ok(None);
        }
        if available_bytes().is_some_and(|available| bytes > available) {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        // SAFETY: a fresh anonymous mapping aliases nothing
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = Memory { base, bytes };
        for page in (0..bytes).step_by(PAGE) {
            // SAFETY: within the mapping, which no other code knows of
            unsafe { memory.base.add(page).write_volatile(1) };
        }
        Ok(Some(memory))
    }

    /// Bytes of it on each node; all 0 if the kernel does not tell.
    pub fn resident(&self) -> [u64; NODES_MAX] {
        let mut resident = [0; NODES_MAX];
        let pages: Vec<usize> =
            (0..self.bytes).step_by(PAGE).map(|at| self.base.as_ptr() as usize + at).collect();
        for pages in pages.chunks(CHUNK) {
            let mut nodes = vec![-libc::ENOENT; pages.len()];
            // SAFETY: both arrays have as many entries as the call is told; without target nodes nothing is moved
            let told = unsafe {
                libc::syscall(
                    libc::SYS_move_pages,
                    0,
                    pages.len(),
                    pages.as_ptr(),
                    std::ptr::null::<libc::c_int>(),
                    nodes.as_mut_ptr(),
                    0,
                )
            };
            let known = nodes.iter().filter_map(|node| usize::try_from(*node).ok());
            known
                .filter(|node| told == 0 && *node < NODES_MAX)
                .for_each(|node| resident[node] += PAGE as u64);
        }
        resident
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length. A failure would leave it in place, which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Until this is dropped, the calling thread's memory comes from some nodes and is not migrated.
pub(crate) struct Bound(());

/// From now on the calling thread's memory comes from these nodes.
pub(crate) fn bind(nodes: &[usize]) -> io::Result<Bound> {
    const BITS: usize = u64::BITS as usize;
    let mut mask = [0u64; NODES_MAX.div_ceil(BITS)];
    for node in nodes {
        *mask.get_mut(node / BITS).ok_or(io::ErrorKind::InvalidInput)? |= 1 << (node % BITS);
    }
    // The kernel looks at one bit less than the number it is given.
    let bits = mask.len() * BITS + 1;
    // SAFETY: the mask has as many bits as the call looks at
    match unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, mask.as_ptr(), bits) } {
        0 => Ok(Bound(())),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let nowhere = std::ptr::null::<u64>();
        // SAFETY: the default policy has no nodes. A kernel that has bound the thread does not refuse it.
        let _ = unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_DEFAULT, nowhere, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_somewhere() {
        let memory = Memory::new(10 * PAGE as u64 - 5).unwrap().unwrap();
        let there: u64 = memory.resident().iter().sum();
        // Kernels without NUMA do not tell.
        assert!(there == 10 * PAGE as u64 || there == 0, "{there}");
        assert!(Memory::new(0).unwrap().is_none());
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let error = Memory::new(1 << 60).map(|_| ()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    }

    #[test]
    fn memory_comes_from_a_node_that_there_is() {
        std::thread::spawn(|| {
            if let Ok(_bound) = bind(&[0]) {
                let memory = Memory::new(4 * PAGE as u64).unwrap().unwrap();
                assert_eq!(memory.resident()[0], 4 * PAGE as u64);
                assert!(bind(&[NODES_MAX - 1]).is_err(), "no machine here has so many");
            }
        })
        .join()
        .unwrap();
    }
}
