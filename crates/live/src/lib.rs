// SPDX-License-Identifier: GPL-2.0-only
//! Everything that touches a running kernel: loads a policy, runs a workload under it, observes the scheduler.
//!
//! The same code runs inside the guest of `vm` and, as root, on this machine.

mod address;
pub mod affinity;
mod behind;
mod callbacks;
mod cgroup;
mod control;
mod core_scheduling;
mod counters;
mod energy;
mod execute;
mod exit;
mod facts;
mod glance;
mod hierarchy;
mod hooks;
mod kept;
mod kernel;
mod licenses;
mod load;
mod locks;
mod log;
mod mapped;
pub mod measure;
mod memory;
mod meter;
mod observe;
mod others;
mod outside;
mod perf_event;
mod process;
mod program;
pub mod recorder;
mod renewal;
pub mod sampler;
mod symbols;
mod threads;
mod topology;
mod tracefs;
mod trial;
mod variables;
mod watch;
mod written;

pub use behind::{Behind, Lookout};
pub use callbacks::Callback;
pub use cgroup::{CGROUPS, Limit, limits, own_limits};
pub use control::{Knows, SHARE as CONTROL_SHARE};
pub use core_scheduling::{END_COOKIES, core_scheduled};
pub use counters::{Counters, Counting, Event, Reader};
pub use energy::{Energy, of_processors};
pub use execute::{
    Broken, Executed, Execution, Interrupted, end_all_but, end_session, execute,
    now_ns as monotonic_ns, work,
};
pub use exit::Exit;
pub use facts::{Facts, MISSES, kernel_release, missing_rights, missing_to_load, namespaces};
pub use glance::{Glance, Load};
pub use kernel::{Messages, OwnClass, STOP_IT, State, can_load, scheduler, state};
pub use load::{Attached, Ready, Scope, load, prepare, verified};
pub use locks::{LockCounter, Locks};
pub use memory::counts_misses;
pub use meter::{BUCKETS, Cpu, Meter, Reading, Table, Use, bucket_end_ns};
pub use observe::{Observer, RecordedBytes, Recording, Seen, fold};
pub use others::Others;
pub use outside::Outside;
pub use process::{
    Standing, ask_for_sched_ext, die_with_parent, end_as_killed, end_as_others, ignore, is_ignored,
    outrank_policies, outrank_real_time, speak_from_background, stop, unhandle,
};
pub use program::{BY_FILE, absent, name as thread_name};
pub use topology::{cpu_list, topology};
pub use trial::{Scheduler, Trial, Tried, complete, rotated};
pub use worker::{Groups, bytes_of};
pub use written::Show;
