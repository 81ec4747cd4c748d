// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own classes: they are not sched_ext policies and do not pay its costs.
//!
//! `Cfs` is the class of Linux 2.6.38, `Eevdf` that of 6.12 and later. Both follow kernel/sched/fair.c
//! (kernel/sched_fair.c then) step by step, and pay for their reads from other CPUs.

mod capacity;
mod cfs;
mod cfs_balance;
mod cfs_place;
mod domains;
mod eevdf;
mod eevdf_balance;
mod eevdf_bandwidth;
mod eevdf_capacity;
mod eevdf_cgroup;
mod eevdf_funcs;
mod eevdf_group;
mod eevdf_place;
mod eevdf_pool;
mod eevdf_queue;
mod eevdf_tree;
mod newidle;
#[cfg(test)]
mod tests;

use crate::class::Class;
use crate::kernel::Kernel;

/// CPU time that a limited cgroup may have in advance on each CPU, ns.
pub(crate) use eevdf_pool::SLICE_NS as LIMIT_AHEAD_NS;

/// Linux's class as of today: EEVDF.
pub(crate) fn default(k: &mut Kernel) -> Result<Box<dyn Class>, String> {
    Ok(Box::new(eevdf::Eevdf::new(&k.machine, &k.paths).with_delayed(k)))
}

/// Linux's class as of 2.6: CFS.
pub(crate) fn cfs(k: &mut Kernel) -> Result<Box<dyn Class>, String> {
    Ok(Box::new(cfs::Cfs::new(&k.machine, &k.paths)))
}

/// A CPU's code is simulated in one go, ahead of other CPUs. So a CPU may see a task that another one sends at a later
/// virtual time. It gets the task at that time.
fn not_before(k: &mut Kernel, t_ns: u64) {
    let early_ns = t_ns.saturating_sub(k.now_ns());
    k.charge_ns(early_ns as f64);
}
