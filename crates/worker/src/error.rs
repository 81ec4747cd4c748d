// SPDX-License-Identifier: GPL-2.0-only
//! Why a workload could not run.

/// Why a workload could not run, in one line.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {what}: {cause}")]
    System { what: &'static str, cause: std::io::Error },
    #[error("task {task}: cannot {what}: {cause}")]
    Task { task: String, what: &'static str, cause: std::io::Error },
    #[error(
        "cannot make cgroup {path}: {cause}; workloads with cgroups need root, the cpu controller of \
         version 2, and no group of that name"
    )]
    Group { path: String, cause: std::io::Error },
    #[error("task {task}: none of its CPUs {cpus:?} is online here")]
    NoCpu { task: String, cpus: Vec<usize> },
    #[error("process {pid} of the workload died: {how}")]
    Died { pid: u32, how: String },
}
