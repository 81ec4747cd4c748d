// SPDX-License-Identifier: GPL-2.0-only
//! Compiles a plugin of QEMU for the example that needs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// The compiled plugin of this name, in the folder.
pub fn build(name: &str, scratch: &Path) -> anyhow::Result<PathBuf> {
    let source = format!("{}/plugin/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let object = scratch.join(format!("{name}.so"));
    let clang = std::env::var("BPF_CLANG").unwrap_or_else(|_| "clang-19".into());
    let mut command = Command::new(&clang);
    command.args(["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]);
    command.args(["-fPIC", "-shared", "-fvisibility=hidden", &source, "-o"]).arg(&object);
    let status = command.status().with_context(|| format!("cannot run {clang}"))?;
    anyhow::ensure!(status.success(), "{clang} cannot compile {source}");
    Ok(object)
}
