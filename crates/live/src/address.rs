// SPDX-License-Identifier: GPL-2.0-only
//! Where the kernel has the variables that a policy reads without the help of a kfunc.

use std::sync::OnceLock;

use anyhow::Context;
use libbpf_rs::{ObjectBuilder, ProgramInput};

use crate::variables::{bss, variables};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/address.bpf.o"));

/// The policies' variables for what this module finds: the address of the kernel's mask of CPUs that take tasks, or 0
/// if the kernel does not tell it. It does not without CONFIG_KALLSYMS_ALL.
pub(crate) fn config() -> (&'static str, Vec<u8>) {
    static FOUND: OnceLock<u64> = OnceLock::new();
    let address = FOUND.get_or_init(|| find().unwrap_or(0));
    ("cpu_active_mask_at", address.to_ne_bytes().to_vec())
}

fn find() -> anyhow::Result<u64> {
    let object = ObjectBuilder::default().open_memory(PROGRAM)?.load()?;
    let program = object.progs_mut().next().context("it has no program")?;
    let ended = program.test_run(ProgramInput::default())?;
    anyhow::ensure!(ended.return_value == 0, "it is not there");
    let (at, size) = variables(PROGRAM, ".bss")?["address"];
    let address = bss(&object)?[at..at + size].try_into()?;
    Ok(u64::from_ne_bytes(address))
}
