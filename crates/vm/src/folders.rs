// SPDX-License-Identifier: GPL-2.0-only
//! Folders of the guest.

/// Folders of the guest's programs.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Links to programs that lie in no folder of the guest's `PATH`. It is the last folder of it but for busybox's.
pub(crate) const PROGRAMS: &str = "/.programs";
/// Folder of links to busybox's applets, behind all other folders of `PATH`.
pub(crate) const APPLETS: &str = "/.busybox";
/// The workload's output is in a file system of its own, which bounds its size between two reads.
pub(crate) const WRITTEN: &str = "/run/written";
