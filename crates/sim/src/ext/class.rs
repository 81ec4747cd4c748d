// SPDX-License-Identifier: GPL-2.0-only
//! The class as the kernel calls it, and the life of the policy in it.

use std::collections::BTreeMap;

use machine::Machine;
use policy::native::{Copy, ScxExitInfo, ScxExitTaskArgs};
use policy::table::TYPES_MAX;
use policy::{Clocks, Instance, Profile, Topology};
use trace::Placed;

use super::control::Controller;
use super::dsq::Link;
use super::flags::*;
use super::kfuncs::Table;
use super::{ExtTask, Runtime, callback, opaque, weight};
use crate::class::{Class, dequeue};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::related::{Related, Siblings};
use crate::task::State;

/// The class.
pub(crate) struct Ext {
    // Dropped first, in this order: the control plane reads the copy's table of tasks, and the copy's code
    // may not outlive the table of kfuncs that it calls.
    control: Option<Controller>,
    copy: Option<Copy>,
    rt: Box<Runtime>,
    /// Dropped after the copy and the runtime, which have its address.
    _kfuncs: Table,
    instance: Instance,
    /// If the policy is told groups of tasks instead of their address spaces.
    siblings: Option<Siblings>,
}

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
            tlb_tags: k.machine.memory.as_ref().map(|memory| memory.tlb_tags > 0.0),
        };
        let kfuncs = Table::new();
        // SAFETY: the table is dropped after the copy.
        let copy = unsafe { Copy::load(instance, &topology, kfuncs.address()) }
            .map_err(|error| error.to_string())?;
        let rt = Runtime::new(copy.ops().clone(), copy.name(), kfuncs.address(), k)?;
        Ok(Ext {
            control: Controller::new(instance, &topology, profile, &copy)?,
            copy: Some(copy),
            rt: Box::new(rt),
            _kfuncs: kfuncs,
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

    fn timer(&mut self, k: &mut Kernel, number: u32, start: u32) {
        self.rt.timer_expires(k, number, start);
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

    fn set_cgroup(&mut self, k: &mut Kernel, task: TaskId, from: u64) {
        let rt = &mut *self.rt;
        let to = rt.cgroup(k.tasks[task].cgroup);
        let (p, from) = (rt.pointer(task), rt.cgroup(from));
        callback!(rt, k, cgroup_move(p, from, to), Some(task));
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
        let Some(copy) = &self.copy else { return Vec::new() };
        let total = |name: &&'static str| {
            let at = copy.symbol(name).expect("a policy has the counters that it names");
            // SAFETY: such a counter is a u64.
            (*name, unsafe { at.cast::<u64>().read() })
        };
        self.instance.policy.totals.iter().map(total).collect()
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
