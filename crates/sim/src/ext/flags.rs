// SPDX-License-Identifier: GPL-2.0-only
//! Numbers of the sched_ext interface, as `policies/common/kernel.h` has them.

pub(super) const DSQ_GLOBAL: u64 = 0x8000_0000_0000_0001;
pub(super) const DSQ_LOCAL: u64 = 0x8000_0000_0000_0002;
pub(super) const DSQ_LOCAL_ON: u64 = 0xC000_0000_0000_0000;
pub(super) const DSQ_LOCAL_CPU_MASK: u64 = 0xFFFF_FFFF;
/// A DSQ that the kernel makes, not the policy.
pub(super) const DSQ_FLAG_BUILTIN: u64 = 1 << 63;

/// In a task's flags: it is runnable.
pub(super) const TASK_QUEUED: u32 = 0x1;

pub(super) const WAKE_SYNC: u64 = 0x10;

pub(super) const ENQ_WAKEUP: u64 = 0x1;
pub(super) const ENQ_HEAD: u64 = 0x10;
pub(super) const ENQ_PREEMPT: u64 = 1 << 32;
pub(super) const ENQ_REENQ: u64 = 1 << 40;
pub(super) const ENQ_LAST: u64 = 1 << 41;
/// Kept by the runtime: the task goes into the DSQ in the order of its vtime.
pub(super) const ENQ_DSQ_PRIQ: u64 = 1 << 57;
/// The flags that a policy may pass to an insertion, as far as they are modelled.
pub(super) const ENQ_KNOWN: u64 = ENQ_WAKEUP | ENQ_HEAD | ENQ_PREEMPT | ENQ_REENQ | ENQ_LAST;

/// Limit on re-enqueues of a task before it runs.
pub(super) const REENQ_MAX_REPEAT: u32 = 256;

pub(super) const DEQ_SLEEP: u64 = 0x1;
/// The task is dequeued because its properties change.
pub(super) const DEQ_SCHED_CHANGE: u64 = 1 << 33;

pub(super) const KICK_IDLE: u64 = 0x1;
pub(super) const KICK_PREEMPT: u64 = 0x2;

pub(super) const PICK_IDLE_CORE: u64 = 0x1;

pub(super) const OPS_KEEP_BUILTIN_IDLE: u64 = 1 << 0;
pub(super) const OPS_ENQ_LAST: u64 = 1 << 1;
pub(super) const OPS_ENQ_EXITING: u64 = 1 << 2;
pub(super) const OPS_SWITCH_PARTIAL: u64 = 1 << 3;
pub(super) const OPS_ENQ_MIGRATION_DISABLED: u64 = 1 << 4;
pub(super) const OPS_ALLOW_QUEUED_WAKEUP: u64 = 1 << 5;
/// Flags that are modelled, or make no difference if every task is the policy's.
pub(super) const OPS_KNOWN: u64 = OPS_KEEP_BUILTIN_IDLE
    | OPS_ENQ_LAST
    | OPS_ENQ_EXITING
    | OPS_SWITCH_PARTIAL
    | OPS_ENQ_MIGRATION_DISABLED
    | OPS_ALLOW_QUEUED_WAKEUP;

pub(super) const PF_EXITING: u32 = 0x4;
pub(super) const PF_KTHREAD: u32 = 0x0020_0000;

/// Slice of a task that the policy gives none.
pub(super) const SLICE_DFL_NS: u64 = 20_000_000;
pub(super) const SLICE_INF: u64 = u64::MAX;
/// The kernel's own timeout, if the policy names none.
pub(super) const WATCHDOG_MAX_MS: u64 = 30_000;
/// Tasks that one call of dispatch may hand over.
pub(super) const DISPATCH_BATCH: usize = 32;
/// Calls of dispatch in a row that produce tasks, but none for this CPU.
pub(super) const DISPATCH_LOOPS_MAX: u32 = 32;

pub(super) const ENOENT: i32 = 2;
pub(super) const EEXIST: i32 = 17;
pub(super) const EBUSY: i32 = 16;
pub(super) const EINVAL: i32 = 22;
