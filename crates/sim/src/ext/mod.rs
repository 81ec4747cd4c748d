// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext: the class that runs a policy (kernel/sched/ext/ext.c, 6.12 to 7.2).
//!
//! The policy's whole `main.bpf.c` runs here, as a private copy of its native build; its kfuncs are in `kfuncs.rs`. A
//! call that the kernel would refuse ends the run with the kernel's reason. A call that is not modelled ends it with
//! its name.

mod control;
mod dispatch;
mod dsq;
mod enqueue;
mod flags;
mod idle;
mod kfuncs;
mod preempted;
mod watchdog;

use std::collections::BTreeMap;

use machine::{CpuSet, Machine};
use policy::native::{
    Cgroup, Copy, KernfsNode, SchedExtEntity, SchedExtOps, ScxExitInfo, ScxExitTaskArgs,
    ScxInitTaskArgs, TaskStruct,
};
use policy::table::TYPES_MAX;
use policy::{Clocks, TOTALS, Topology};
use policy::{Instance, Profile};
use trace::Placed;

use crate::account::Func;
use crate::checkers::Hint;
use crate::class::{Class, dequeue};
use crate::kernel::{Kernel, cgroup_id, tid};
use crate::lock::LockId;
use crate::related::{Related, Siblings};
use crate::task::{CpuId, State, Task, TaskId};
use control::Controller;
use dsq::{Dsq, Ids, Link};
use flags::*;
use idle::Idle;
use kfuncs::Table;

/// The class.
pub(crate) struct Ext {
    // Dropped first, in this order: the control plane reads the copy's table of tasks, and the copy's code
    // may not outlive the table of kfuncs that it calls.
    control: Option<Controller>,
    copy: Option<Copy>,
    rt: Box<Runtime>,
    instance: Instance,
    /// If the policy is told groups of tasks instead of their address spaces.
    siblings: Option<Siblings>,
}

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
    /// A higher class has taken the CPU, and the policy was told [cpu_released].
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
    timeout_ns: u64,
    func: Funcs,
    calls: Calls,
    table: Table,
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
    enable
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
                $k.sink.callback(now, cpu, stringify!($op), of.map($crate::kernel::tid));
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

impl Ext {
    /// Loads a private copy of the policy.
    pub fn new(
        instance: &Instance,
        profile: &Profile,
        counters: bool,
        k: &mut Kernel,
    ) -> Result<Self, String> {
        let cpus = &k.machine.cpus;
        let topology = Topology {
            llc: cpus.iter().map(|cpu| cpu.llc).collect(),
            core: cpus.iter().map(|cpu| cpu.core).collect(),
            node: cpus.iter().map(|cpu| cpu.node).collect(),
            core_type: k.machine.kinds(TYPES_MAX).of,
            missing: Vec::new(),
            node_distance: k.machine.node_distance.clone(),
            tick_ns: k.machine.costs.tick_period_ns as u64,
            reads_counters: counters,
            clocks: clocks(&k.machine),
        };
        let table = Table::new();
        // SAFETY: the table lives in the runtime, which the copy does not outlive.
        let copy = unsafe { Copy::load(instance, &topology, table.address()) }
            .map_err(|error| error.to_string())?;
        let rt = Runtime::new(copy.ops().clone(), copy.name(), table, k)?;
        Ok(Ext {
            control: Controller::new(instance, &topology, profile, &copy)?,
            copy: Some(copy),
            rt: Box::new(rt),
            instance: instance.clone(),
            siblings: None,
        })
    }

    /// The same, but the policy is told groups of tasks in place of their address spaces.
    pub fn related(instance: &Instance, how: Related, k: &mut Kernel) -> Result<Self, String> {
        let siblings = Siblings::new(how, k).ok_or(
            "it learns from what tasks touch of memory: needs a workload that says so (\"hw\"), and a \
             machine with [memory]",
        )?;
        Ok(Ext { siblings: Some(siblings), ..Ext::new(instance, &Profile::new(), false, k)? })
    }
}

/// The clocks of a machine, as told to a policy.
pub fn clocks(machine: &Machine) -> Clocks {
    let Some(frequency) = &machine.frequency else { return Clocks::default() };
    let law = frequency.license.as_ref();
    Clocks {
        turbo_khz: machine.turbo_khz(),
        license_levels: frequency.levels() as u32,
        release_ns: law.map_or(0, |law| law.release_ns),
        throttle_ns: law.map_or(0, |law| law.throttle_ns),
        halt_ns: law.map_or(0, |law| law.halt_ns),
    }
}

impl Runtime {
    fn new(ops: SchedExtOps, policy: String, table: Table, k: &mut Kernel) -> Result<Self, String> {
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
            idle: Idle::new(k),
            direct: Direct::No,
            dispatching: None,
            releasing: false,
            buffer: Vec::with_capacity(DISPATCH_BATCH),
            produced: 0,
            storage: Vec::new(),
            bpf_locks: BTreeMap::new(),
            timeout_ns: timeout_ms * 1_000_000,
            func: Funcs::new(k),
            calls: Calls::new(k),
            table,
        })
    }

    /// Runs a callback with `k` as its kfuncs' kernel.
    fn with_kernel<R>(&mut self, k: &mut Kernel, call: impl FnOnce() -> R) -> R {
        let table = self.table.address();
        let (me, k) = (std::ptr::from_mut(self), std::ptr::from_mut(k));
        kfuncs::lend(table, me, k, call)
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
        self.cgroups = self.folders.iter_mut().map(|kn| Cgroup { kn: &raw mut *kn }).collect();
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

impl Class for Ext {
    fn name(&self) -> String {
        self.instance.label.clone()
    }

    fn start(&mut self, k: &mut Kernel) -> Result<(), String> {
        let rt = &mut *self.rt;
        rt.masks = k.tasks.iter().map(|task| task.allowed).collect();
        rt.tasks = k.tasks.iter().map(|_| ExtTask::default()).collect();
        rt.links = vec![Link::default(); k.tasks.len()];
        rt.storage = vec![Vec::new(); k.tasks.len()];
        let structs: Vec<_> = (0..k.tasks.len()).map(|task| rt.new_task_struct(k, task)).collect();
        rt.structs = structs.into();
        if self.siblings.is_some() {
            rt.structs.iter_mut().for_each(|task| task.mm = opaque(0));
        }
        rt.make_cgroups(k);
        if let Some(init) = rt.ops.init {
            // SAFETY: the copy is loaded, and its kfuncs' kernel is set for the time of the call.
            let error = rt.with_kernel(k, || unsafe { init() });
            if error != 0 {
                return Err(format!("policy {}: init failed with {error}", rt.policy));
            }
        }
        Ok(())
    }

    fn fork(&mut self, k: &mut Kernel, task: TaskId) {
        let rt = &mut *self.rt;
        k.enter(rt.func.scx_init_task);
        rt.init_task(k, task);
        let p = rt.pointer(task);
        rt.entity(task).weight = weight(&k.tasks[task]);
        callback!(rt, k, enable(p), Some(task));
        let weight = rt.entity(task).weight;
        callback!(rt, k, set_weight(p, weight), Some(task));
        k.leave();
    }

    /// `scx_fork`: announces a task to the policy that may become the policy's.
    fn fork_other(&mut self, k: &mut Kernel, task: TaskId) {
        k.enter(self.rt.func.scx_init_task);
        self.rt.init_task(k, task);
        k.leave();
    }

    fn dead(&mut self, k: &mut Kernel, task: TaskId) {
        let rt = &mut *self.rt;
        let p = rt.pointer(task);
        let mut args = ScxExitTaskArgs { cancelled: false };
        callback!(rt, k, exit_task(p, &raw mut args), Some(task));
        rt.storage[task].clear();
    }

    fn dead_other(&mut self, k: &mut Kernel, task: TaskId) {
        self.dead(k, task);
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev: CpuId, flags: u64) -> CpuId {
        k.enter(self.rt.func.select_task_rq_scx);
        let cpu = self.rt.select_cpu(k, task, prev, flags);
        k.leave();
        cpu
    }

    /// `scx_allow_ttwu_queue`: a policy's flag concerns its own tasks.
    fn queued_wakeups(&self, k: &Kernel, task: TaskId) -> bool {
        k.tasks[task].realtime.yes() || self.rt.ops.flags & OPS_ALLOW_QUEUED_WAKEUP != 0
    }

    fn enqueue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        self.rt.enqueue_task(k, cpu, task, flags, 0);
    }

    fn dequeue(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId, flags: u64) {
        if k.tasks[task].state == State::Dead {
            self.rt.structs[task].flags |= PF_EXITING;
        }
        if flags & dequeue::MOVE != 0 && k.cpus[cpu].curr == Some(task) {
            self.rt.stop(k, cpu, task);
        }
        self.rt.dequeue_task(k, cpu, task, flags);
    }

    fn preempt(&mut self, _: &mut Kernel, _: CpuId, _: TaskId, _: TaskId, _: u64) {
        // A policy preempts through the slice of the running task, when it inserts or kicks.
    }

    fn woken(&mut self, k: &mut Kernel, cpu: CpuId, _: TaskId) {
        self.rt.run_deferred(k, cpu);
    }

    fn pick_next(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        prev: Option<TaskId>,
        _runnable: bool,
    ) -> Option<TaskId> {
        // A stopped task has left before another one is picked: the stopper is not a policy's.
        let prev = prev.filter(|prev| !k.tasks[*prev].is_stopped());
        self.rt.pick_next(k, cpu, prev)
    }

    fn put_prev(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        prev: TaskId,
        _runnable: bool,
        next: Option<TaskId>,
    ) {
        k.enter(self.rt.func.put_prev_task_scx);
        self.rt.put_prev(k, cpu, prev, next);
        k.leave();
    }

    fn set_next(&mut self, k: &mut Kernel, cpu: CpuId, next: TaskId) {
        let rt = &mut *self.rt;
        k.enter(rt.func.set_next_task_scx);
        if rt.is_queued(next) {
            rt.ops_dequeue(k, next, 0);
            rt.dispatch_dequeue(k, cpu, next);
        }
        k.tasks[next].exec_start_ns = k.now_ns();
        rt.tasks[next].requeued = 0;
        if rt.is_queued(next) {
            let p = rt.pointer(next);
            callback!(rt, k, running(p), Some(next));
        }
        rt.clear_waiting(next, true);
        k.leave();
    }

    fn idle(&mut self, k: &mut Kernel, cpu: CpuId, idle: bool, entered: bool) {
        let rt = &mut *self.rt;
        if rt.builtin_idle {
            rt.idle.update(k, cpu, idle);
        }
        if entered {
            callback!(rt, k, update_idle(cpu as i32, idle), None);
        }
    }

    fn tick(&mut self, k: &mut Kernel, cpu: CpuId, curr: TaskId) {
        let rt = &mut *self.rt;
        if let Some(groups) = self.siblings.as_mut().and_then(|siblings| siblings.tick(k)) {
            for (task, group) in rt.structs.iter_mut().zip(groups) {
                task.mm = opaque(group);
            }
        }
        k.enter(rt.func.task_tick_scx);
        rt.update_curr(k, curr);
        let p = rt.pointer(curr);
        callback!(rt, k, tick(p), Some(curr));
        if rt.entity(curr).slice == 0 {
            k.resched(cpu);
        }
        k.leave();
    }

    fn yield_task(&mut self, k: &mut Kernel, _cpu: CpuId, task: TaskId) {
        k.call(self.rt.func.yield_task_scx);
        self.rt.entity(task).slice = 0;
    }

    fn irq_work(&mut self, k: &mut Kernel, cpu: CpuId) {
        self.rt.irq_work(k, cpu);
    }

    fn set_affinity(&mut self, k: &mut Kernel, task: TaskId) {
        let rt = &mut *self.rt;
        k.enter(rt.func.set_cpus_allowed_scx);
        rt.masks[task] = k.tasks[task].allowed;
        rt.structs[task].nr_cpus_allowed = k.tasks[task].allowed.len() as i32;
        let (p, mask) = (rt.pointer(task), (&raw const rt.masks[task]).cast());
        callback!(rt, k, set_cpumask(p, mask), Some(task));
        k.leave();
    }

    fn set_nice(&mut self, k: &mut Kernel, task: TaskId) {
        let rt = &mut *self.rt;
        k.enter(rt.func.reweight_task_scx);
        let (p, weight) = (rt.pointer(task), weight(&k.tasks[task]));
        rt.structs[task].static_prio = 120 + i32::from(k.tasks[task].nice);
        rt.entity(task).weight = weight;
        callback!(rt, k, set_weight(p, weight), Some(task));
        k.leave();
    }

    fn has_executed(&mut self, k: &Kernel, task: TaskId) {
        self.rt.structs[task].mm = opaque(k.space_of(task));
    }

    fn hotplug(&mut self, k: &mut Kernel, cpu: CpuId, online: bool) -> Result<(), String> {
        let rt = &mut *self.rt;
        rt.idle.update_topology(k);
        if !online {
            rt.idle.update(k, cpu, false);
        }
        let heard = match online {
            true => callback!(rt, k, cpu_online(cpu as i32), None),
            false => callback!(rt, k, cpu_offline(cpu as i32), None),
        };
        let way = if online { "online" } else { "offline" };
        heard.ok_or_else(|| {
            format!("policy {}: cpu {cpu} going {way}, exiting scheduler", rt.policy)
        })
    }

    fn watchdog_ns(&self) -> Option<u64> {
        Some(self.rt.timeout_ns)
    }

    fn stalled(&mut self, k: &mut Kernel) -> Option<String> {
        self.rt.stalled(k)
    }

    fn control(&mut self, k: &Kernel) -> Option<u64> {
        self.control.as_mut().map(|control| control.step(k))
    }

    fn keep_measured(&mut self) {
        self.control.iter_mut().for_each(Controller::keep_measured);
    }

    fn measured(&self) -> BTreeMap<u32, Vec<f64>> {
        self.control.as_ref().map(Controller::measured).unwrap_or_default()
    }

    fn placed(&mut self) -> Vec<Placed> {
        self.control.as_mut().map(Controller::placed).unwrap_or_default()
    }

    fn totals(&self) -> Vec<(&'static str, u64)> {
        let total = |name: &'static str| {
            let at = self.copy.as_ref()?.symbol(name)?.cast::<u64>();
            // SAFETY: a policy that exports this name has a u64 there.
            Some((name, unsafe { at.read() }))
        };
        TOTALS.into_iter().filter_map(total).collect()
    }

    fn stop(&mut self, k: &mut Kernel) {
        self.control = None;
        let rt = &mut *self.rt;
        if let Some(exit) = rt.ops.exit {
            let mut info = ScxExitInfo {
                kind: 64, // SCX_EXIT_UNREG
                exit_code: 0,
                reason: c"unregistered from user space".as_ptr(),
                msg: c"".as_ptr(),
                dump: c"".as_ptr(),
            };
            // SAFETY: the copy is loaded, and its kfuncs' kernel is set for the time of the call.
            rt.with_kernel(k, || unsafe { exit(&raw mut info) });
        }
        self.copy = None;
    }
}

/// The flags of a dequeue as callbacks get them.
fn deq_flags(flags: u64) -> u64 {
    if flags & dequeue::SLEEP != 0 { DEQ_SLEEP } else { DEQ_SCHED_CHANGE }
}
