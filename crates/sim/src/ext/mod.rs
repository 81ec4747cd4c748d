// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext: the class that runs a policy (kernel/sched/ext/ext.c, 6.12 to 7.2).
//!
//! The policy's whole `main.bpf.c` runs here, as a private copy of its native build; its kfuncs are in `kfuncs.rs`. A
//! call that the kernel would refuse ends the run with the kernel's reason. A call that is not modelled ends it with
//! its name.

pub(crate) mod class;
mod control;
mod dispatch;
mod dsq;
mod enqueue;
mod flags;
mod idle;
mod kfuncs;
mod preempted;
mod timer;
mod timer_table;
mod watchdog;

use std::collections::BTreeMap;

use machine::CpuSet;
use policy::native::{
    Cgroup, CgroupSubsysState, Kernel as KernelTable, KernfsNode, SchedExtEntity, SchedExtOps,
    ScxInitTaskArgs, TaskStruct,
};

use crate::account::Func;
use crate::cgroup::cgroup_id;
use crate::checkers::Hint;
use crate::class::dequeue;
use crate::ids::{CpuId, TaskId, tid};
use crate::kernel::Kernel;
use crate::lock::LockId;
use crate::task::Task;
use dsq::{Dsq, Ids, Link};
use flags::*;
use idle::Idle;

/// The state of a runnable task between the policy and the queues (`SCX_OPSS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Ops {
    /// In a queue, running, or blocked.
    #[default]
    None,
    /// Being handed to the policy.
    Queueing,
    /// With the policy; the number distinguishes one stay there from the next.
    Queued(u64),
}

/// State of a task in sched_ext.
#[derive(Default)]
struct ExtTask {
    ops: Ops,
    seq: u64,
    /// The policy must be told when it no longer has it (`SCX_TASK_IN_CUSTODY`).
    in_custody: bool,
    /// How often it was re-enqueued since it ran last (`reenq_cnt`).
    requeued: u32,
    /// Queue and flags of a pending direct dispatch.
    direct: Option<(u64, u64)>,
    /// It waits in its CPU's list of deferred direct dispatches.
    deferred: bool,
    /// Destination of a move between CPUs that is under way.
    moving_to: Option<CpuId>,
    /// On its runqueue's list of tasks that wait to run, since when.
    waits: bool,
    waits_since_ns: u64,
    /// It has run since: the next wait counts from its start.
    reset_wait: bool,
}

/// State of a CPU in sched_ext.
#[derive(Default)]
struct ExtRq {
    in_balance: bool,
    /// Direct dispatches to other CPUs, to be performed as soon as locks allow.
    deferred: Vec<TaskId>,
    /// A higher class has taken the CPU, and the policy was told (`cpu_released`).
    released: bool,
    /// The tasks in the local queue are to be re-enqueued as soon as locks allow.
    reenqueue: bool,
    kick: CpuSet,
    kick_if_idle: CpuSet,
    kick_preempt: CpuSet,
}

/// The task that a direct dispatch may name (`direct_dispatch_task`).
#[derive(Clone, Copy, PartialEq)]
enum Direct {
    /// None: insertions go into the dispatch buffer, inside dispatch, or are refused.
    No,
    /// This one, not dispatched yet.
    Task(TaskId),
    /// It has been dispatched.
    Done,
}

/// One insertion of a call of dispatch.
struct Inserted {
    task: TaskId,
    seq: Option<u64>,
    dsq: u64,
    flags: u64,
}

/// State that the class and the kfuncs share.
struct Runtime {
    ops: SchedExtOps,
    policy: String,
    structs: Box<[TaskStruct]>,
    masks: Box<[CpuSet]>,
    /// Cgroups as policies see them, the root first; each points to its folder.
    cgroups: Box<[Cgroup]>,
    folders: Box<[KernfsNode]>,
    tasks: Vec<ExtTask>,
    links: Vec<Link>,
    rqs: Vec<ExtRq>,
    /// Local queues by CPU, then global ones by node, then the policy's own.
    dsqs: Vec<Dsq>,
    user_dsqs: Ids,
    /// The task that was last moved between the policy's own queues, and the one that was behind it.
    left_behind: Option<(TaskId, Option<TaskId>)>,
    idle: Idle,
    builtin_idle: bool,
    direct: Direct,
    /// The CPU that dispatches, if any.
    dispatching: Option<CpuId>,
    /// In cpu_release.
    releasing: bool,
    buffer: Vec<Inserted>,
    /// Tasks that the present call of dispatch has handed over.
    produced: usize,
    /// The policy's task storage, by the address of the map: there are one or two.
    storage: Vec<Vec<(usize, Box<[u64]>)>>,
    bpf_locks: BTreeMap<usize, LockId>,
    timers: timer_table::Timers,
    /// A timer expires.
    in_timer: bool,
    timeout_ns: u64,
    func: Funcs,
    calls: Calls,
    /// The table of kfuncs, which is the class's and outlives this.
    kfuncs: *mut KernelTable,
}

/// The context of kfuncs while a callback runs.
#[derive(Clone, Copy)]
struct Context {
    runtime: *mut Runtime,
    kernel: *mut Kernel,
}

impl Context {
    const NONE: Self = Context { runtime: std::ptr::null_mut(), kernel: std::ptr::null_mut() };
}

/// Runs `call` with the runtime and the kernel as the table's context.
fn lend<R>(
    table: *mut KernelTable,
    runtime: *mut Runtime,
    kernel: *mut Kernel,
    call: impl FnOnce() -> R,
) -> R {
    // SAFETY: the table and its context live longer than the runtime: the class drops them after it.
    let context = unsafe { (*table).runtime.cast::<Context>() };
    // SAFETY: as above; a callback within a callback puts the outer one's context back.
    let outer = unsafe { context.replace(Context { runtime, kernel }) };
    let answer = call();
    // SAFETY: as above.
    unsafe { context.write(outer) };
    answer
}

/// The runtime and the kernel of the running callback, with this kfunc charged.
///
/// # Safety
/// Only within a callback: `lend` has set both, and its caller does not use them meanwhile.
unsafe fn lent<'a>(table: *mut KernelTable) -> (&'a mut Runtime, &'a mut Kernel) {
    // SAFETY: see above.
    let (rt, k) = unsafe {
        let context = *(*table).runtime.cast::<Context>();
        (&mut *context.runtime, &mut *context.kernel)
    };
    k.charge(k.whole.kfunc_ns);
    (rt, k)
}

macro_rules! functions {
    ($($name:ident),*) => {
        /// Functions of the kernel that are charged.
        struct Funcs { $($name: Func,)* }

        impl Funcs {
            fn new(k: &Kernel) -> Self {
                Funcs { $($name: k.function(stringify!($name)),)* }
            }
        }
    };
}

functions!(
    select_task_rq_scx,
    enqueue_task_scx,
    do_enqueue_task,
    dequeue_task_scx,
    update_curr_scx,
    balance_one,
    pick_task_scx,
    put_prev_task_scx,
    set_next_task_scx,
    task_tick_scx,
    yield_task_scx,
    dispatch_enqueue,
    dispatch_to_local_dsq,
    dispatch_dequeue,
    consume_dispatch_q,
    move_task_between_dsqs,
    flush_dispatch_buf,
    scx_kick_cpu,
    kick_cpus_irq_workfn,
    scx_dsq_insert_preamble,
    scx_init_task,
    scx_bpf_dsq_nr_queued,
    scx_bpf_dsq_peek,
    bpf_iter_scx_dsq,
    scx_bpf_task_storage_get,
    scx_bpf_now,
    bpf_spin_lock,
    set_cpus_allowed_scx,
    reweight_task_scx,
    scx_bpf_create_dsq
);

macro_rules! callbacks {
    ($($name:ident),*) => {
        /// The policy's callbacks, as functions that cost time.
        struct Calls { $($name: Func,)* }

        impl Calls {
            fn new(k: &mut Kernel) -> Self {
                let instructions = k.paths.get(k.paths.id("bpf_callback")).instructions;
                let fixed_ns = k.machine.costs.callback_ns;
                Calls {
                    $($name: k.add_function(
                        concat!("ops.", stringify!($name)), instructions, fixed_ns),)*
                }
            }
        }
    };
}

callbacks!(
    select_cpu,
    enqueue,
    dequeue,
    dispatch,
    tick,
    runnable,
    running,
    stopping,
    quiescent,
    set_weight,
    set_cpumask,
    update_idle,
    cpu_acquire,
    cpu_release,
    cpu_online,
    cpu_offline,
    init_task,
    exit_task,
    enable,
    cgroup_move,
    timer
);

/// Calls one callback if the policy has it: charges for it, records it, and gives its kfuncs the kernel during the
/// call. Evaluates to its return value, if it was called.
macro_rules! callback {
    ($rt:expr, $k:expr, $op:ident($($arg:expr),*), $task:expr) => {
        match $rt.ops.$op {
            Some(function) => {
                let of: Option<TaskId> = $task;
                $k.enter($rt.calls.$op);
                let (now, cpu) = ($k.now_ns(), $k.this_cpu());
                $k.sink.callback(now, cpu, stringify!($op), of.map($crate::ids::tid));
                // SAFETY: the copy is loaded, and its kfuncs' kernel is set for the call.
                let answer = $rt.with_kernel($k, || unsafe { function($($arg),*) });
                $k.leave();
                Some(answer)
            }
            None => None,
        }
    };
}

use callback;

impl Runtime {
    fn new(
        ops: SchedExtOps,
        policy: String,
        kfuncs: *mut KernelTable,
        k: &mut Kernel,
    ) -> Result<Self, String> {
        let unknown = ops.flags & !OPS_KNOWN;
        if unknown != 0 {
            return Err(format!("policy {policy}: ops flags {unknown:#x} are not modelled"));
        }
        let mut dsqs: Vec<Dsq> = (0..k.cpus.len()).map(|_| Dsq::new(DSQ_LOCAL, None)).collect();
        for _ in 0..k.machine.node_distance.len() {
            let lock = k.new_lock("dsq");
            dsqs.push(Dsq::new(DSQ_GLOBAL, Some(lock)));
        }
        let keep_idle = ops.flags & OPS_KEEP_BUILTIN_IDLE != 0;
        let timeout_ms = match ops.timeout_ms {
            0 => WATCHDOG_MAX_MS,
            ms => u64::from(ms),
        };
        if timeout_ms > WATCHDOG_MAX_MS {
            return Err(format!(
                "policy {policy}: timeout_ms {timeout_ms} exceeds {WATCHDOG_MAX_MS}"
            ));
        }
        Ok(Runtime {
            builtin_idle: ops.update_idle.is_none() || keep_idle,
            ops,
            policy,
            structs: Box::default(),
            masks: Box::default(),
            cgroups: Box::default(),
            folders: Box::default(),
            tasks: Vec::new(),
            links: Vec::new(),
            rqs: (0..k.cpus.len()).map(|_| ExtRq::default()).collect(),
            dsqs,
            user_dsqs: Ids::default(),
            left_behind: None,
            idle: Idle::new(k),
            direct: Direct::No,
            dispatching: None,
            releasing: false,
            buffer: Vec::with_capacity(DISPATCH_BATCH),
            produced: 0,
            storage: Vec::new(),
            bpf_locks: BTreeMap::new(),
            timers: timer_table::Timers::default(),
            in_timer: false,
            timeout_ns: timeout_ms * 1_000_000,
            func: Funcs::new(k),
            calls: Calls::new(k),
            kfuncs,
        })
    }

    /// Runs a callback with `k` as its kfuncs' kernel.
    fn with_kernel<R>(&mut self, k: &mut Kernel, call: impl FnOnce() -> R) -> R {
        let table = self.kfuncs;
        let (me, k) = (std::ptr::from_mut(self), std::ptr::from_mut(k));
        lend(table, me, k, call)
    }

    /// The policy's view of a task.
    #[inline]
    fn pointer(&mut self, task: TaskId) -> *mut TaskStruct {
        &raw mut self.structs[task]
    }

    /// The task that a policy's pointer refers to, if any.
    fn task_of(&self, p: *const TaskStruct) -> Option<TaskId> {
        let offset = (p as usize).checked_sub(self.structs.as_ptr() as usize)?;
        let index = offset / size_of::<TaskStruct>();
        (offset % size_of::<TaskStruct>() == 0 && index < self.structs.len()).then_some(index)
    }

    #[inline]
    fn entity(&mut self, task: TaskId) -> &mut SchedExtEntity {
        &mut self.structs[task].scx
    }

    /// Whether a task is runnable as sched_ext sees it.
    #[inline]
    fn is_queued(&self, task: TaskId) -> bool {
        self.structs[task].scx.flags & TASK_QUEUED != 0
    }

    /// `scx_error`: the kernel gives the policy up.
    #[cold]
    #[inline(never)]
    fn error(&mut self, k: &mut Kernel, reason: impl std::fmt::Display) {
        k.fail(format!("policy {}: {reason}", self.policy));
    }

    /// `update_curr_scx`: charges the running task, and its slice.
    fn update_curr(&mut self, k: &mut Kernel, task: TaskId) {
        k.call(self.func.update_curr_scx);
        let delta_ns = k.update_curr(task);
        let slice = &mut self.entity(task).slice;
        if *slice != SLICE_INF {
            let over = (1..=delta_ns).contains(slice);
            *slice = slice.saturating_sub(delta_ns);
            if over {
                k.hint(Hint::SliceOver);
            }
        }
    }

    /// `scx_init_task`.
    fn init_task(&mut self, k: &mut Kernel, task: TaskId) {
        let p = self.pointer(task);
        let cgroup = self.cgroup(k.tasks[task].cgroup);
        let mut args = ScxInitTaskArgs { fork: true, cgroup };
        if let Some(error) = callback!(self, k, init_task(p, &raw mut args), Some(task))
            && error != 0
        {
            self.error(k, format_args!("init_task failed with {error}"));
        }
    }

    fn make_cgroups(&mut self, k: &Kernel) {
        let id = |at: usize| KernfsNode { id: at as u64 + cgroup_id(None) };
        self.folders = (0..k.cgroups.len()).map(id).collect();
        let alone = |kn: &mut KernfsNode| Cgroup {
            own: CgroupSubsysState { cgroup: std::ptr::null_mut(), parent: std::ptr::null_mut() },
            kn: &raw mut *kn,
        };
        self.cgroups = self.folders.iter_mut().map(alone).collect();
        for (at, group) in k.cgroups.iter().enumerate() {
            self.cgroups[at].own.cgroup = &raw mut self.cgroups[at];
            if group.parent != 0 {
                let parent = self.cgroup(group.parent);
                // SAFETY: only the address of a field is computed, and the cgroup lives as long as this.
                self.cgroups[at].own.parent = unsafe { &raw mut (*parent).own };
            }
        }
    }

    fn cgroup(&mut self, id: u64) -> *mut Cgroup {
        &raw mut self.cgroups[(id - cgroup_id(None)) as usize]
    }

    fn new_task_struct(&self, k: &Kernel, task: TaskId) -> TaskStruct {
        let of = &k.tasks[task];
        TaskStruct {
            pid: tid(task) as i32,
            tgid: 1 + of.process as i32,
            flags: if of.kernel { PF_KTHREAD } else { 0 },
            nr_cpus_allowed: of.allowed.len() as i32,
            static_prio: 120 + i32::from(of.nice),
            policy: of.policy(),
            cpus_ptr: (&raw const self.masks[task]).cast(),
            mm: opaque(k.space_of(task)),
            scx: SchedExtEntity {
                weight: weight(of),
                slice: SLICE_DFL_NS,
                ..SchedExtEntity::default()
            },
        }
    }
}

/// An address space as policies see it: they only compare it. 0 is none.
fn opaque<T>(number: usize) -> *mut T {
    std::ptr::without_provenance_mut(number << 12)
}

/// `sched_weight_to_cgroup`: 100 at nice 0.
fn weight(task: &Task) -> u32 {
    ((u64::from(task.weight()) * 100 + 512) / 1024).clamp(1, 10_000) as u32
}

/// The flags of a dequeue as callbacks get them.
fn deq_flags(flags: u64) -> u64 {
    if flags & dequeue::SLEEP != 0 { DEQ_SLEEP } else { DEQ_SCHED_CHANGE }
}
