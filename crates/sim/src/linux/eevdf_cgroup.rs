// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups of Linux 6.12 and later: the work on each level between a task's queue and the root's
//! (CONFIG_FAIR_GROUP_SCHED). Without cgroups there is one level.

use super::eevdf::{Eevdf, Leaving};
use super::eevdf_queue::{EntityId, Placing};
use super::eevdf_tree::CfsId;
use crate::ids::{CpuId, TaskId};
use crate::kernel::Kernel;
use crate::pelt::Avg;

impl Eevdf {
    /// `cfs_rq_of`: the queue of a task's group on a CPU.
    #[inline]
    pub(super) fn cfs_of(&self, k: &Kernel, cpu: CpuId, task: TaskId) -> CfsId {
        self.tree.queue_of(k.tasks[task].cgroup as usize - 1, cpu)
    }

    /// Whether a task counts as SCHED_IDLE on its CPU (`h_nr_idle`).
    pub(super) fn counts_as_idle(&self, k: &Kernel, task: TaskId) -> bool {
        k.tasks[task].has_idle_policy()
            || self.tree.groups[k.tasks[task].cgroup as usize - 1].idle_within
    }

    /// `se_is_idle`.
    pub(super) fn is_idle_entity(&self, k: &Kernel, entity: EntityId) -> bool {
        match self.tree.below(entity) {
            None => k.tasks[entity].has_idle_policy(),
            Some(cfs) => self.tree.groups[self.tree.group(cfs)].idle,
        }
    }

    /// Tasks that wait on a CPU, in no order.
    pub(super) fn waiting(&self, cpu: CpuId) -> Vec<TaskId> {
        let queues = self.tree.of_cpu(cpu).map(|cfs| &self.cfs[cfs].queue);
        let entities = queues.flat_map(|queue| queue.waiting());
        entities.filter(|entity| self.tree.below(*entity).is_none()).collect()
    }

    /// `update_cfs_rq_load_avg`, without charge.
    pub(super) fn update_cfs(&mut self, now_ns: u64, cfs: CfsId) {
        let cpu = self.tree.cpu(cfs);
        let rate = self.busy_rate(cpu);
        let runnable = if cfs == cpu { self.rqs[cpu].runnable } else { 0 };
        let of = &mut self.cfs[cfs];
        if of.throttles > 0 && of.queue.len(&self.entities) == 0 {
            // `tg_throttle_down`: its clock stands.
            return of.avg.skip_to(now_ns);
        }
        let load = of.queue.load(&self.entities);
        of.avg.update_at(rate, now_ns, load, runnable, of.queue.curr.is_some());
    }

    /// `update_blocked_averages`: brings the groups' loads on a CPU up to now. No other code does so for a group whose
    /// tasks there all sleep or have left.
    pub(super) fn update_blocked(&mut self, k: &mut Kernel, cpu: CpuId) {
        for cfs in self.tree.of_cpu(cpu).skip(1) {
            if self.cfs[cfs].has_load() {
                self.update_cfs(k.now_ns(), cfs);
                self.contribute(k, cfs);
            }
        }
    }

    /// `update_tg_load_avg`. A CPU that is offline contributes nothing.
    pub(super) fn contribute(&mut self, k: &mut Kernel, cfs: CfsId) {
        let online = k.cpus[self.tree.cpu(cfs)].online;
        if online && self.tree.contribute(cfs, &mut self.cfs[cfs], k.now_ns()) {
            let group = self.tree.group(cfs);
            k.atomic(&mut self.tree.groups[group].line);
        }
    }

    /// `update_load_avg` of a group's entity and the queue that it is on.
    fn update_above(&mut self, k: &mut Kernel, cfs: CfsId) {
        let Some((entity, above)) = self.tree.above(cfs) else { return };
        k.call(self.func.update_load_avg);
        let now_ns = k.now_ns();
        self.update_cfs(now_ns, above);
        if self.tree.group(above) > 0 {
            self.contribute(k, above);
        }
        let rate = self.busy_rate(self.tree.cpu(cfs));
        let entity = &self.entities[entity];
        let (load, rate) = if entity.on_rq { (entity.load(), rate) } else { (0, 1.0) };
        self.cfs[cfs].own.update_at(rate, now_ns, load, 0, false);
    }

    /// `update_cfs_group`: the weight of a group's entity follows the group's load here.
    fn reweight(&mut self, cfs: CfsId) {
        let Some((entity, above)) = self.tree.above(cfs) else { return };
        if self.cfs[cfs].queue.load(&self.entities) == 0 {
            return;
        }
        let was = self.entities[entity].weight;
        let weight = self.tree.shares(cfs, &self.cfs[cfs], &self.entities);
        if weight == was {
            return;
        }
        let (entities, tick_ns) = (&mut self.entities, self.tick_ns);
        self.cfs[above].queue.reweight(entities, entity, weight, tick_ns);
        let load = self.cfs[cfs].own.load * weight as f64 / was as f64;
        self.set_own_load(cfs, above, load);
    }

    /// Sets the load of a group's entity, and with it that of the queue that it is on.
    fn set_own_load(&mut self, cfs: CfsId, above: CfsId, load: f64) {
        let was = std::mem::replace(&mut self.cfs[cfs].own.load, load);
        let avg = &mut self.cfs[above].avg;
        avg.load = (avg.load + load - was).max(0.0);
    }

    /// `attach_entity_load_avg` and `propagate_entity_load_avg`: the load of a task of this weight joins its queue and
    /// those above.
    pub(super) fn join_load(&mut self, cfs: CfsId, avg: &Avg, weight: u64) {
        self.cfs[cfs].avg.add(avg);
        let part = avg.load / weight.max(1) as f64;
        let mut at = cfs;
        while let Some((entity, above)) = self.tree.above(at) {
            let most = self.entities[entity].load() as f64;
            let load = (self.cfs[at].own.load + part * most).min(most);
            self.set_own_load(at, above, load);
            self.cfs[above].avg.add(&avg.with_load(0.0));
            at = above;
        }
    }

    /// `detach_entity_load_avg` and `propagate_entity_load_avg`.
    pub(super) fn leave_load(&mut self, cfs: CfsId, avg: &Avg) {
        self.cfs[cfs].avg.sub(avg);
        let mut at = cfs;
        while let Some((entity, above)) = self.tree.above(at) {
            let of = &self.cfs[at];
            let queued = of.queue.load(&self.entities) as f64;
            let part = if queued > 0.0 { of.avg.load / queued } else { 0.0 };
            let load = of.own.load.min(part * self.entities[entity].load() as f64);
            self.set_own_load(at, above, load);
            self.cfs[above].avg.sub(&avg.with_load(0.0));
            at = above;
        }
    }

    /// `task_h_load`: a task's load as that of a task of no group.
    pub(super) fn h_load(&self, task: TaskId) -> f64 {
        let mut load = self.habits[task].avg.load;
        let mut at = self.habits[task].cfs;
        while let Some((cfs, (_, above))) = at.and_then(|cfs| Some((cfs, self.tree.above(cfs)?))) {
            load *= self.cfs[cfs].own.load / (self.cfs[cfs].avg.load + 1.0);
            at = Some(above);
        }
        load
    }

    /// The rest of `enqueue_task_fair`: a queue has got an entity, and groups that had none here are queued.
    pub(super) fn enqueue_above(&mut self, k: &mut Kernel, mut cfs: CfsId) {
        while let Some((entity, above)) = self.tree.above(cfs) {
            self.check_enqueue_throttle(k, cfs);
            self.update_above(k, cfs);
            let queued = self.entities[entity].on_rq;
            if self.entities[entity].delayed {
                self.cfs[above].queue.revive(&mut self.entities, entity, self.tick_ns);
            }
            self.reweight(cfs);
            if !queued {
                k.call(self.func.place_entity);
                self.cfs[above].queue.enqueue(&mut self.entities, entity, Placing::Back);
            }
            cfs = above;
        }
    }

    /// The rest of `dequeue_entities`: a group's entity leaves too if its queue is empty, unless it is in debt
    /// (DELAY_DEQUEUE).
    pub(super) fn dequeue_above(&mut self, k: &mut Kernel, mut cfs: CfsId, leaving: Leaving) {
        let mut goes = true;
        while let Some((entity, above)) = self.tree.above(cfs) {
            self.update_above(k, cfs);
            goes &= self.cfs[cfs].queue.len(&self.entities) == 0;
            if goes {
                self.return_runtime(k, cfs);
                let queue = &mut self.cfs[above].queue;
                goes = leaving == Leaving::Throttled || queue.eligible(&self.entities, entity);
                match goes {
                    true => queue.dequeue(&mut self.entities, entity, true, self.tick_ns),
                    false => queue.delay(&mut self.entities, entity, self.tick_ns),
                }
            } else {
                self.reweight(cfs);
            }
            cfs = above;
        }
    }

    /// `task_tick_fair` on the levels above a task's.
    pub(super) fn tick_above(&mut self, k: &mut Kernel, mut cfs: CfsId) {
        while let Some((_, above)) = self.tree.above(cfs) {
            self.update_above(k, cfs);
            self.reweight(cfs);
            cfs = above;
        }
    }

    /// `pick_next_entity`: the entity of one queue. Sleepers that have paid their debt are dequeued on the way, as are
    /// groups without tasks.
    pub(super) fn pick_entity(&mut self, k: &mut Kernel, cfs: CfsId) -> Option<EntityId> {
        loop {
            k.call(self.func.pick_eevdf);
            let next = self.cfs[cfs].queue.pick(&self.entities)?;
            if !self.entities[next].delayed {
                return Some(next);
            }
            let cpu = self.tree.cpu(cfs);
            k.enter(self.func.dequeue_rest);
            if self.tree.below(next).is_none() {
                self.update_load(k, cpu, next);
                self.detach(k, cpu, next, Leaving::Sleeps);
            } else {
                self.cfs[cfs].queue.dequeue(&mut self.entities, next, true, self.tick_ns);
                self.dequeue_above(k, cfs, Leaving::Sleeps);
            }
            k.leave();
        }
    }

    /// `pick_task_fair`: from the root's queue down. A task whose group lacks CPU time is dequeued on the way.
    pub(super) fn pick_task(&mut self, k: &mut Kernel, cpu: CpuId) -> Option<TaskId> {
        let mut cfs = cpu;
        loop {
            self.check_runtime(k, cfs);
            match self.pick_entity(k, cfs) {
                None if cfs == cpu => return None,
                // Its last sleeper has been dequeued, and so has the group.
                None => cfs = cpu,
                Some(next) => match self.tree.below(next) {
                    Some(below) => cfs = below,
                    // One that ends may hold what others wait for [throttle_cfs_rq_work].
                    None if self.cfs[cfs].throttles == 0 || k.tasks[next].exiting => {
                        return Some(next);
                    }
                    None => {
                        self.throttle_task(k, cpu, next);
                        cfs = cpu;
                    }
                },
            }
        }
    }

    /// `put_prev_entity` from a task's queue up to the one that it shares with the next task's path.
    pub(super) fn put_path(
        &mut self,
        k: &mut Kernel,
        cpu: CpuId,
        task: TaskId,
        runnable: bool,
        next: Option<TaskId>,
    ) {
        let mut at = (task, self.cfs_of(k, cpu, task));
        let shared = next.map(|next| self.tree.matching(at, (next, self.cfs_of(k, cpu, next))).0);
        loop {
            let (entity, cfs) = at;
            if self.cfs[cfs].queue.curr == Some(entity) {
                self.cfs[cfs].queue.put_prev(&mut self.entities, entity);
            }
            match self.tree.above(cfs) {
                Some(above) if shared != Some(cfs) => at = above,
                _ => return,
            }
            if runnable {
                k.call(self.func.put_prev);
                self.update_above(k, cfs);
            }
        }
    }

    /// `set_next_entity` from a task's queue up to one that already runs this path.
    pub(super) fn set_path(&mut self, k: &mut Kernel, cpu: CpuId, task: TaskId) {
        let mut at = (task, self.cfs_of(k, cpu, task));
        loop {
            let (entity, cfs) = at;
            self.cfs[cfs].queue.set_next(&mut self.entities, entity);
            match self.tree.above(cfs) {
                Some(above) if self.cfs[above.1].queue.curr != Some(above.0) => at = above,
                _ => return,
            }
            k.call(self.func.set_next);
            self.update_above(k, cfs);
        }
    }
}
