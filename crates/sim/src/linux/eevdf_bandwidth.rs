// SPDX-License-Identifier: GPL-2.0-only
//! `cpu.max` of cgroups: CFS bandwidth control as since Linux 6.18, which throttles task by task.
//!
//! Each queue of a limited group takes slices of CPU time from the group's pool. A queue that gets none is throttled:
//! each of its tasks is dequeued when it is picked, and waits until the next period fills the pool. The kernel dequeues
//! it after the switch, before it returns to its own code. Only locks, timers and interrupts of bandwidth control cost
//! time here, and not its functions.

use policy::Quota;

use super::eevdf::{Eevdf, Leaving};
use super::eevdf_pool::{KEPT_NS, SLACK_BEFORE_NS, SLACK_NS, SLICE_NS};
use super::eevdf_tree::{CfsId, GroupId};
use crate::class::{Class, enqueue};
use crate::event::{Due, Irq};
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::task::State;

/// A group's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Period,
    Slack,
}

impl Eevdf {
    /// `account_cfs_rq_runtime`: the queue's task has run for so long.
    pub(super) fn account_runtime(&mut self, k: &mut Kernel, cfs: CfsId, ran_ns: i64) {
        let of = &mut self.cfs[cfs];
        of.remaining_ns -= ran_ns;
        if of.remaining_ns > 0 || of.throttled || self.take_runtime(k, cfs, SLICE_NS as i64) {
            return;
        }
        let cpu = self.tree.cpu(cfs);
        // A task that blocks leaves anyway.
        let runs = |curr: TaskId| k.tasks[curr].state == State::Running;
        if self.cfs[cfs].queue.curr.is_some() && self.rqs[cpu].curr.is_some_and(runs) {
            k.resched(cpu);
        }
    }

    /// `assign_cfs_rq_runtime`: fills the queue up to `target_ns`, if the pool has that. Returns whether it has some.
    fn take_runtime(&mut self, k: &mut Kernel, cfs: CfsId, target_ns: i64) -> bool {
        let group = self.tree.group(cfs);
        k.lock(self.tree.pool(group).lock);
        self.arm_period(k, group);
        let pool = self.tree.pool(group);
        self.cfs[cfs].remaining_ns += pool.take(target_ns - self.cfs[cfs].remaining_ns);
        k.unlock(pool.lock);
        self.cfs[cfs].remaining_ns > 0
    }

    /// `return_cfs_rq_runtime`: the queue is empty, and keeps only a little.
    pub(super) fn return_runtime(&mut self, k: &mut Kernel, cfs: CfsId) {
        let slack_ns = self.cfs[cfs].remaining_ns - KEPT_NS;
        if !self.cfs[cfs].limited || slack_ns <= 0 {
            return;
        }
        self.cfs[cfs].remaining_ns = KEPT_NS;
        let group = self.tree.group(cfs);
        k.lock(self.tree.pool(group).lock);
        let pool = self.tree.pool(group);
        let others_wait = pool.put_back(slack_ns);
        let soon = pool.refills_within(k.now_ns(), SLACK_NS + SLACK_BEFORE_NS);
        if others_wait && !soon && !std::mem::replace(&mut pool.slack_armed, true) {
            let at_ns = k.now_ns() + SLACK_NS;
            self.arm(k, group, Timer::Slack, at_ns);
        }
        k.unlock(self.tree.pool(group).lock);
    }

    /// `check_enqueue_throttle`: the queue has got its first entity.
    pub(super) fn check_enqueue_throttle(&mut self, k: &mut Kernel, cfs: CfsId) {
        let of = &self.cfs[cfs];
        let first = of.queue.curr.is_none() && of.queue.len(&self.entities) == 1;
        if !of.limited || !first || of.throttled {
            return;
        }
        self.account_runtime(k, cfs, 0);
        self.check_runtime(k, cfs);
    }

    /// `check_cfs_rq_runtime`: throttles a queue that has used up its time.
    pub(super) fn check_runtime(&mut self, k: &mut Kernel, cfs: CfsId) {
        let of = &self.cfs[cfs];
        if of.limited && of.remaining_ns <= 0 && !of.throttled {
            self.throttle(k, cfs);
        }
    }

    /// `throttle_cfs_rq`.
    fn throttle(&mut self, k: &mut Kernel, cfs: CfsId) {
        // The pool may have been filled meanwhile.
        if self.take_runtime(k, cfs, 1) {
            return;
        }
        let group = self.tree.group(cfs);
        self.tree.pool(group).throttled.push(cfs);
        self.cfs[cfs].throttled = true;
        for within in self.tree.within(cfs) {
            self.cfs[within].throttles += 1;
        }
    }

    /// `throttle_cfs_rq_work`: a picked task waits for its group's limit.
    pub(super) fn throttle_task(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        k.enter(self.func.dequeue);
        self.update_load(k, cpu, task);
        self.detach(k, cpu, task, Leaving::Throttled);
        self.enter_limbo(k, cpu, task);
        k.leave();
    }

    fn enter_limbo(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        let cfs = self.cfs_of(k, cpu, task);
        self.cfs[cfs].limbo.push(task);
        self.habits[task].throttled = true;
        k.cpus[cpu].throttled += 1;
    }

    /// `dequeue_throttled_task`: a task leaves its group's queue, and may come to another that is throttled.
    pub(super) fn leave_limbo(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        let cfs = self.cfs_of(k, cpu, task);
        self.cfs[cfs].limbo.retain(|other| *other != task);
        k.cpus[cpu].throttled -= 1;
    }

    /// `enqueue_throttled_task`: a task that waited for a limit comes to a queue. Returns whether it waits for the limit
    /// there.
    pub(super) fn still_waits(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) -> bool {
        if !std::mem::take(&mut self.habits[task].throttled) {
            return false;
        }
        let waits = self.cfs[self.cfs_of(k, cpu, task)].throttles > 0;
        if waits {
            self.enter_limbo(k, cpu, task);
        } else if k.cpus[cpu].curr.is_none() {
            k.resched(cpu);
        }
        waits
    }

    /// `unthrottle_cfs_rq`: its tasks are queued again, unless a group above or within lacks time. The runqueue is
    /// locked.
    fn unthrottle(&mut self, k: &mut Kernel, cfs: CfsId) {
        let of = &mut self.cfs[cfs];
        if of.limited && of.remaining_ns <= 0 || !of.throttled {
            return;
        }
        of.throttled = false;
        let (group, cpu) = (self.tree.group(cfs), self.tree.cpu(cfs));
        let lock = self.tree.pool(group).lock;
        k.lock(lock);
        self.tree.pool(group).throttled.retain(|other| *other != cfs);
        k.unlock(lock);
        let mut tasks = Vec::new();
        for within in self.tree.within(cfs) {
            let of = &mut self.cfs[within];
            of.throttles -= 1;
            if of.throttles == 0 {
                of.avg.skip_to(k.now_ns());
                tasks.extend_from_slice(&of.limbo);
            }
        }
        for task in tasks {
            self.leave_limbo(k, cpu, task);
            self.habits[task].throttled = false;
            self.habits[task].avg.skip_to(k.now_ns());
            self.enqueue(k, cpu, task, enqueue::WAKEUP);
        }
        if k.cpus[cpu].curr.is_none() && self.rqs[cpu].runnable > 0 {
            k.resched(cpu);
        }
    }

    /// `__cfsb_csd_unthrottle`: queues of this CPU that another one has given time.
    pub(super) fn unthrottle_given(&mut self, k: &mut Kernel, cpu: CpuId) {
        let given = std::mem::take(&mut self.rqs[cpu].given);
        if given.is_empty() {
            return;
        }
        k.rq_lock(cpu);
        k.call(k.func.update_rq_clock);
        for cfs in given {
            self.unthrottle(k, cfs);
        }
        k.rq_unlock(cpu);
    }

    /// `distribute_cfs_runtime`: throttled queues pay their debts from the pool, the first one first. No lock is held.
    fn distribute(&mut self, k: &mut Kernel, group: GroupId) {
        for cfs in self.tree.pool(group).throttled.clone() {
            let cpu = self.tree.cpu(cfs);
            k.rq_lock(cpu);
            let lacks_ns = 1 - self.cfs[cfs].remaining_ns;
            if lacks_ns > 0 {
                let pool = self.tree.pool(group);
                k.lock(pool.lock);
                self.cfs[cfs].remaining_ns += pool.take(lacks_ns);
                k.unlock(pool.lock);
                if self.cfs[cfs].remaining_ns > 0 {
                    self.rqs[cpu].given.push(cfs);
                    k.raise_irq_work_on(cpu);
                }
            }
            k.rq_unlock(cpu);
            if self.tree.pool(group).is_empty() {
                return;
            }
        }
    }

    /// `start_cfs_bandwidth`: the timer of the period, which ends with a period in which nothing was needed.
    fn arm_period(&mut self, k: &mut Kernel, group: GroupId) {
        let pool = self.tree.pool(group);
        let Some(Quota { period_ns, .. }) = pool.quota() else { return };
        if pool.period_ns.is_none() {
            let at_ns = k.now_ns() + period_ns;
            pool.period_ns = Some(at_ns);
            self.arm(k, group, Timer::Period, at_ns);
        }
    }

    fn arm(&mut self, k: &mut Kernel, group: GroupId, timer: Timer, at_ns: u64) {
        let start = &mut self.tree.pool(group).starts[timer as usize];
        *start = start.wrapping_add(1);
        let number = 2 * group as u32 + timer as u32;
        let irq = Irq::Class { number, start: *start };
        k.charge(k.whole.timer_rearm_ns);
        k.queue.push(at_ns, Due::Irq { cpu: k.this_cpu() as u16, irq });
    }

    /// A timer of a group has expired. No lock is held.
    pub(super) fn bandwidth_timer(&mut self, k: &mut Kernel, number: u32, start: u32) {
        let (group, which) = (number as usize / 2, number as usize % 2);
        if self.tree.pool(group).starts[which] != start {
            return;
        }
        match which == Timer::Period as usize {
            true => self.period_begins(k, group),
            false => self.slack_is_due(k, group),
        }
    }

    /// `do_sched_cfs_period_timer`.
    fn period_begins(&mut self, k: &mut Kernel, group: GroupId) {
        let lock = self.tree.pool(group).lock;
        k.lock(lock);
        let pool = self.tree.pool(group);
        let throttled = !pool.throttled.is_empty();
        pool.refill();
        if pool.quota().is_none() || pool.idle && !throttled {
            pool.period_ns = None;
            return k.unlock(lock);
        }
        pool.idle = !throttled;
        let at_ns = pool.forward(k.now_ns());
        self.arm(k, group, Timer::Period, at_ns);
        k.unlock(lock);
        self.distribute(k, group);
    }

    /// `do_sched_cfs_slack_timer`: queues that wait get what others have returned.
    fn slack_is_due(&mut self, k: &mut Kernel, group: GroupId) {
        let pool = self.tree.pool(group);
        pool.slack_armed = false;
        if !pool.refills_within(k.now_ns(), SLACK_BEFORE_NS) && pool.has_slack() {
            self.distribute(k, group);
        }
    }

    /// `tg_set_cfs_bandwidth`: a group has another limit, or none.
    pub(super) fn set_limit(&mut self, k: &mut Kernel, group: GroupId, quota: Option<Quota>) {
        let pool = self.tree.pool(group);
        let lock = pool.lock;
        k.lock(lock);
        pool.set_quota(quota);
        // The timer of a period that goes on has the old length.
        pool.period_ns = None;
        self.arm_period(k, group);
        k.unlock(lock);
        for cpu in k.online.iter().collect::<Vec<_>>() {
            k.rq_lock(cpu);
            self.set_limited(k, self.tree.queue_of(group, cpu), quota.is_some());
            k.rq_unlock(cpu);
        }
    }

    /// Gives a queue a limit, or takes it away. The runqueue is locked.
    fn set_limited(&mut self, k: &mut Kernel, cfs: CfsId, limited: bool) {
        self.cfs[cfs].limited = limited;
        self.cfs[cfs].remaining_ns = 1;
        self.unthrottle(k, cfs);
    }

    /// `rq_offline_fair` and `rq_online_fair`: nothing is limited on a CPU that goes offline.
    pub(super) fn hotplug_groups(&mut self, k: &mut Kernel, cpu: CpuId, online: bool) {
        k.rq_lock(cpu);
        for cfs in self.tree.of_cpu(cpu).skip(1) {
            let limited = online && self.tree.is_limited(cfs);
            self.set_limited(k, cfs, limited);
            if !online {
                self.tree.set_contribution(cfs, &mut self.cfs[cfs], 0.0);
            }
        }
        k.rq_unlock(cpu);
    }
}
