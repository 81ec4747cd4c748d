// SPDX-License-Identifier: GPL-2.0-only
//! The kfuncs that a policy's C calls, as functions of this process.
//!
//! A policy's copy has the address of a table of functions. The table has a context: the runtime and the kernel, set
//! for the duration of one callback.

use std::ffi::{CStr, c_char, c_void};

use machine::{CpuSet, LEVELS};
use policy::native::{ClockCounts, Expires, Kernel as KernelTable, TaskStruct};

use super::dsq::{self, Dsq};
use super::flags::*;
use super::{Context, Direct, Inserted, Ops, Runtime, lent};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::task::State;

/// The table, at an address that stays.
pub(super) struct Table {
    table: *mut KernelTable,
}

impl Table {
    pub fn new() -> Self {
        let table = KernelTable {
            runtime: Box::into_raw(Box::new(Context::NONE)).cast::<c_void>(),
            create_dsq,
            dsq_nr_queued,
            dsq_insert,
            dsq_insert_vtime,
            dsq_move_to_local,
            select_cpu_dfl,
            test_and_clear_cpu_idle,
            pick_idle_cpu,
            kick_cpu,
            task_cpu,
            cpu_allowed,
            set_slice,
            set_dsq_vtime,
            now_ns,
            this_cpu,
            random_u32,
            task_storage_get,
            spin_lock,
            spin_unlock,
            error,
            dsq_peek_vtime,
            dsq_next,
            cpu_instructions,
            clock_counts,
            vector_used,
            task_xfeatures,
            reenqueue_local,
            reenqueue_here,
            cpu_is_active,
            goes_anywhere,
            has_siblings,
            forker,
            dsq_take,
            cpu_idles,
            cpu_curr,
            dsq_move_vtime,
            timer_start,
        };
        Table { table: Box::into_raw(Box::new(table)) }
    }

    pub fn address(&self) -> *mut KernelTable {
        self.table
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: both were made by new() and are freed once; the copy that knows them is gone.
        unsafe {
            drop(Box::from_raw((*self.table).runtime.cast::<Context>()));
            drop(Box::from_raw(self.table));
        }
    }
}

impl Runtime {
    /// The task that a policy passed, or the end of the run.
    fn passed(&mut self, k: &mut Kernel, p: *const TaskStruct, by: &str) -> Option<TaskId> {
        let task = self.task_of(p);
        if task.is_none() {
            self.error(k, format_args!("{by} called with something that is no task"));
        }
        task
    }

    /// `check_builtin_idle_enabled`: a policy with an update_idle callback has the kernel's masks only if it asks for
    /// both.
    fn tracks_idle(&mut self, k: &mut Kernel) -> bool {
        if !self.builtin_idle {
            self.error(k, "built-in idle tracking is disabled");
        }
        self.builtin_idle
    }

    fn checked_cpu(&mut self, k: &mut Kernel, cpu: i32, by: &str) -> Option<CpuId> {
        let valid = usize::try_from(cpu).ok().filter(|cpu| *cpu < k.cpus.len());
        if valid.is_none() {
            self.error(k, format_args!("invalid CPU {cpu} in {by}"));
        }
        valid
    }

    /// `scx_dsq_insert_commit`.
    fn insert(&mut self, k: &mut Kernel, task: TaskId, dsq: u64, flags: u64) {
        k.call(self.func.scx_dsq_insert_preamble);
        let unknown = flags & !(ENQ_KNOWN | ENQ_DSQ_PRIQ);
        if unknown != 0 {
            self.error(k, format_args!("enq_flags {unknown:#x} are not modelled"));
        }
        match self.direct {
            Direct::Task(of) if of == task => {
                self.direct = Direct::Done;
                self.tasks[task].direct = Some((dsq, flags));
            }
            Direct::Task(_) => self.error(k, "tries to direct-dispatch another task"),
            Direct::Done => self.error(k, "a task is already direct-dispatched"),
            Direct::No if self.dispatching.is_none() => {
                self.error(k, "scx_bpf_dsq_insert outside select_cpu, enqueue and dispatch");
            }
            Direct::No if self.buffer.len() >= DISPATCH_BATCH => {
                self.error(k, "dispatch buffer overflow");
            }
            Direct::No => {
                let seq = match self.tasks[task].ops {
                    Ops::Queued(seq) => Some(seq),
                    _ => None,
                };
                self.buffer.push(Inserted { task, seq, dsq, flags });
            }
        }
    }
}

unsafe extern "C" fn create_dsq(table: *mut KernelTable, id: u64, _node: i32) -> i32 {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    k.call(rt.func.scx_bpf_create_dsq);
    if id & DSQ_FLAG_BUILTIN != 0 {
        return -EINVAL;
    }
    if rt.user_dsqs.get(id).is_some() {
        return -EEXIST;
    }
    let lock = k.new_lock("dsq");
    rt.user_dsqs.insert(id, rt.dsqs.len());
    rt.dsqs.push(Dsq::new(id, Some(lock)));
    0
}

unsafe extern "C" fn dsq_nr_queued(table: *mut KernelTable, id: u64) -> i32 {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    k.call(rt.func.scx_bpf_dsq_nr_queued);
    let index = match id {
        DSQ_LOCAL => Some(rt.dispatching.unwrap_or(k.this_cpu())),
        _ if id & DSQ_LOCAL_ON == DSQ_LOCAL_ON => {
            Some((id & DSQ_LOCAL_CPU_MASK) as usize).filter(|cpu| *cpu < k.cpus.len())
        }
        _ => rt.user_dsqs.get(id),
    };
    index.map_or(-ENOENT, |index| rt.dsqs[index].nr as i32)
}

unsafe extern "C" fn dsq_insert(
    table: *mut KernelTable,
    p: *mut TaskStruct,
    id: u64,
    slice: u64,
    flags: u64,
) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let Some(task) = rt.passed(k, p, "scx_bpf_dsq_insert") else { return };
    let entity = rt.entity(task);
    entity.slice = if slice > 0 { slice } else { entity.slice.max(1) };
    rt.insert(k, task, id, flags);
}

unsafe extern "C" fn dsq_insert_vtime(
    table: *mut KernelTable,
    p: *mut TaskStruct,
    id: u64,
    slice: u64,
    vtime: u64,
    flags: u64,
) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let Some(task) = rt.passed(k, p, "scx_bpf_dsq_insert_vtime") else { return };
    let entity = rt.entity(task);
    entity.slice = if slice > 0 { slice } else { entity.slice.max(1) };
    entity.dsq_vtime = vtime;
    rt.insert(k, task, id, flags | ENQ_DSQ_PRIQ);
}

impl Runtime {
    /// The policy's own queue of this id, or the end of the run.
    fn user_dsq(&mut self, k: &mut Kernel, id: u64, by: &str) -> Option<usize> {
        let index = self.user_dsqs.get(id);
        if index.is_none() {
            self.error(k, format_args!("{by} on non-existent DSQ {id:#x}"));
        }
        index
    }
}

unsafe extern "C" fn dsq_peek_vtime(table: *mut KernelTable, id: u64) -> u64 {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    k.call(rt.func.scx_bpf_dsq_peek);
    let first = rt.user_dsq(k, id, "peek").and_then(|index| rt.dsqs[index].first());
    first.map_or(0, |task| rt.structs[task].scx.dsq_vtime)
}

unsafe extern "C" fn dsq_next(
    table: *mut KernelTable,
    id: u64,
    after: *mut TaskStruct,
) -> *mut TaskStruct {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    k.call(rt.func.bpf_iter_scx_dsq);
    let Some(index) = rt.user_dsq(k, id, "an iterator") else { return std::ptr::null_mut() };
    // The lock is held for each step.
    let lock = rt.dsqs[index].lock.expect("a policy's own queue has a lock");
    k.lock(lock);
    let next = match rt.task_of(after) {
        Some(task) if rt.links[task].dsq == Some(index) => dsq::next(&rt.links, task),
        // It was moved meanwhile.
        Some(task) => rt.left_behind.filter(|(moved, _)| *moved == task).and_then(|(_, next)| next),
        None => rt.dsqs[index].first(),
    };
    k.unlock(lock);
    next.map_or(std::ptr::null_mut(), |task| rt.pointer(task))
}

/// The CPU for which dispatch is called; a call from outside of dispatch is an error.
fn dispatching(rt: &mut Runtime, k: &mut Kernel, name: &str) -> Option<CpuId> {
    if rt.dispatching.is_none() {
        rt.error(k, format_args!("{name} outside dispatch"));
    }
    rt.dispatching
}

unsafe extern "C" fn dsq_move_to_local(table: *mut KernelTable, id: u64) -> bool {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let Some(cpu) = dispatching(rt, k, "scx_bpf_dsq_move_to_local") else { return false };
    rt.flush(k, cpu);
    let Some(index) = rt.user_dsqs.get(id) else {
        rt.error(k, format_args!("invalid DSQ ID {id:#x}"));
        return false;
    };
    let moved = rt.consume(k, cpu, index);
    rt.produced += usize::from(moved);
    moved
}

/// `scx_bpf_dsq_move` to the local queue.
unsafe extern "C" fn dsq_take(table: *mut KernelTable, id: u64, p: *mut TaskStruct) -> bool {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let name = "scx_bpf_dsq_move";
    let Some(cpu) = dispatching(rt, k, name) else { return false };
    let Some(index) = rt.user_dsq(k, id, name) else { return false };
    let Some(task) = rt.passed(k, p, name) else { return false };
    rt.flush(k, cpu);
    let moved = rt.take(k, cpu, index, task);
    rt.produced += usize::from(moved);
    moved
}

/// `scx_bpf_dsq_move_vtime` to a queue of the policy's own.
unsafe extern "C" fn dsq_move_vtime(
    table: *mut KernelTable,
    from: u64,
    p: *mut TaskStruct,
    to: u64,
    vtime: u64,
) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let name = "scx_bpf_dsq_move_vtime";
    let Some(from) = rt.user_dsq(k, from, name) else { return };
    let Some(to) = rt.user_dsq(k, to, name) else { return };
    let Some(task) = rt.passed(k, p, name) else { return };
    rt.move_between_dsqs(k, [from, to], task, vtime);
}

unsafe extern "C" fn timer_start(table: *mut KernelTable, expires: Expires, number: u32, ns: u64) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    rt.timer_start(k, expires, number, ns);
}

unsafe extern "C" fn select_cpu_dfl(
    table: *mut KernelTable,
    p: *mut TaskStruct,
    prev: i32,
    wake_flags: u64,
    is_idle: *mut bool,
) -> i32 {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    // SAFETY: the policy passes the address of a variable of its own.
    unsafe { *is_idle = false };
    let name = "scx_bpf_select_cpu_dfl";
    let Some(task) = rt.passed(k, p, name) else { return prev };
    let Some(prev_cpu) = rt.checked_cpu(k, prev, name) else { return prev };
    if !rt.tracks_idle(k) {
        return prev;
    }
    let local_nr = rt.dsqs[k.this_cpu()].nr;
    match rt.idle.select(k, task, prev_cpu, wake_flags, local_nr) {
        Ok(cpu) => {
            // SAFETY: as above.
            unsafe { *is_idle = true };
            cpu as i32
        }
        Err(_) => prev,
    }
}

unsafe extern "C" fn test_and_clear_cpu_idle(table: *mut KernelTable, cpu: i32) -> bool {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    if !rt.tracks_idle(k) {
        return false;
    }
    let cpu = rt.checked_cpu(k, cpu, "scx_bpf_test_and_clear_cpu_idle");
    cpu.is_some_and(|cpu| rt.idle.claim(k, cpu))
}

unsafe extern "C" fn pick_idle_cpu(
    table: *mut KernelTable,
    allowed: *const c_void,
    flags: u64,
) -> i32 {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    if !rt.tracks_idle(k) {
        return -EBUSY;
    }
    // A policy has no other masks than those of its tasks.
    let masks = rt.masks.as_ptr_range();
    let mask = allowed.cast::<CpuSet>();
    if !masks.contains(&mask) {
        rt.error(k, "scx_bpf_pick_idle_cpu called with something that is no task's mask");
        return -EBUSY;
    }
    // SAFETY: it points at one of the masks.
    let allowed = unsafe { *mask };
    rt.idle.pick(k, &allowed, flags).map_or(-EBUSY, |cpu| cpu as i32)
}

unsafe extern "C" fn kick_cpu(table: *mut KernelTable, cpu: i32, flags: u64) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    if flags & !(KICK_IDLE | KICK_PREEMPT) != 0 {
        return rt.error(k, format_args!("kick flags {flags:#x} are not modelled"));
    }
    if flags & KICK_IDLE != 0 && flags & KICK_PREEMPT != 0 {
        return rt.error(k, "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE");
    }
    if let Some(cpu) = rt.checked_cpu(k, cpu, "scx_bpf_kick_cpu") {
        rt.kick(k, cpu, flags);
    }
}

/// In cpu_release: re-enqueues the tasks on the CPU's local queue at once.
unsafe extern "C" fn reenqueue_local(table: *mut KernelTable) -> u32 {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let cpu = k.this_cpu();
    if !rt.releasing {
        rt.error(k, "scx_bpf_reenqueue_local outside cpu_release");
        return 0;
    }
    rt.reenqueue(k, cpu, true)
}

/// The same, from anywhere and as soon as locks allow (Linux 6.19).
unsafe extern "C" fn reenqueue_here(table: *mut KernelTable) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    rt.rqs[k.this_cpu()].reenqueue = true;
    k.raise_irq_work();
}

unsafe extern "C" fn task_cpu(table: *mut KernelTable, p: *const TaskStruct) -> i32 {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    rt.passed(k, p, "scx_bpf_task_cpu").map_or(0, |task| k.tasks[task].cpu as i32)
}

unsafe extern "C" fn cpu_allowed(table: *mut KernelTable, p: *const TaskStruct, cpu: i32) -> bool {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let task = rt.passed(k, p, "bpf_cpumask_test_cpu");
    cpu >= 0 && task.is_some_and(|task| k.tasks[task].allowed.has(cpu as usize))
}

unsafe extern "C" fn cpu_is_active(table: *mut KernelTable, cpu: i32) -> bool {
    // SAFETY: a policy calls this within a callback.
    let (_, k) = unsafe { lent(table) };
    usize::try_from(cpu).is_ok_and(|cpu| k.online.has(cpu))
}

unsafe extern "C" fn cpu_idles(table: *mut KernelTable, cpu: i32) -> bool {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let tracks = rt.tracks_idle(k);
    tracks && usize::try_from(cpu).is_ok_and(|cpu| rt.idle.has(k, cpu))
}

/// `scx_bpf_cpu_curr`.
unsafe extern "C" fn cpu_curr(table: *mut KernelTable, cpu: i32) -> *mut TaskStruct {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let curr = rt.checked_cpu(k, cpu, "scx_bpf_cpu_curr").and_then(|cpu| k.cpus[cpu].curr);
    curr.map_or(std::ptr::null_mut(), |task| rt.pointer(task))
}

unsafe extern "C" fn goes_anywhere(table: *mut KernelTable, p: *const TaskStruct) -> bool {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let task = rt.passed(k, p, "bpf_cpumask_subset");
    task.is_some_and(|task| k.online.within(&k.tasks[task].allowed))
}

/// `mm_users` of the address space. It ends with its last task.
unsafe extern "C" fn has_siblings(table: *mut KernelTable, p: *const TaskStruct) -> bool {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let Some(task) = rt.passed(k, p, "mm_users") else { return false };
    let mm = rt.structs[task].mm;
    let is_sibling = |other: usize| {
        other != task
            && rt.structs[other].mm == mm
            && !matches!(k.tasks[other].state, State::New | State::Dead)
    };
    !mm.is_null() && (0..rt.structs.len()).any(is_sibling)
}

unsafe extern "C" fn set_slice(table: *mut KernelTable, p: *mut TaskStruct, slice: u64) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    if let Some(task) = rt.passed(k, p, "scx_bpf_task_set_slice") {
        rt.entity(task).slice = slice;
    }
}

unsafe extern "C" fn set_dsq_vtime(table: *mut KernelTable, p: *mut TaskStruct, vtime: u64) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    if let Some(task) = rt.passed(k, p, "scx_bpf_task_set_dsq_vtime") {
        rt.entity(task).dsq_vtime = vtime;
    }
}

unsafe extern "C" fn now_ns(table: *mut KernelTable) -> u64 {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    k.call(rt.func.scx_bpf_now);
    k.now_ns() + k.noise.ahead_ns(k.this_cpu())
}

unsafe extern "C" fn this_cpu(table: *mut KernelTable) -> i32 {
    // SAFETY: a policy calls this within a callback.
    let (_, k) = unsafe { lent(table) };
    k.this_cpu() as i32
}

unsafe extern "C" fn forker(table: *mut KernelTable) -> *mut TaskStruct {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    k.forker.map_or(std::ptr::null_mut(), |task| rt.pointer(task))
}

/// The PMU's count of instructions: work, at a fixed number for each ns on the reference CPU.
unsafe extern "C" fn cpu_instructions(table: *mut KernelTable) -> u64 {
    // SAFETY: a policy calls this within a callback.
    let (_, k) = unsafe { lent(table) };
    k.cpus[k.this_cpu()].instructions as u64
}

/// The PMU's counts of this CPU's clock.
unsafe extern "C" fn clock_counts(table: *mut KernelTable, out: *mut ClockCounts) -> bool {
    // SAFETY: a policy calls this within a callback.
    let (_, k) = unsafe { lent(table) };
    k.charge_ns(k.machine.costs.counter_read_ns * LEVELS as f64);
    let Some(counted) = k.clocks_counted() else { return false };
    let whole = ClockCounts {
        cycles: counted.cycles.map(|cycles| cycles as u64),
        limited_ns: counted.limited_ns as u64,
        energy_uj: counted.energy_uj as u64,
    };
    // SAFETY: the policy passes the address of a variable of its own.
    unsafe { out.write(whole) };
    true
}

unsafe extern "C" fn vector_used(table: *mut KernelTable) -> u32 {
    // SAFETY: a policy calls this within a callback.
    let (_, k) = unsafe { lent(table) };
    let cpu = k.this_cpu();
    k.clocks.as_mut().map_or(0, |clocks| u32::from(clocks.trapped(cpu)))
}

/// Registers that a task's code has in use, as in the header of its saved state. For a task without known code: the
/// registers that glibc's string functions leave in use in every program.
unsafe extern "C" fn task_xfeatures(table: *mut KernelTable, p: *const TaskStruct) -> u64 {
    const SSE: u64 = 1 << 1;
    const YMM: u64 = 1 << 2;
    const ZMM_HI256: u64 = 1 << 6;
    const ZMM_16_TO_31: u64 = 1 << 7;
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    let Some(task) = rt.passed(k, p.cast_mut(), "task_xfeatures") else { return 0 };
    let own = [0, YMM, YMM | ZMM_HI256][usize::from(k.tasks[task].vector.min(2))];
    SSE | ZMM_16_TO_31 | own
}

unsafe extern "C" fn random_u32(table: *mut KernelTable) -> u32 {
    // SAFETY: a policy calls this within a callback.
    let (_, k) = unsafe { lent(table) };
    k.random_u32()
}

unsafe extern "C" fn task_storage_get(
    table: *mut KernelTable,
    map: *mut c_void,
    size: u32,
    p: *mut TaskStruct,
    flags: u64,
) -> *mut c_void {
    const CREATE: u64 = 1;
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    k.call(rt.func.scx_bpf_task_storage_get);
    let Some(task) = rt.passed(k, p, "bpf_task_storage_get") else { return std::ptr::null_mut() };
    let storage = &mut rt.storage[task];
    let mut at = storage.iter().position(|(of, _)| *of == map as usize);
    if flags & CREATE != 0 && at.is_none() {
        // In words of 8 bytes, so that any field is aligned.
        let words = (size as usize).div_ceil(8);
        at = Some(storage.len());
        storage.push((map as usize, vec![0; words].into()));
    }
    at.map_or(std::ptr::null_mut(), |at| storage[at].1.as_mut_ptr().cast())
}

unsafe extern "C" fn spin_lock(table: *mut KernelTable, lock: *mut c_void) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    k.call(rt.func.bpf_spin_lock);
    let lock = *rt.bpf_locks.entry(lock as usize).or_insert_with(|| k.new_lock("bpf"));
    if k.holds(lock) {
        return rt.error(k, "bpf_spin_lock: the lock is held already");
    }
    k.lock(lock);
}

unsafe extern "C" fn spin_unlock(table: *mut KernelTable, lock: *mut c_void) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    match rt.bpf_locks.get(&(lock as usize)).copied().filter(|lock| k.holds(*lock)) {
        Some(lock) => k.unlock(lock),
        None => rt.error(k, "bpf_spin_unlock: the lock is not held"),
    }
}

unsafe extern "C" fn error(table: *mut KernelTable, message: *const c_char) {
    // SAFETY: a policy calls this within a callback.
    let (rt, k) = unsafe { lent(table) };
    // SAFETY: the policy passes a string literal.
    let message = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    rt.error(k, message);
}
