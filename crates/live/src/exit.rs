// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's message to a policy on its exit: `policies/common/exit.h`.

use std::ffi::CStr;
use std::fmt::{self, Display};

use libbpf_rs::{MapCore, MapFlags, Object};

/// Why a policy is no longer in charge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// The kernel's `enum scx_exit_kind`; 1,024 and above are errors.
    pub kind: i32,
    /// In a few words, such as `runnable task stall`.
    pub reason: String,
    /// The task or CPU concerned; empty if there is nothing to add.
    pub message: String,
    /// The state of CPUs and tasks at that moment, many lines; empty if it was no error.
    pub dump: String,
}

/// `SCX_EXIT_UNREG`: its process has removed it. What ends it from outside has higher numbers.
const UNREGISTERED: i32 = 64;
/// `SCX_EXIT_SYSRQ`: SysRq-S, the key with which an administrator ends any scheduler.
const SYSRQ: i32 = 67;

impl Display for Exit {
    /// The reason, and the task or CPU concerned.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.is_empty() {
            true => out.write_str(&self.reason),
            false => write!(out, "{} ({})", self.reason, self.message),
        }
    }
}

impl Exit {
    /// Whether the kernel ended the policy, and not its own process.
    pub fn is_ejection(&self) -> bool {
        self.kind > UNREGISTERED
    }

    /// Whether an administrator ended the policy with a key.
    pub fn is_by_administrator(&self) -> bool {
        self.kind == SYSRQ
    }
}

const MAP: &str = ".bss.exit";
/// Offsets in `struct exit_record`.
const REASON: usize = 16;
const MESSAGE: usize = REASON + 128;
const DUMP: usize = MESSAGE + 1024;

/// The record of a loaded policy; None while it is in charge, or if it keeps none.
pub(crate) fn read(object: &Object) -> Option<Exit> {
    let map = object.maps().find(|map| map.name() == MAP)?;
    parse(&map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??)
}

fn parse(record: &[u8]) -> Option<Exit> {
    let kind = i32::from_ne_bytes(record.get(..4)?.try_into().ok()?);
    let text = |from: usize| {
        let text = CStr::from_bytes_until_nul(record.get(from..)?).ok()?;
        Some(text.to_string_lossy().trim_end().to_string())
    };
    (kind != 0).then_some(())?;
    Some(Exit { kind, reason: text(REASON)?, message: text(MESSAGE)?, dump: text(DUMP)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: i32, at: &[(usize, &str)]) -> Vec<u8> {
        let mut bytes = vec![0; DUMP + 64];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        for (from, text) in at {
            bytes[*from..from + text.len()].copy_from_slice(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn a_policy_in_charge_has_no_exit() {
        assert_eq!(parse(&record(0, &[])), None);
    }

    #[test]
    fn texts_end_where_c_ends_them() {
        let told = parse(&record(1026, &[(REASON, "stall"), (MESSAGE, "a[1]"), (DUMP, "CPU 0\n")]));
        let (reason, message) = ("stall".to_string(), "a[1]".to_string());
        assert_eq!(told, Some(Exit { kind: 1026, reason, message, dump: "CPU 0".to_string() }));
    }
}
